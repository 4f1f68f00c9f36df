//! Ends of ranks: what decides the status and the line of a job (`docs/spec/rank-life.md`).

use super::installed::Mpi;
use super::processes::children;
use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::time::Duration;

const UNLOGGED: &[&str] = &["run", "-n", "2"];
const ONE_SET: &[&str] = &["run", "-n", "2", "--logging", "pessimistic"];
const APART: &[&str] = &["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"];

const NEVER_JOINED: &str = "ended with status 0 and never joined the job; rank 0 has joined it";
const UNFINALISED: &str = "ended with status 0 without finalising (MPI_Finalize), while rank";
const NOBODY_WAITED: &str = "ended without finalising (MPI_Finalize); no other rank waited";
const STATUS_3: &str = "exited with status 3";
const SEGV: &str = "killed by signal 11 (SIGSEGV)";

/// How `mpi-exits.c` ends a rank, the status of the job, and its line.
const EXITS: [(&str, i32, &str); 21] = [
    ("noinit0", 1, NEVER_JOINED),
    ("noinit3", 3, STATUS_3),
    ("_exit 0", 0, NOBODY_WAITED),
    ("_exit 3", 3, STATUS_3),
    ("one_exit 0", 1, UNFINALISED),
    ("one_exit 3", 3, STATUS_3),
    ("ret_recv", 1, UNFINALISED),
    ("ret_any", 1, UNFINALISED),
    ("ret_barrier", 1, UNFINALISED),
    ("ret_send", 1, UNFINALISED),
    ("ret_all 0", 0, NOBODY_WAITED),
    ("ret_all 3", 3, STATUS_3),
    ("atexit 0", 0, ""),
    ("atexit 3", 3, STATUS_3),
    ("abort 0", 1, "aborted the job with code 0"),
    ("abort 3", 3, "aborted the job with code 3"),
    ("abort 256", 1, "aborted the job with code 256"),
    ("abort_spin 0", 1, "aborted the job with code 0"),
    ("signal 11", 139, SEGV),
    ("after 3", 3, STATUS_3),
    ("after_signal 11", 139, SEGV),
];

/// Those that are tried in more ways than one.
const IN_EVERY_WAY: [&str; 6] =
    ["noinit0", "one_exit 0", "one_exit 3", "ret_any", "abort 256", "signal 11"];

/// Jobs at once: most of the time they wait.
const AT_ONCE: usize = 4;

/// Every end has its status and names its rank, however the job is run.
fn ends(mpi: &Mpi, hows: &[&[&str]], which: impl Fn(&str) -> bool) {
    let Some(bench) = Bench::new() else { return };
    let program = mpi.compile(&Bench::source("mpi-exits.c"), bench.folder.path(), &["-w", "-O1"]);
    let all: Vec<_> = EXITS.into_iter().filter(|(mode, ..)| which(mode)).collect();
    let check = |how: &[&str], (mode, status, line): (&str, i32, &str)| {
        let mut command = bench.command(bench.taffrail());
        command.args(how).arg(&program).args(mode.split(' '));
        let job = ended(mpi.choose(&mut command));
        assert_eq!(job.status, Some(status), "{how:?} {mode}: {job:?}");
        let mut said = job.err.lines().filter(|line| line.starts_with("taffrail: rank"));
        let named = line.is_empty() || said.any(|said| said.contains(line));
        assert!(named, "{how:?} {mode}: {job:?}");
    };
    std::thread::scope(|scope| {
        for part in 0..AT_ONCE {
            let (all, check) = (&all, &check);
            scope.spawn(move || {
                let jobs = hows.iter().flat_map(|how| all.iter().map(move |end| (*how, *end)));
                jobs.skip(part).step_by(AT_ONCE).for_each(|(how, end)| check(how, end));
            });
        }
    });
}

#[test]
fn every_end_under_mpich() {
    let Some(mpich) = installed::mpich() else { return };
    ends(&mpich, &[APART], |_| true);
    ends(&mpich, &[UNLOGGED, ONE_SET], |mode| IN_EVERY_WAY.contains(&mode));
}

#[test]
fn every_end_under_open_mpi() {
    let Some(open_mpi) = installed::open_mpi() else { return };
    ends(&open_mpi, &[APART], |_| true);
    ends(&open_mpi, &[UNLOGGED], |mode| IN_EVERY_WAY.contains(&mode));
}

#[test]
fn every_end_under_mpis_of_other_versions() {
    for which in ["mpich", "openmpi"] {
        let Some(mpi) = installed::other(which) else { continue };
        ends(&mpi, &[APART], |_| true);
    }
}

/// The first cause decides, however the ends of processes and what they say come to the launcher.
#[test]
fn a_rank_that_exits_is_the_cause_and_not_those_that_abort_since_it_is_gone() {
    let Some(open_mpi) = installed::open_mpi() else { return };
    for _ in 0..4 {
        ends(&open_mpi, &[UNLOGGED], |mode| mode == "one_exit 3");
    }
}

/// Below a script, which goes on.
fn wrapped(mpi: &Mpi, how: &[&str], words: &[&str]) -> Ended {
    let bench = Bench::new().expect("looked for before");
    let program = mpi.compile(&Bench::source("wrapped.c"), bench.folder.path(), &["-w", "-O1"]);
    let mut command = bench.command(bench.taffrail());
    command.args(how).arg("bash").arg(Bench::source("wrap.sh")).arg(program).args(words);
    ended(mpi.choose(&mut command))
}

#[test]
fn a_process_below_a_script_that_goes_away_is_a_failure() {
    let (Some(_), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let lost = "which had not finalised";
    for how in [APART, ONE_SET] {
        let job = wrapped(&mpich, how, &["kill"]);
        job.is_right();
        assert!(job.out.contains("OK") && job.err.contains(lost), "{job:?}");
        let job = wrapped(&mpich, how, &["exit", "3"]);
        assert!(job.status == Some(3) && job.err.contains("it exited with status 3"), "{job:?}");
    }
    let job = wrapped(&mpich, APART, &["exit", "0"]);
    assert!(job.status == Some(1) && job.err.contains(UNFINALISED), "{job:?}");
    let job = wrapped(&mpich, UNLOGGED, &["kill"]);
    assert!(job.status == Some(1) && job.err.contains(lost), "{job:?}");
    let bounded = [APART, &["--max-restarts", "3"]].concat();
    let job = wrapped(&mpich, &bounded, &["always"]);
    assert!(job.status == Some(1) && job.err.contains("--max-restarts is 3"), "{job:?}");
}

/// Survivors of Open MPI abort at once: what the script still does comes after that.
#[test]
fn a_process_below_a_script_that_goes_away_is_the_cause_under_open_mpi() {
    let Some(_) = Bench::new() else { return };
    // A script does not show which MPI it starts.
    let [unlogged, apart] = [UNLOGGED, APART].map(|how| [how, &["--pmix"]].concat());
    for mpi in installed::open_mpi().into_iter().chain(installed::other("openmpi")) {
        let check = || {
            let job = wrapped(&mpi, &unlogged, &["exit", "3"]);
            let named = job.err.lines().any(|line| line.starts_with("taffrail: rank 1 "));
            let exited = "lost its process";
            assert!(job.status == Some(3) && named && job.err.contains(exited), "{job:?}");
        };
        // Several at once, so that what follows is often seen first.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2).for_each(|_| check()));
            }
        });
        let job = wrapped(&mpi, &unlogged, &["kill"]);
        assert!(job.status == Some(1) && job.err.contains("which had not finalised"), "{job:?}");
        let job = wrapped(&mpi, &unlogged, &["exit", "0"]);
        assert!(job.status == Some(1) && job.err.contains(UNFINALISED), "{job:?}");
        let job = wrapped(&mpi, &apart, &["exit", "3"]);
        assert!(job.status == Some(3) && job.err.contains("it exited with status 3"), "{job:?}");
        let job = wrapped(&mpi, &apart, &["kill"]);
        job.is_right();
        assert!(job.out.contains("OK"), "{job:?}");
    }
}

#[test]
fn a_killed_rank_whose_child_lives_on_is_started_again_at_once() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    for how in [APART, ONE_SET] {
        bench.mpi(&mpich, how, "killed-with-a-daemon.c", &["15"]).is_right();
    }
}

#[test]
fn what_must_end_the_same_way_again_is_not_started_again() {
    let Some(bench) = Bench::new() else { return };
    bench.script("run-logged-reader-leaves.sh", None).is_right();
}

#[test]
fn what_ranks_leave_behind_ends_and_daemons_and_foreign_children_go_on() {
    let Some(bench) = Bench::new() else { return };
    bench.script("daemons.sh", None).is_right();
    bench.script("run-exec-foreign-children.sh", None).is_right();
}

/// In a pid namespace, such as a container's, the processes' group and session may be of somebody outside; the
/// system calls that name 0.
#[test]
fn what_ranks_leave_behind_is_the_same_in_a_container_too() {
    let Some(bench) = Bench::new() else { return };
    let mut command = bench.command("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    let job = ended(
        command
            .args(["bash", "-c", "echo here; exec bash \"$0\""])
            .arg(Bench::source("daemons.sh")),
    );
    if job.out.is_empty() {
        return eprintln!("skipped: no pid namespace of our own: {job:?}");
    }
    job.is_right();
}

/// A program that is not installed any more cannot be started again.
#[test]
fn a_rank_that_cannot_be_started_again_says_why() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.folder.path().join("goes-away");
    let script = "#!/bin/bash\nrm -f \"$0\"; kill -KILL $$\n";
    std::fs::write(&program, script).unwrap();
    let mut command = bench.command("bash");
    let start = "chmod +x goes-away; exec \"$T\" run --logging pessimistic -n 1 ./goes-away";
    let job = ended(command.args(["-c", start]));
    assert_eq!(job.status, Some(127), "{job:?}");
    assert!(job.err.contains("goes-away") && job.err.contains("No such file"), "{job:?}");
}

/// All programs have printed their answers: ranks are started again, or have nothing left to do.
#[test]
fn a_rank_that_is_killed_in_the_last_moment_does_not_fail_the_job() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let source = Bench::source("wrapped.c");
    let program = mpich.compile(&source, bench.folder.path(), &["-w", "-O1"]);
    for turn in 0..16 {
        let mut command = Command::new(bench.taffrail());
        command.args(APART).arg(&program).arg("not at all").stdin(Stdio::null());
        command.env("FI_PROVIDER_PATH", bench.prefix.join("lib"));
        let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut answer = [0; 3];
        job.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"OK\n");
        std::thread::sleep(Duration::from_micros(700 * turn));
        let is_rank = |pid: &String| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name == "wrapped\n")
        };
        let rank = children(job.id()).into_iter().filter(is_rank).nth(turn as usize % 2);
        let pid = rank.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        let job = job.wait_with_output().unwrap();
        assert!(job.status.success(), "{}", String::from_utf8_lossy(&job.stderr));
    }
}

#[test]
fn a_provider_that_is_gone_when_a_rank_is_killed_is_named() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let library = bench.folder.path().join("libtaffrail-fi.so");
    std::fs::copy(bench.prefix.join("lib/libtaffrail-fi.so"), &library).unwrap();
    // The launcher is not beside a provider of its own.
    let launcher = bench.folder.path().join("taffrail");
    std::fs::copy(bench.taffrail(), &launcher).unwrap();
    let source = Bench::source("wrapped.c");
    let program = mpich.compile(&source, bench.folder.path(), &["-w", "-O1"]);
    let mut command = bench.command(&launcher);
    command.args(APART).arg(program).args(["remove", "libtaffrail-fi.so"]);
    let job = ended(command.env("FI_PROVIDER_PATH", bench.folder.path()));
    assert_eq!(job.status, Some(1), "{job:?}");
    let why = "was killed by signal 9 (SIGKILL); it is not restarted: the provider ";
    assert!(job.err.contains(why) && job.err.contains("is gone"), "{job:?}");
}

/// A rank that is another launcher, or starts one, whose processes find the environment of the rank.
#[test]
fn another_launcher_below_a_rank_runs_programs_that_are_not_logged() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let source = Bench::source("wrapped.c");
    let program = mpich.compile(&source, bench.folder.path(), &["-w", "-O1"]);
    let mut command = bench.command(bench.taffrail());
    let line = ["run", "--logging", "pessimistic", "-n", "1"];
    command.args(line).arg(mpich.compiler().with_file_name("mpiexec")).args(["-n", "2"]);
    let job = ended(command.arg(program).arg("not at all"));
    job.is_right();
    assert!(job.out.contains("OK") && job.err.contains("their messages are not logged"), "{job:?}");
}

#[test]
fn an_mpi_program_that_a_rank_starts_is_refused_or_runs_by_itself() {
    let (Some(bench), Some(mpich)) = (Bench::new(), installed::mpich()) else { return };
    let source = Bench::source("second-mpi-program.c");
    let program = mpich.compile(&source, bench.folder.path(), &["-w", "-O1"]);
    let run = |how: &[&str], words: &[&str]| {
        let mut command = bench.command(bench.taffrail());
        ended(mpich.choose(command.args(how).arg(&program).args(words)))
    };
    let count = |text: &str, what: &str| text.lines().filter(|line| line.contains(what)).count();
    for how in [UNLOGGED, ONE_SET] {
        let job = run(how, &["after", "as-is"]);
        job.is_right();
        let refused = "which asks to join the job as the same rank; it is refused";
        assert!(count(&job.out, "sum 2") == 2 && job.out.contains("it failed"), "{job:?}");
        assert!(count(&job.err, refused) == 1 && job.err.contains("-u PMI_FD"), "{job:?}");
        for when in ["before", "after"] {
            let job = run(how, &[when, "alone"]);
            job.is_right();
            assert!(job.out.contains("other 0 of 1: sum 1"), "{how:?} {when}: {job:?}");
            assert!(count(&job.out, "sum 2") == 2 && !job.err.contains("refused"), "{job:?}");
        }
        let job = run(how, &["one-before", "as-is"]);
        let line = "rank 0 has joined the job again, by another process, and waits";
        assert!(job.status == Some(1) && count(&job.err, line) == 1, "{how:?}: {job:?}");
    }
    // One after the other is what a script of programs does.
    let job = run(UNLOGGED, &["before", "as-is"]);
    job.is_right();
    assert!(count(&job.out, "sum 2") == 4, "{job:?}");
    let job = run(ONE_SET, &["before", "as-is"]);
    assert!(job.status != Some(0) && job.err.contains("each rank is one program"), "{job:?}");
}
