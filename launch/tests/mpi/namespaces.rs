//! MPI programs over nodes that are network namespaces: no message reaches another node but through its network.

use super::installed::{self, Mpi};
use super::nodes::{RANKS, RANKS_ALONE, Where, expected, program_over};
use super::programs::{answers, kills};
use super::spaces::{NETNS, Nodes};
use super::*;
use std::path::Path;

/// The command that runs a program on three nodes with four ranks, of which rank 3 is alone on the last one.
fn command(nodes: &Nodes, mpi: &Mpi, options: &[&str], program: (&Path, u32)) -> Command {
    let hosts = nodes.names();
    let words = ["--rsh-agent", NETNS, "--hosts", &hosts, "-n", RANKS, "--network", Nodes::NETWORK];
    program_over(&Where { from: nodes.host(0), nodes: &words }, mpi, options, program)
}

/// Eager messages, fragments and rendezvous: 8 bytes to 320 KB.
#[test]
fn messages_of_every_mpi_pass_between_namespaces() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let Some(nodes) = Nodes::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (steps, at) = (12, folder.path());
    let expected = answers(&expected(&mpich, &mpich.compile_ours("ring", at), steps));
    for mpi in installed::all() {
        let program = mpi.compile_ours("ring", at);
        // Killed is the rank that is alone on its node.
        for (options, kill) in [(&[][..], ""), (&RANKS_ALONE, "3 4 0.3")] {
            let job = ended(command(&nodes, &mpi, options, (&program, steps)).env("KILL", kill));
            let which = format!("{mpi:?}, {options:?}: {job:?}");
            assert_eq!((job.status, answers(&job)), (Some(0), expected.clone()), "{which}");
            assert_eq!(job.err.contains("; restarting "), !kill.is_empty(), "{which}");
        }
    }
}

/// Its agent is killed half-way, and with it all that is on the node.
#[test]
fn a_namespace_that_is_lost_is_not_missed() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let Some(nodes) = Nodes::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("ring", folder.path());
    let expected = answers(&expected(&mpich, &program, 30));
    let lost = ["--logging", "pessimistic", "--lease", "5s"];
    let mut command = command(&nodes, &mpich, &lost, (&program, 30));
    let job = ended(command.env("KILL", "3 15 0").env("KILL_AGENT", "1"));
    assert_eq!((job.status, answers(&job)), (Some(0), expected), "{job:?}");
    assert!(job.err.contains(&format!("node {}n2 lost (", nodes.id)), "{job:?}");
}
