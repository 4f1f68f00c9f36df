//! Ranks that are killed when all are done with each other, while somebody stands in for the programs of
//! the others: they start again, and get what they got.

use super::*;
use rustix::process::{Signal, kill_process};
use taffrail::{Dest, Endpoint, Job, Pattern};

/// Messages that rank 1 gets from each of the others.
const EACH: u64 = 200;
/// Words of a message: some are long.
const LONGEST: usize = 20_000;

/// Rank 1 receives from anybody, and kills itself when it has finished; the others stand by. Alone it
/// does nothing.
#[test]
fn a_rank_that_stands_by() {
    let Some(dir) = std::env::var_os("STANDING_BY") else { return };
    let dir = Path::new(&dir);
    let life: u32 = std::env::var("TAFFRAIL_INCARNATION").unwrap().parse().unwrap();
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let sum = if endpoint.rank() == 1 { receive(&mut endpoint) } else { send(&mut endpoint) };
    endpoint.finish();
    let results = |life: u32| dir.join(format!("sum.{life}"));
    if endpoint.rank() == 1 {
        std::fs::write(dir.join("new"), sum.to_string()).unwrap();
        std::fs::rename(dir.join("new"), results(life)).unwrap();
        if life < 2 {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
    }
    while !results(2).exists() {
        endpoint.stand_in();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn receive(endpoint: &mut Endpoint) -> u64 {
    let mut into = vec![0; 8 * LONGEST];
    let mut sum: u64 = 0;
    for _ in 0..EACH * u64::from(endpoint.size() - 1) {
        let status = endpoint.recv(Pattern::any_source(1), &mut into).unwrap();
        let first = u64::from_le_bytes(into[..8].try_into().unwrap());
        // The order matters.
        sum = sum.wrapping_mul(31).wrapping_add(first + status.len as u64);
        let answer = Dest::new(status.source, 2);
        endpoint.send(answer, &sum.to_le_bytes()).unwrap();
    }
    sum
}

fn send(endpoint: &mut Endpoint) -> u64 {
    let me = u64::from(endpoint.rank());
    for number in 0..EACH {
        let words = if number % 8 == 0 { LONGEST } else { 1 + number as usize % 90 };
        let message = (me * 1000 + number).to_le_bytes().repeat(words);
        endpoint.send((1, 1), &message).unwrap();
        endpoint.recv((1, 2), &mut [0; 8]).unwrap();
    }
    0
}

#[test]
fn a_rank_that_is_killed_when_all_have_finished_is_replayed_by_who_stands_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = taffrail(&["run", "-n", "3", "--sets", "rank", "--timeout", "100"]);
    command.args(LOGGED).arg(std::env::current_exe().unwrap());
    let this = "restarts::standing_in::a_rank_that_stands_by";
    command.args(["--exact", this, "--nocapture", "--quiet"]).env("STANDING_BY", dir.path());
    let job = ended(command.output().unwrap(), Instant::now());
    assert_eq!(job.status, 0, "{}", job.err);
    let sum = |life| std::fs::read_to_string(dir.path().join(format!("sum.{life}"))).unwrap();
    assert_eq!((sum(1), sum(2)), (sum(0), sum(0)), "{}", job.err);
    assert!(job.err.contains("2 failures; 2 processes started again"), "{}", job.err);
}
