//! MPI programs over several nodes: this host is both, with an agent for each.

use super::installed::{self, Mpi};
use super::programs::{addresses_stay, answers, choose, kills, provider, random};
use super::*;
use std::path::Path;

/// Two nodes with two ranks each, so that every rank has peers in shared memory and beyond sockets.
const NODES: [&str; 6] =
    ["--rsh-agent", "env TAFFRAIL_TEST_PART={host}", "--hosts", "a:2,b:2", "-n", RANKS];

pub const RANKS: &str = "4";

/// Where a job is started, and the options that name its nodes.
pub struct Where<'a> {
    pub from: Host,
    pub nodes: &'a [&'a str],
}

/// The programs, and how many steps each does.
const PROGRAMS: [(&str, u32); 2] = [("ring", 30), ("comms", 10)];

/// A program over both nodes, which is killed as `kill` says: see `common.h`.
fn over_nodes(mpi: &Mpi, options: &[&str], (program, steps): (&Path, u32), kill: &str) -> Ended {
    let here = Where { from: Host::here(), nodes: &NODES };
    ended(program_over(&here, mpi, options, (program, steps)).env("KILL", kill))
}

/// The command that runs a program over nodes.
pub fn program_over(
    at: &Where<'_>,
    mpi: &Mpi,
    options: &[&str],
    (program, steps): (&Path, u32),
) -> Command {
    let steps = steps.to_string();
    // Our launcher in any case, since hosts are named.
    let mpi_words = if mpi.start == ["run"] { &["mpi"] } else { mpi.start };
    let line = [mpi_words, at.nodes, options, &[program.to_str().unwrap(), &steps]].concat();
    let mut command = taffrail_on(&at.from, &line);
    choose(mpi.choose(&mut command));
    command
}

/// The answer of a program on one node.
pub fn expected(mpi: &Mpi, program: &Path, steps: u32) -> Ended {
    let line = ["mpi", "-n", RANKS, program.to_str().unwrap(), &steps.to_string()];
    let job = ended(choose(mpi.choose(&mut taffrail(&line))));
    assert_eq!((job.status, answers(&job).len()), (Some(0), 1), "{program:?}: {job:?}");
    job
}

#[test]
fn programs_have_the_same_answer_over_nodes() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let ways: [&[&str]; 3] = [&[], &["--logging", "pessimistic"], &RANKS_ALONE];
    for (name, steps) in PROGRAMS.into_iter().chain([("windows", 8)]) {
        let program = mpich.compile_ours(name, folder.path());
        let expected = answers(&expected(&mpich, &program, steps));
        for options in ways {
            let job = over_nodes(&mpich, options, (&program, steps), "");
            assert_eq!((job.status, answers(&job)), (Some(0), expected.clone()), "{name}: {job:?}");
        }
    }
}

/// Every rank is restarted without others.
pub const RANKS_ALONE: [&str; 4] = ["--logging", "pessimistic", "--sets", "rank"];

#[test]
fn other_mpis_are_no_different_over_nodes() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (name, steps) = PROGRAMS[1];
    let expected = answers(&expected(&mpich, &mpich.compile_ours(name, folders[0].path()), steps));
    let others = ["mpich", "openmpi", "intel"].map(installed::other);
    for mpi in others.into_iter().chain([installed::open_mpi()]).flatten() {
        let program = mpi.compile_ours(name, folders[1].path());
        for (options, kill) in
            [(&[][..], ""), (&RANKS_ALONE[..2], "3 5 0.5"), (&RANKS_ALONE, "1 2 0.3")]
        {
            let job = over_nodes(&mpi, options, (&program, steps), kill);
            let told = format!("{mpi:?}, {options:?}: {job:?}");
            assert_eq!((job.status, answers(&job)), (Some(0), expected.clone()), "{told}");
            assert_eq!(job.err.contains("; restarting "), !kill.is_empty(), "{told}");
        }
    }
}

#[test]
fn ranks_that_are_killed_over_nodes_are_not_missed() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let mut random = random("ranks_that_are_killed_over_nodes_are_not_missed");
    let folder = tempfile::tempdir().unwrap();
    // Where MPICH has its memory at another place in each life, what windows tell others is no use to a successor.
    let windows = [("windows", 8)].into_iter().filter(|_| addresses_stay(&mpich));
    for (name, steps) in PROGRAMS.into_iter().chain(windows) {
        let program = mpich.compile_ours(name, folder.path());
        let expected = answers(&expected(&mpich, &program, steps));
        for run in 0..kills().div_ceil(3) {
            // Not in the last step, when all may be done with each other.
            let step = random.u32(..steps - 1);
            let kill = format!("{} {step} {}", random.u32(..4), random.f64());
            let options = if run % 2 == 0 { &RANKS_ALONE[..] } else { &RANKS_ALONE[..2] };
            let job = over_nodes(&mpich, options, (&program, steps), &kill);
            let told = format!("{name}, KILL={kill:?}, {options:?}: {job:?}");
            assert_eq!((job.status, answers(&job)), (Some(0), expected.clone()), "{told}");
            assert!(job.err.contains("was killed by signal 9 (SIGKILL); restarting"), "{told}");
        }
    }
}

/// Windows that are not there end the program by name: it does not wait.
#[test]
fn windows_that_are_not_logged_end_the_program_by_name() {
    let others = ["intel"].map(installed::other).into_iter().chain([installed::open_mpi()]);
    let folder = tempfile::tempdir().unwrap();
    for mpi in others.flatten().filter(|_| provider().is_some()) {
        let program = mpi.compile_ours("windows", folder.path());
        let job = over_nodes(&mpi, &RANKS_ALONE[..2], (&program, 8), "");
        assert_ne!(job.status, Some(0), "{job:?}");
        let said = match job.err.contains("taffrail: Intel MPI") {
            true => "its MPI may wait for that for ever",
            false => "which end with MPI_ERR_WIN: Open MPI has none",
        };
        assert!(job.err.contains(said), "{job:?}");
    }
}

/// The agent of a node is killed, and its ranks with it: both restart on the other node.
#[test]
fn a_lost_node_is_not_missed() {
    if kills() == 0 {
        return;
    }
    let here = Where { from: Host::here(), nodes: &NODES };
    for mpi in installed::all() {
        let folder = tempfile::tempdir().unwrap();
        let (program, steps) = (mpi.compile_ours("workers", folder.path()), 1000);
        let expected = answers(&expected(&mpi, &program, steps));
        // Half-way all events of both nodes have copies, since no message leaves before.
        let options = ["--logging", "pessimistic", "--lease", "5s"];
        for (kill, lost) in [("3 500 0", "node b lost"), ("0 500 0", "node a lost")] {
            let mut command = program_over(&here, &mpi, &options, (&program, steps));
            let job = ended(command.env("KILL", kill).env("KILL_AGENT", "1"));
            let told = format!("{mpi:?}, {lost}: {job:?}");
            assert_eq!((job.status, answers(&job)), (Some(0), expected.clone()), "{told}");
            assert!(job.err.contains(lost), "{told}");
        }
    }
}
