//! Long messages of which far more are sent than their receiver receives meanwhile.

use super::messages::{bytes, joined, line};
use super::ranks::{program, said};
use super::*;
use std::path::Path;
use taffrail::{Endpoint, Request};

/// The folder in which the sender says that it has begun all of its sends.
const FOLDER: &str = "FLOODS_FOLDER";
const BEGUN: &str = "begun";
/// What the receiver does until then.
const HOW: &str = "FLOODS_HOW";

/// Without logging those of more than 64 KiB are announced; logged ones leave without asking.
const LENGTHS: [usize; 4] = [64 << 10, 256 << 10, 64 << 10, 1 << 20];
/// Together 137 MiB, of which 12 are not announced.
const MESSAGES: usize = 400;
/// Polls of a receiver that takes in what comes, when all sends have begun.
const POLLS: usize = 20_000;

/// The memory that unreceived messages may take.
const LIMIT_MIB: u64 = 2;
/// The memory that the log of a rank has, beside a file.
const LOG_MIB: u64 = 16;
/// What libraries allocate, and what was on its way when the sender was stopped, come on top: up to 64 fragments of the log, of 64 KiB.
const MORE_MIB: u64 = 8;

fn len(number: usize) -> usize {
    LENGTHS[number % LENGTHS.len()]
}

/// The most memory that this process had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Rank 0 sends, and rank 1 receives when all sends have begun. Both say what that has taken of their memory at the most.
#[test]
fn a_rank_of_a_flood() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (_job, mut ep) = joined();
    let me = ep.rank();
    let begun = Path::new(&folder).join(BEGUN);
    let longest = LENGTHS.into_iter().max().unwrap();
    let (all, mut into) = (bytes(longest + MESSAGES, 0), vec![1; longest]);
    // Both are connected, and have used their buffers.
    ep.sendrecv((1 - me, 1), &all[..64], (1 - me, 1), &mut into[..64]).unwrap();
    let before = peak();
    match me {
        0 => send_all(&mut ep, &all, &begun),
        _ => {
            wait_for(&mut ep, &begun);
            for number in 0..MESSAGES {
                let status = ep.recv((0, 2), &mut into).unwrap();
                let expected = &all[number..][..len(number)];
                assert!(into[..status.len] == *expected, "message {number}");
            }
        }
    }
    let grown = peak() - before;
    ep.sendrecv((1 - me, 3), &[], (1 - me, 3), &mut []).unwrap();
    line(&format!("rank {me}: {grown} KiB"));
}

fn send_all(ep: &mut Endpoint, all: &[u8], begun: &Path) {
    ep.scope(|scope| {
        let send = |number: usize| scope.isend((1, 2), &all[number..][..len(number)]);
        let sends: Vec<Request> = (0..MESSAGES).map(send).collect::<Result<_, _>>()?;
        std::fs::write(begun, []).unwrap();
        scope.wait_all(&sends)
    })
    .unwrap();
}

/// Takes in what comes, and receives nothing of it, or does not poll at all.
fn wait_for(ep: &mut Endpoint, begun: &Path) {
    let polls = std::env::var(HOW).unwrap() == "polls";
    let ready = soon(|| {
        if polls {
            assert_eq!(ep.probe((0, 4)).unwrap(), None, "nobody sends this");
        }
        begun.exists()
    });
    assert!(ready, "the sender waits for its receiver");
    for _ in 0..if polls { POLLS } else { 0 } {
        assert_eq!(ep.probe((0, 4)).unwrap(), None, "nobody sends this");
    }
}

/// All comes, in order, and the memory of both stays within what the user allows: sends begin at once, and what is not received waits at its
/// sender, in the program's memory or in the log.
#[test]
fn a_sender_of_long_messages_that_is_far_ahead_waits() {
    let pessimistic = ["--logging", "pessimistic"];
    for (options, log) in [(&[][..], 0), (&pessimistic, LOG_MIB)] {
        for how in ["polls", "computes"] {
            let folder = tempfile::tempdir().unwrap();
            let job = Job::on("a:1,b:1").with(&["--network", "lo", "-n", "2"]).with(options);
            let environment = [
                format!("{FOLDER}={}", folder.path().display()),
                format!("{HOW}={how}"),
                format!("TAFFRAIL_UNEXPECTED_MAX={LIMIT_MIB}M"),
            ];
            let mut job = job.with(&["env"]);
            job.args.extend(environment);
            let mut job = job.with(&program("floods::a_rank_of_a_flood"));
            job.before = vec!["env".to_owned(), format!("TAFFRAIL_LOG_MEMORY={LOG_MIB}M")];
            let ended = job.run();
            let said = said(&ended);
            assert_eq!((ended.status, said.len()), (0, 2), "{how}: {}{}", ended.out, ended.err);
            let most = [log, 0].map(|log| (log + LIMIT_MIB + MORE_MIB) << 10);
            for (rank, (said, most)) in said.iter().zip(most).enumerate() {
                let grown = said.strip_prefix(&format!("rank {rank}: ")).unwrap();
                let grown: u64 = grown.strip_suffix(" KiB").unwrap().parse().unwrap();
                println!("{options:?}, {how}, rank {rank}: {grown} KiB");
                assert!(grown < most, "{options:?}, {how}, rank {rank}: {grown} KiB");
            }
        }
    }
}

/// Sends of each length: in the end nothing fits between two of them that is as long as an acknowledgement.
const BOTH_WAYS: [(usize, usize); 4] = [(1000, 2000), (8, 30_000), (16 << 10, 200), (40, 20_000)];

/// Sends before it receives, as the other one does. The first of them are sent before there is a link.
#[test]
fn a_rank_that_floods_and_is_flooded() {
    if std::env::var(FOLDER).is_err() {
        return;
    }
    let (_job, mut ep) = joined();
    let other = 1 - ep.rank();
    let all = bytes(40_000, 0);
    let mut into = vec![1; 16 << 10];
    for (len, count) in BOTH_WAYS {
        ep.scope(|scope| {
            let send = |number: usize| scope.isend((other, 2), &all[number % 1000..][..len]);
            let sends: Vec<Request> = (0..count).map(send).collect::<Result<_, _>>()?;
            for number in 0..count {
                let status = scope.endpoint().recv((other, 2), &mut into)?;
                assert!(into[..status.len] == all[number % 1000..][..len], "message {number}");
            }
            scope.wait_all(&sends)
        })
        .unwrap();
    }
    line(&format!("rank {}: all", ep.rank()));
}

#[test]
fn two_ranks_that_flood_each_other_both_get_on() {
    for options in [&[][..], &["--logging", "pessimistic"]] {
        let job = Job::on("a:1,b:1").with(&["--network", "lo", "-n", "2"]).with(options);
        let job = job.with(&["env", &format!("{FOLDER}=-")]);
        let ended = job.with(&program("floods::a_rank_that_floods_and_is_flooded")).run();
        let expected = (0, vec!["rank 0: all", "rank 1: all"]);
        assert_eq!((ended.status, said(&ended)), expected, "{}{}", ended.out, ended.err);
    }
}
