//! The launcher among other programs.

use super::*;

/// A script of `programs/` that needs no MPI is right.
fn script_is_right(name: &str) {
    let Some(bench) = Bench::new() else { return };
    bench.script(name, None).is_right();
}

#[test]
fn all_behind_the_program_is_its_own() {
    script_is_right("run-program-arguments-taken.sh");
}

#[test]
fn a_parent_that_ignores_sigchld_does_no_harm() {
    script_is_right("run-sigchld-ignored.sh");
}

#[test]
fn an_endless_printer_does_not_keep_the_launcher_from_its_duties() {
    script_is_right("run-label-endless-printer.sh");
}

#[test]
fn a_reader_that_stands_still_does_not_keep_the_launcher_from_its_duties() {
    script_is_right("run-label-reader-stands-still.sh");
}

#[test]
fn one_rank_has_all_processors_and_so_has_a_job_beside_one_that_is_bound() {
    script_is_right("run-bound-to-first-processors.sh");
}

#[test]
fn calls_that_a_sandbox_refuses_are_done_without_or_named() {
    script_is_right("run-refused-system-calls.sh");
}

#[test]
fn files_of_an_mpi_are_removed_when_the_launcher_is_killed() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    bench.script("launcher-killed-leaves-files.sh", Some(&mpich)).is_right();
}

#[test]
fn several_programs_are_one_world_under_every_launcher() {
    let Some(bench) = Bench::new() else { return };
    let ours = [&["run"][..], &["run", "--logging", "pessimistic", "--sets", "rank"]];
    let theirs = [&["mpi"][..]];
    let under = |mpi: Option<installed::Mpi>, ways: &[&[&str]]| {
        let Some(mpi) = mpi else { return };
        let program = mpi.compile(&Bench::source("appnum.c"), bench.folder.path(), &["-w", "-O1"]);
        for how in ways {
            let mut command = bench.command(bench.taffrail());
            command.args(*how).args(["-n", "1"]).arg(&program).args(["0", ":", "-n", "2"]);
            ended(mpi.choose(command.arg(&program).arg("1"))).is_right();
        }
    };
    under(installed::mpich(), &[&theirs[..], &ours[..]].concat());
    under(installed::open_mpi(), &theirs);
}

#[test]
fn a_logged_ring_of_nodes_connects_neighbours_alone() {
    script_is_right("ring-of-eight-nodes.sh");
}
