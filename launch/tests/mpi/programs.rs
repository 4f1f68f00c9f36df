//! The same answer of each program under every MPI, launcher and number of kills.

use super::installed::{self, Mpi};
use super::*;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The programs, and how many steps each does.
const PROGRAMS: [(&str, u32); 6] =
    [("ring", 40), ("cg", 60), ("workers", 200), ("probes", 20), ("comms", 20), ("persistent", 10)];

/// One that not every MPI can do again.
const WINDOWS: (&str, u32) = ("windows", 20);

pub const RANKS: &str = "3";

/// The folder with the provider to test, if it is there.
pub fn provider() -> Option<PathBuf> {
    std::env::var_os("TAFFRAIL_TEST_PROVIDER").map(PathBuf::from)
}

/// Chooses the provider: ours or, where it is not installed, one of libfabric's own.
pub fn choose(command: &mut Command) -> &mut Command {
    match provider() {
        Some(folder) => command.env("FI_PROVIDER_PATH", folder),
        None => command
            .env("FI_PROVIDER", "tcp")
            .env("OMPI_MCA_pml", "cm")
            .env("OMPI_MCA_mtl", "ofi")
            .env("OMPI_MCA_mtl_ofi_provider_include", "tcp")
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("MPIR_CVAR_NOLOCAL", "1"),
    }
}

/// Runs a program, and returns the line that it prints.
fn answer(mpi: &Mpi, how: &[&str], program: &Path, steps: u32) -> String {
    let steps = steps.to_string();
    let line = [how, &["-n", RANKS, program.to_str().unwrap(), &steps]].concat();
    let job = ended(choose(mpi.choose(&mut taffrail(&line))));
    assert_eq!(job.status, Some(0), "{line:?}: {job:?}");
    let checksums: Vec<_> = job.out.lines().filter(|line| line.starts_with("checksum ")).collect();
    assert_eq!(checksums.len(), 1, "{line:?}: {job:?}");
    checksums[0].to_owned()
}

#[test]
fn every_program_has_one_answer_under_mpich_whoever_starts_it() {
    let Some(mpich) = installed::mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in PROGRAMS.into_iter().chain([WINDOWS]) {
        let program = mpich.compile_ours(name, folder.path());
        let ours = answer(&mpich, &["run"], &program, steps);
        let theirs = answer(&mpich, &["mpi"], &program, steps);
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn every_program_has_the_same_answer_under_open_mpi() {
    let (Some(open_mpi), Some(mpich)) = (installed::open_mpi(), installed::mpich()) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in PROGRAMS.into_iter().chain([WINDOWS]) {
        let expected = answer(&mpich, &["run"], &mpich.compile_ours(name, folder.path()), steps);
        let program = open_mpi.compile_ours(name, folder.path());
        assert_eq!(answer(&open_mpi, &["mpi"], &program, steps), expected, "{name}");
        // Over PMIx.
        assert_eq!(answer(&open_mpi, &["run"], &program, steps), expected, "{name}");
    }
}

/// Kills for each program: 0 leaves the tests with kills out.
pub fn kills() -> u32 {
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

/// Random numbers for a test, from a seed that is printed, or that `TAFFRAIL_TEST_SEED` says.
pub fn random(test: &str) -> fastrand::Rng {
    let seed = std::env::var("TAFFRAIL_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let names =
        ["MPICH", "OTHER_MPIS", "PROVIDER", "KILLS"].map(|name| format!("TAFFRAIL_TEST_{name}"));
    let set = names.map(|name| format!("{name}={}", std::env::var(&name).unwrap_or_default()));
    eprintln!(
        "to repeat it: {} TAFFRAIL_TEST_SEED={seed} cargo test -p taffrail-launch --test mpi {test}",
        set.join(" ")
    );
    fastrand::Rng::with_seed(seed)
}

#[test]
fn programs_whose_ranks_are_killed_have_the_same_answer() {
    programs_killed(installed::mpich());
}

/// Whether the system lets ranks have their memory at the same addresses in each life.
pub fn addresses_stay(mpi: &Mpi) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::begin(mpi, &mpi.compile_ours("ring", folder.path()), 1).end();
    let stay = !job.err.contains("addresses of ranks are random");
    if !stay {
        eprintln!("programs with windows are left out: {}", job.err);
    }
    stay
}

/// With windows they tell each other where that is.
#[test]
fn ranks_that_are_killed_have_their_memory_where_it_was() {
    let Some(mpi) = installed::mpich().filter(|mpi| kills() > 0 && addresses_stay(mpi)) else {
        return;
    };
    let mut random = random("ranks_that_are_killed_have_their_memory_where_it_was");
    for (name, steps) in [("addresses", 20), WINDOWS] {
        killed(&mpi, name, steps, kills(), &mut random);
    }
}

/// Where it has its memory is not the same in every life.
#[test]
fn open_mpi_has_windows_where_all_ranks_are_started_again_together() {
    let Some(mpi) = installed::open_mpi().filter(|_| kills() > 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let apart = Job::begin(&mpi, &mpi.compile_ours(WINDOWS.0, folder.path()), WINDOWS.1).end();
    assert!(apart.status != Some(0) && apart.err.contains("MPI_ERR_WIN"), "{apart:?}");
    windows_of_one_set(&mpi);
}

/// Else it reads the memory of ranks of other sets, whatever it is told.
#[test]
fn intel_mpi_has_windows_where_all_ranks_are_started_again_together() {
    let Some(mpi) = installed::other("intel").filter(|_| kills() > 0) else { return };
    windows_of_one_set(&mpi);
}

fn windows_of_one_set(mpi: &Mpi) {
    let folder = tempfile::tempdir().unwrap();
    let (name, steps) = WINDOWS;
    let program = mpi.compile_ours(name, folder.path());
    let peace = Job::begin_killed(mpi, &program, steps, "", "node").end();
    assert_eq!((peace.status, answers(&peace).len()), (Some(0), 1), "{peace:?}");
    for kill in ["0 3 0.5", "1 9 0.1", "2 15 0.9"] {
        let job = Job::begin_killed(mpi, &program, steps, kill, "node").end();
        assert_eq!((job.status, answers(&job)), (Some(0), answers(&peace)), "{kill}: {job:?}");
        assert!(job.err.contains("restarting ranks 0-2"), "{kill}: {job:?}");
    }
}

#[test]
fn programs_whose_ranks_are_killed_have_the_same_answer_under_open_mpi() {
    programs_killed(installed::open_mpi());
}

#[test]
fn other_versions_of_mpich_are_no_different() {
    of_another_make("mpich", "other_versions_of_mpich_are_no_different");
}

#[test]
fn other_versions_of_open_mpi_are_no_different() {
    of_another_make("openmpi", "other_versions_of_open_mpi_are_no_different");
}

#[test]
fn intel_mpi_is_no_different() {
    of_another_make("intel", "intel_mpi_is_no_different");
}

/// The same programs over another MPI, by its own launcher and by ours, with a few kills.
fn of_another_make(which: &str, test: &str) {
    let (Some(mpich), true) = (installed::mpich(), kills() > 0) else { return };
    let Some(other) = installed::other(which) else { return };
    let mut random = random(test);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (name, steps) in PROGRAMS {
        let program = mpich.compile_ours(name, folders[0].path());
        let expected = answer(&mpich, &["run"], &program, steps);
        let program = other.compile_ours(name, folders[1].path());
        assert_eq!(answer(&other, other.start, &program, steps), expected, "{name}");
        killed(&other, name, steps, kills().div_ceil(5), &mut random);
    }
}

fn programs_killed(mpi: Option<Mpi>) {
    let Some(mpi) = mpi.filter(|_| kills() > 0) else { return };
    let mut random = random("programs_whose_ranks_are_killed");
    for (name, steps) in PROGRAMS {
        killed(&mpi, name, steps, kills(), &mut random);
    }
}

/// A logged job, and the folder with what it says on standard error, and with what its ranks write.
pub struct Job {
    process: std::process::Child,
    folder: tempfile::TempDir,
}

impl Job {
    /// Starts a program.
    pub fn begin(mpi: &Mpi, program: &Path, steps: u32) -> Job {
        Job::begin_killed(mpi, program, steps, "", "rank")
    }

    /// Starts a program that is killed as `kill` says: see `common.h`.
    fn begin_killed(mpi: &Mpi, program: &Path, steps: u32, kill: &str, sets: &str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let said = std::fs::File::create(folder.path().join("said")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        command.args(mpi.start);
        command.args(["--timeout", "120", "--logging", "pessimistic", "--sets", sets]);
        command.args(["-n", RANKS]).arg(program).arg(steps.to_string()).env("KILL", kill);
        command.env("ADDRESSES", folder.path().join("addresses"));
        may_be_root(choose(mpi.choose(&mut command))).stdin(Stdio::null()).stdout(Stdio::piped());
        let process = command.stderr(said).spawn().unwrap();
        Job { process, folder }
    }

    /// Whether there was such a rank to kill.
    fn kill(&self, rank: u32) -> bool {
        let pid = rank_of(self.process.id(), rank);
        pid.is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
    }

    /// As [`kill`](Self::kill), as soon as there is one.
    pub fn kill_soon(&mut self, rank: u32) -> bool {
        while self.process.try_wait().unwrap().is_none() {
            if self.kill(rank) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    pub fn end(self) -> Ended {
        let said = self.folder.path().join("said");
        let output = self.process.wait_with_output().unwrap();
        Ended {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: std::fs::read_to_string(said).unwrap(),
        }
    }
}

/// Runs a program once without a kill, then until so many were killed, one in each run, somewhere in a random step. The
/// program knows when it is in that step, so that it is killed in time, however long that takes: where others
/// want the processors, too, one run may take fifty times as long as the one before.
fn killed(mpi: &Mpi, name: &str, steps: u32, wanted: u32, random: &mut fastrand::Rng) {
    let folder = tempfile::tempdir().unwrap();
    let program = mpi.compile_ours(name, folder.path());
    let peace = Job::begin(mpi, &program, steps).end();
    assert_eq!((peace.status, answers(&peace).len()), (Some(0), 1), "{name}: {peace:?}");
    let mut hit = 0;
    for run in 0..=4 * wanted {
        if hit == wanted {
            return eprintln!("{name}: {hit} kills in {run} runs");
        }
        let victim = random.u32(..RANKS.parse::<u32>().unwrap());
        let kill = format!("{victim} {} {}", random.u32(..steps), random.f64());
        let job = Job::begin_killed(mpi, &program, steps, &kill, "rank").end();
        // Too late, in the last step: all were done with each other, and what is left is not done again.
        if job.err.contains("it is not restarted, since") {
            continue;
        }
        let expected = (Some(0), answers(&peace));
        assert_eq!((job.status, answers(&job)), expected, "{name}, KILL={kill:?}: {job:?}");
        hit += u32::from(job.err.contains(KILLED));
    }
    panic!("{name}: only {hit} of {wanted} kills were in time");
}

/// What the launcher says when a rank was killed in time.
const KILLED: &str = "was killed by signal 9 (SIGKILL); restarting it as incarnation 1 ";

/// The lines that it prints; who was killed in MPI_Finalize may have printed some before.
pub fn answers(job: &Ended) -> BTreeSet<String> {
    job.out.lines().map(str::to_owned).collect()
}

/// The process of a rank of a launcher's job, if it runs: not its PMIx server, which is the launcher's
/// program.
fn rank_of(launcher: u32, rank: u32) -> Option<Pid> {
    let wanted = format!("PMI_RANK={rank}");
    let program = |pid: &str| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let ours = program(&launcher.to_string());
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    children.ok()?.split_whitespace().find_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is = program(pid) != ours
            && environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes());
        is.then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
    })
}
