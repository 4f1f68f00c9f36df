//! A rank whose program is over while another still waits for it: the other is told, also when it is
//! killed and replayed. Nobody waits for ever.

use super::*;
use taffrail::{Endpoint, Error, Job, Pattern, Rank};

/// Rank 1 sends two messages and is done. Rank 0 waits for more of it in every way there is, and prints
/// what it was told; then its first incarnation is killed.
#[test]
fn a_rank_that_waits_in_vain() {
    let Ok(late) = std::env::var("SILENCE") else { return };
    let late = late.parse().unwrap();
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    if job.rank() == 1 {
        endpoint.send((0, 1), b"one").unwrap();
        endpoint.send((0, 2), &vec![7; late]).unwrap();
        return;
    }
    let told = waits(&mut endpoint, late).join(" ");
    if std::env::var("TAFFRAIL_INCARNATION") == Ok("0".into()) {
        eprintln!("before: {told}");
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap();
    }
    println!("told: {told}");
}

/// What rank 0 hears of each of its operations.
fn waits(endpoint: &mut Endpoint, late: usize) -> Vec<String> {
    let mut short = [0; 8];
    let mut long = vec![0; late];
    let mut told = Vec::new();
    let mut say = |what: &str, result: Result<usize, Error>| {
        told.push(match result {
            Ok(len) => format!("{what}:{len}"),
            Err(Error::PeerFailed { rank, fault }) => format!("{what}:{rank}:{fault:?}"),
            Err(other) => panic!("{what}: {other}"),
        });
    };
    let one: Rank = 1;
    say("probe", probe(endpoint, Pattern::new(one, 3)));
    say("claim", claim(endpoint, Pattern::any_source(3)));
    say("short", endpoint.recv((one, 1), &mut short).map(|status| status.len));
    say("more", endpoint.recv((one, 1), &mut short).map(|status| status.len));
    say("sync", endpoint.send_sync((one, 5), &[1; 100]).map(|()| 0));
    say("long sync", endpoint.send_sync((one, 5), &vec![1; 2 << 20]).map(|()| 0));
    say("eager", endpoint.send((one, 6), &[1; 100]).map(|()| 0));
    say("any", endpoint.recv(Pattern::any_source(1), &mut short).map(|status| status.len));
    say("own", endpoint.send((0, 1), &[1]).map(|()| 0));
    say("any own", endpoint.recv(Pattern::any_source(1), &mut short).map(|status| status.len));
    say("late", endpoint.recv((one, 2), &mut long).map(|status| status.len));
    told
}

fn probe(endpoint: &mut Endpoint, from: Pattern) -> Result<usize, Error> {
    loop {
        if let Some(status) = endpoint.probe(from)? {
            return Ok(status.len);
        }
    }
}

fn claim(endpoint: &mut Endpoint, from: Pattern) -> Result<usize, Error> {
    loop {
        if let Some(claimed) = endpoint.claim(from)? {
            return Ok(claimed.status().len);
        }
    }
}

const TOLD: &str = "probe:1:Closed claim:1:Closed short:3 more:1:Closed sync:1:Closed \
                    long sync:1:Closed eager:0 any:1:Closed own:0 any own:1 late:";

/// The second message of rank 1 has this length.
fn run(late: usize, options: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "100", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "2"]);
    command.args(LOGGED).args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::silence::a_rank_that_waits_in_vain"]);
    command.args(["--nocapture", "--quiet"]).env("SILENCE", late.to_string()).stdin(Stdio::null());
    ended(command.output().unwrap(), Instant::now())
}

#[test]
fn who_waits_for_a_program_that_is_over_is_told_also_in_a_replay() {
    // Within a set a long message waits for its receiver.
    for (sets, late) in [("rank", 3 << 20), ("node", 20_000)] {
        for events in ["nondeterministic", "all"] {
            let job = run(late, &["--sets", sets, "--events", events]);
            let told = sorted(&job.out).into_iter().find(|line| line.starts_with("told: "));
            assert_eq!(told, Some(&*format!("told: {TOLD}{late}")), "{sets} {events}: {}", job.err);
            assert_eq!(job.status, 0, "{}", job.err);
            assert!(job.err.contains(&format!("before: {TOLD}{late}")), "{}", job.err);
        }
    }
}
