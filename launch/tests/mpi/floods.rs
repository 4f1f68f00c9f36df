//! Senders that are far ahead of their receiver.

use super::installed::{self, Mpi};
use super::nodes::RANKS_ALONE;
use super::programs::{choose, kills, provider};
use super::*;
use std::path::Path;

const HERE: &[&str] = &["-n", "2"];
/// Both are this host.
const TWO_NODES: &[&str] =
    &["--rsh-agent", "env TAFFRAIL_TEST_PART={host}", "--hosts", "a:1,b:1", "--network", "lo"];

/// Where ranks are, and how they are logged: both in one set, or each alone.
const WAYS: [[&[&str]; 2]; 5] = [
    [HERE, &[]],
    [HERE, &["--logging", "pessimistic"]],
    [HERE, &RANKS_ALONE],
    [TWO_NODES, &[]],
    [TWO_NODES, &RANKS_ALONE],
];

const MESSAGES: &str = "120000";

/// The words of a message, and what the receiver does first. Messages of 8 bytes take 32 MB of a receiver that takes them in; those
/// of 800 take 130 MB, which neither sockets nor rings hold.
const FLOODS: [[&str; 2]; 3] = [["1", "probes"], ["100", "computes"], ["100", "stopped"]];

/// The memory that unreceived messages may take.
const LIMIT_MIB: u64 = 8;
/// What libraries allocate, and what waits at the sender, come on top.
const MOST_KIB: u64 = (LIMIT_MIB + 1) << 10;

fn flood(mpich: &Mpi, program: &Path, options: [&[&str]; 2], flood: [&str; 2]) -> Command {
    let program = [program.to_str().unwrap(), MESSAGES];
    let mut taffrail =
        taffrail(&[&["mpi"], options[0], options[1], &program[..], &flood[..]].concat());
    taffrail.env("TAFFRAIL_UNEXPECTED_MAX", format!("{LIMIT_MIB}M"));
    taffrail.env("TAFFRAIL_LOG_MEMORY", "16M");
    choose(mpich.choose(&mut taffrail));
    taffrail
}

/// By how many KiB the memory of a rank has grown at the most.
fn grown(job: &Ended, rank: u32) -> u64 {
    let before = format!("rank {rank} grown by ");
    let grown = job.out.lines().find_map(|line| line.strip_prefix(&before));
    grown.unwrap().strip_suffix(" KiB").unwrap().parse().unwrap()
}

fn checksum(job: &Ended) -> &str {
    assert_eq!(job.status, Some(0), "{job:?}");
    let mut all = job.out.lines();
    all.rfind(|line| line.starts_with("checksum ")).expect("rank 0 says it")
}

/// Nobody is cut off, all comes, and the memory of both stays within what the user allows: the sender waits.
#[test]
fn a_sender_that_is_far_ahead_waits() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("flood", folder.path());
    let mut answers = Vec::new();
    for options in WAYS {
        for how in FLOODS {
            let job = ended(&mut flood(&mpich, &program, options, how));
            answers.push(checksum(&job).to_owned());
            assert_eq!(answers[0], answers[answers.len() - 1], "{options:?}, {how:?}: {job:?}");
            for rank in 0..2 {
                let kib = grown(&job, rank);
                assert!(kib < MOST_KIB, "{options:?}, {how:?}, rank {rank}: {kib} KiB");
            }
        }
    }
}

/// A sender that sends all again that a successor lacks is not far ahead of it, and neither is a successor of the sender.
#[test]
fn ranks_that_are_killed_in_a_flood_are_not_missed() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("flood", folder.path());
    let peace = ended(&mut flood(&mpich, &program, WAYS[0], FLOODS[0]));
    for nodes in [HERE, TWO_NODES] {
        for kill in ["0 30000 0", "1 40000 0"] {
            let mut command = flood(&mpich, &program, [nodes, &RANKS_ALONE], FLOODS[1]);
            let job = ended(command.env("KILL", kill));
            assert_eq!(checksum(&job), checksum(&peace), "{nodes:?}, {kill}: {job:?}");
            assert!(job.err.contains("; restarting "), "{nodes:?}, {kill}: {job:?}");
        }
    }
}
