//! Ranks that look at their queue for as long as something else takes, as an MPI does while it waits for
//! its launcher: those looks are never as many again.

use super::*;
use taffrail::{Dest, Endpoint, Job, Pattern};

/// After this many rounds rank 0 is killed; from then on there is a pause in each round.
const QUIET: usize = 10;
/// After this many it is killed again, which its third life replays.
const PAUSED: usize = 18;
const ROUNDS: usize = 24;
/// The tag of what is said at the end.
const ACCOUNT: u64 = 1;

/// Looks that bring nothing.
fn pause(endpoint: &mut Endpoint, looks: u32) {
    for _ in 0..looks {
        assert_eq!(endpoint.next_ended().unwrap(), None, "nothing is under way");
    }
}

/// Sends a word to the next rank and gets one from the last one; how often it has looked in vain.
fn round(endpoint: &mut Endpoint, word: u64) -> (u64, u64) {
    let (me, size) = (endpoint.rank(), endpoint.size());
    let (sent, mut got) = (word.to_le_bytes(), [0; 8]);
    // SAFETY: both stay until the ends of both were told.
    unsafe {
        let last = Pattern::new((me + size - 1) % size, 0);
        let receive = endpoint.irecv_raw(last, got.as_mut_ptr(), 8).unwrap();
        endpoint.report(receive).unwrap();
        let send = endpoint.isend_raw(Dest::new((me + 1) % size, 0), sent.as_ptr(), 8).unwrap();
        endpoint.report(send).unwrap();
    }
    let (mut ended, mut in_vain) = (0, 0);
    while ended < 2 {
        match endpoint.next_ended().unwrap() {
            Some(_) => ended += 1,
            None => in_vain += 1,
        }
    }
    (u64::from_le_bytes(got), in_vain)
}

#[test]
fn a_rank_with_pauses() {
    if std::env::var_os("PAUSES").is_none() {
        return;
    }
    let incarnation: usize = std::env::var("TAFFRAIL_INCARNATION").unwrap().parse().unwrap();
    let looks = [3, 10, 5000][incarnation];
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let (me, size) = (endpoint.rank(), endpoint.size());
    pause(&mut endpoint, looks);
    // What it sends depends on how often it has looked before, while there are no pauses.
    let (mut word, mut sent, mut got) = (0, Vec::new(), Vec::new());
    for done in 0..ROUNDS {
        let die = me == 0 && [(0, QUIET), (1, PAUSED)].contains(&(incarnation, done));
        if die {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        if done >= QUIET {
            pause(&mut endpoint, looks);
        }
        sent.extend_from_slice(&u64::to_le_bytes(word));
        let (heard, in_vain) = round(&mut endpoint, word);
        got.extend_from_slice(&heard.to_le_bytes());
        let counts = if done < QUIET { in_vain } else { 0 };
        word = word
            .wrapping_mul(31)
            .wrapping_add(heard ^ (counts << 8))
            .wrapping_add(u64::from(me) + 1);
    }
    // Those who got it know what was sent before the kill.
    let mut said = vec![0; sent.len()];
    let last = (me + size - 1) % size;
    if me == 0 {
        endpoint.send(((me + 1) % size, ACCOUNT), &sent).unwrap();
        endpoint.recv((last, ACCOUNT), &mut said).unwrap();
    } else {
        endpoint.recv((last, ACCOUNT), &mut said).unwrap();
        endpoint.send(((me + 1) % size, ACCOUNT), &sent).unwrap();
    }
    assert_eq!(said, got, "what rank {last} says that it has sent to rank {me}");
    println!("rank {me} has settled");
}

#[test]
fn looks_while_nothing_is_under_way_need_not_be_as_many_again() {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "3"]);
    command.args(LOGGED).args(["--sets", "rank"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::pauses::a_rank_with_pauses", "--nocapture", "--quiet"]);
    command.env("PAUSES", "1").stdin(Stdio::null());
    let job = ended(command.output().unwrap(), Instant::now());
    let settled = job.out.lines().filter(|line| line.contains("settled")).count();
    assert_eq!((job.status, settled), (0, 3), "{}", job.err);
    assert_eq!(job.err.matches("restarting").count(), 2, "{}", job.err);
}
