//! Whole programs: ours under other launchers, others' under ours.

use super::*;
use std::io::Write;
use taffrail::Job;

/// Joins the job that this process was started in: alone, when run as a test.
#[test]
fn a_rank() {
    let mut job = Job::from_env().unwrap();
    job.barrier().unwrap();
    assert!(job.rank() < job.size());
    // In one piece, on a line of its own: other ranks' test harnesses print dots without an end.
    let line = format!("\nrank {} of {}\n", job.rank(), job.size());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The command line that runs [`a_rank`] as a program of its own.
fn own_program() -> [String; 5] {
    let test = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    [test, "--exact".into(), "programs::a_rank".into(), "--nocapture".into(), "--quiet".into()]
}

fn said(job: &Ended) -> Vec<&str> {
    sorted(&job.out).into_iter().filter(|line| line.starts_with("rank ")).collect()
}

const FOUR: [&str; 4] = ["rank 0 of 4", "rank 1 of 4", "rank 2 of 4", "rank 3 of 4"];

fn installed(program: &str) -> bool {
    let found = Command::new("which").arg(program).output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn our_program_under_our_launcher_and_alone() {
    let program = own_program();
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let job = run(&[&["run", "-n", "4"], &words[..]].concat());
    assert_eq!((job.status, said(&job)), (0, FOUR.to_vec()), "{}", job.err);
    let alone = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert_eq!(said(&ended(alone, Instant::now())), ["rank 0 of 1"]);
}

#[test]
fn our_program_under_hydra() {
    if !installed("mpiexec.hydra") {
        return;
    }
    for variant in [&[][..], &["-pmi-port"][..]] {
        let mut command = Command::new("timeout");
        command.args(["60", "mpiexec.hydra", "-n", "4"]).args(variant).args(own_program());
        let job = ended(command.output().unwrap(), Instant::now());
        assert_eq!((job.status, said(&job)), (0, FOUR.to_vec()), "{variant:?} {}", job.err);
    }
}

const MPI_PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\n", rank, size, sum);
    if (argc > 1 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn an_mpich_program_starts_communicates_and_aborts() {
    if !installed("mpicc.mpich") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("ranks.c"), dir.path().join("ranks"));
    std::fs::write(&source, MPI_PROGRAM).unwrap();
    let mut compiler = Command::new("mpicc.mpich");
    let compiled = compiler.arg(&source).arg("-o").arg(&program).output().unwrap();
    let why = String::from_utf8_lossy(&compiled.stderr);
    if why.contains("mpi.h: No such file") {
        return eprintln!("skipped: libmpich-dev (mpi.h) is not installed");
    }
    assert!(compiled.status.success(), "{why}");

    let program = program.to_str().unwrap();
    let job = run(&["run", "-n", "3", program]);
    let expected = ["rank 0 of 3, sum 3", "rank 1 of 3, sum 3", "rank 2 of 3, sum 3"];
    assert_eq!((job.status, sorted(&job.out)), (0, expected.to_vec()), "{}", job.err);
    let job = run(&["run", "-n", "3", program, "6"]);
    assert_eq!(job.status, 6, "{}", job.err);
    assert!(job.err.contains("aborted the job with code 6"), "{}", job.err);
}

#[test]
fn netpipe_of_mpich_runs() {
    if !installed("NPmpich2") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("np.out");
    let job = run(&[
        "run",
        "-n",
        "2",
        "NPmpich2",
        "-u",
        "64",
        "-n",
        "50",
        "-o",
        results.to_str().unwrap(),
    ]);
    assert_eq!(job.status, 0, "{}", job.err);
    assert!(std::fs::read_to_string(results).unwrap().lines().count() > 5);
}
