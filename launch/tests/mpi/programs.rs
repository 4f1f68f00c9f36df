//! The same answer of each program under every MPI, launcher and number of kills.

use super::installed::{self, Mpi};
use super::*;
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The programs, and how many steps each does in a short run.
const PROGRAMS: [(&str, u32); 6] =
    [("ring", 40), ("cg", 60), ("workers", 60), ("probes", 20), ("comms", 20), ("persistent", 10)];

const RANKS: &str = "3";

/// The folder with the provider to test, if it is there.
fn provider() -> Option<PathBuf> {
    std::env::var_os("TAFFRAIL_TEST_PROVIDER").map(PathBuf::from)
}

/// Chooses the provider: ours or, where it is not installed, one of libfabric's own.
fn choose(command: &mut Command) -> &mut Command {
    match provider() {
        Some(folder) => command.env("FI_PROVIDER_PATH", folder),
        None => command
            .env("FI_PROVIDER", "tcp")
            .env("OMPI_MCA_mtl_ofi_provider_include", "tcp")
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("MPIR_CVAR_NOLOCAL", "1"),
    }
}

/// Runs a program, and returns the line that it prints.
fn answer(how: &[&str], program: &Path, steps: u32) -> String {
    let steps = steps.to_string();
    let line = [how, &["-n", RANKS, program.to_str().unwrap(), &steps]].concat();
    let job = ended(choose(&mut taffrail(&line)));
    assert_eq!(job.status, Some(0), "{line:?}: {job:?}");
    let checksums: Vec<_> = job.out.lines().filter(|line| line.starts_with("checksum ")).collect();
    assert_eq!(checksums.len(), 1, "{line:?}: {job:?}");
    checksums[0].to_owned()
}

#[test]
fn every_program_has_one_answer_under_mpich_whoever_starts_it() {
    let Some(mpich) = installed::mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in PROGRAMS {
        let program = mpich.compile(name, folder.path());
        let ours = answer(&["run"], &program, steps);
        let theirs = answer(&["mpi"], &program, steps);
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn every_program_has_the_same_answer_under_open_mpi() {
    let (Some(open_mpi), Some(mpich)) = (installed::open_mpi(), installed::mpich()) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in PROGRAMS {
        let ours = answer(&["run"], &mpich.compile(name, folder.path()), steps);
        let theirs = answer(&["mpi"], &open_mpi.compile(name, folder.path()), steps);
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Kills for each program: 0 leaves the tests with kills out.
fn kills() -> u32 {
    let kills = std::env::var("TAFFRAIL_TEST_KILLS").ok().and_then(|text| text.parse().ok());
    match (kills.unwrap_or(0), provider()) {
        (0, _) | (_, None) => {
            eprintln!(
                "skipped: TAFFRAIL_TEST_KILLS and TAFFRAIL_TEST_PROVIDER do not say otherwise"
            );
            0
        }
        (kills, Some(_)) => kills,
    }
}

/// Random numbers, from a seed that is printed, or that `TAFFRAIL_TEST_SEED` says.
fn random() -> fastrand::Rng {
    let seed = std::env::var("TAFFRAIL_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("to repeat it: TAFFRAIL_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn programs_whose_ranks_are_killed_have_the_same_answer() {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    let mut random = random();
    for (name, steps) in PROGRAMS {
        killed(&mpich, name, steps * 5, &mut random);
    }
}

/// Runs a program once without a kill, then with one kill in each run at a random moment.
fn killed(mpi: &Mpi, name: &str, steps: u32, random: &mut fastrand::Rng) {
    let folder = tempfile::tempdir().unwrap();
    let program = mpi.compile(name, folder.path());
    let how = ["run", "--timeout", "120", "--logging", "pessimistic", "--sets", "rank"];
    let started = Instant::now();
    let expected = answer(&how, &program, steps);
    let length = started.elapsed();
    for run in 0..kills() {
        let at = length.mul_f64(random.f64());
        let victim = random.u32(..RANKS.parse::<u32>().unwrap());
        let what = format!("{name}, run {run}: rank {victim} killed after {at:?}");
        let steps = steps.to_string();
        let line = [&how[..], &["-n", RANKS, program.to_str().unwrap(), &steps]].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        choose(&mut command).args(line);
        let job = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let job = job.spawn().unwrap();
        std::thread::sleep(at);
        let hit = rank_of(job.id(), victim)
            .is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok());
        let job = job.wait_with_output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&job.stdout), String::from_utf8_lossy(&job.stderr));
        assert!(job.status.success(), "{what}, hit: {hit}: {err}");
        assert!(out.lines().any(|line| line == expected), "{what}, hit: {hit}: {out} {err}");
    }
}

/// The process of a rank of a launcher's job, if it runs.
fn rank_of(launcher: u32, rank: u32) -> Option<Pid> {
    let wanted = format!("PMI_RANK={rank}");
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    children.ok()?.split_whitespace().find_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is = environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes());
        is.then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
    })
}
