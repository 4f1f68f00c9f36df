//! Jobs whose launcher speaks PMIx: Open MPI's `mpirun`, Slurm's `srun`, and `taffrail run --pmix`.

#[path = "../common/host.rs"]
mod host;
#[path = "../common/slurm.rs"]
mod slurm;

use host::Host;
use slurm::Slurm;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use taffrail::{Dest, Job, Pattern, collectives};

/// What each rank does, started by the tests below: pings the next one, sees whether the answers are right, and adds what
/// the sum of all ranks is to the file of results. The first process of rank `TEST_WHO` is killed at moment
/// `TEST_WHEN`: before it joins, after it, after each of three barriers.
#[test]
fn rank() {
    if std::env::var_os("TEST_RANK").is_none() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let first =
        number("TAFFRAIL_INCARNATION") == Some(0) && number("PMI_RANK") == number("TEST_WHO");
    let mut moment = 0;
    let mut die = || {
        if first && number("TEST_WHEN") == Some(moment) {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        moment += 1;
    };
    die();
    let mut job = Job::from_env().unwrap();
    die();
    for _ in 0..3 {
        job.barrier().unwrap();
        die();
    }
    // Longer than what is sent in one piece, and with signs that a protocol of lines would mind.
    let mine = format!("{}=;%\n ü{}", "x".repeat(3000), job.rank());
    let all = job.exchange("test", &mine).unwrap();
    assert!(all.iter().zip(0..).all(|(got, rank)| got.ends_with(&format!("=;%\n ü{rank}"))));
    let mut endpoint = job.endpoint().unwrap();
    let (me, size) = (endpoint.rank(), endpoint.size());
    let (next, last) = ((me + 1) % size, (me + size - 1) % size);
    for round in 0..50u32 {
        let length = round as usize * 997;
        let (sent, mut got) = (vec![round as u8 ^ me as u8; length], vec![0; length]);
        endpoint
            .scope(|s| {
                s.irecv(Pattern::new(last, round.into()), &mut got)?;
                s.isend(Dest::new(next, round.into()), &sent)?;
                Ok(())
            })
            .unwrap();
        assert!(got.iter().all(|&byte| byte == round as u8 ^ last as u8), "round {round}");
    }
    let mut sum = [u64::from(me)];
    collectives::allreduce(&mut endpoint, &mut sum, collectives::sum).unwrap();
    // Launchers mix what ranks print, within lines as well. This is one write.
    let results = std::env::var_os("TEST_RESULTS").unwrap();
    let mut results = File::options().append(true).open(results).unwrap();
    results.write_all(format!("rank {me} of {size}: {}\n", sum[0]).as_bytes()).unwrap();
}

/// A job whose ranks are this program: its results, and what it prints.
#[derive(Debug)]
struct Ended {
    results: String,
    output: Output,
}

fn run(launcher: &[&str], environment: &[(&str, String)]) -> Ended {
    let results = tempfile::NamedTempFile::new().unwrap();
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "120"]).args(launcher).arg(own);
    command.args(["--exact", "rank", "--nocapture"]).stdin(Stdio::null());
    command.env("TEST_RANK", "1").env("TEST_RESULTS", results.path());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = command.output().expect("timeout(1) is installed");
    Ended { results: std::fs::read_to_string(results.path()).unwrap(), output }
}

/// Whether each of so many ranks came to the end.
fn check(job: &Ended, ranks: u32) {
    let mut results: Vec<_> = job.results.lines().collect();
    results.sort_unstable();
    let sum: u32 = (0..ranks).sum();
    let expected: Vec<_> =
        (0..ranks).map(|rank| format!("rank {rank} of {ranks}: {sum}")).collect();
    assert!(job.output.status.success() && results == expected, "{job:?}");
}

#[test]
fn ranks_that_mpirun_starts_are_one_job() {
    let there = Command::new("mpirun.openmpi").arg("--version").output();
    if there.is_err() {
        return eprintln!("skipped: Open MPI's mpirun.openmpi is not installed");
    }
    check(&run(&["mpirun.openmpi", "--oversubscribe", "-n", "3"], &[]), 3);
    check(&run(&["mpirun.openmpi", "-n", "1"], &[]), 1);
}

#[test]
fn ranks_that_slurm_starts_are_one_job() {
    let Some(slurm) = Slurm::start(&[Host::here()]) else { return };
    let config = [("SLURM_CONF", slurm.config())];
    check(&run(&["srun", "--mpi=pmix", "-n", "3"], &config), 3);
    check(&run(&["srun", "--mpi=pmix", "-n", "1"], &config), 1);
    // This one speaks PMI-1, too.
    check(&run(&["srun", "--mpi=pmi2", "-n", "3"], &config), 3);
    // Neither: three jobs of one rank would be a wrong result.
    let job = run(&["srun", "--mpi=none", "-n", "3"], &config);
    let Output { status, stdout, stderr } = &job.output;
    let said = [&stderr[..], stdout].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!status.success() && said.contains("srun --mpi=pmix"), "{job:?}");
}

/// The launcher to test, if it was built.
fn launcher() -> Option<String> {
    let launcher = std::env::var("TAFFRAIL_TEST_LAUNCHER").ok();
    if launcher.is_none() {
        eprintln!("skipped: TAFFRAIL_TEST_LAUNCHER does not name the taffrail command");
    }
    launcher
}

#[test]
fn ranks_that_taffrail_starts_are_one_job() {
    let Some(launcher) = launcher() else { return };
    check(&run(&[&launcher, "run", "--pmix", "-n", "3"], &[]), 3);
}

#[test]
fn a_rank_killed_at_any_moment_of_its_start_starts_again() {
    let Some(launcher) = launcher() else { return };
    let line = [&*launcher, "run", "--pmix", "-n", "3"];
    let line = [&line[..], &["--logging", "pessimistic", "--sets", "rank"]].concat();
    for moment in 0..5 {
        for rank in [0, 2] {
            let kill = [("TEST_WHO", rank.to_string()), ("TEST_WHEN", moment.to_string())];
            let job = run(&line, &kill);
            check(&job, 3);
            let said = String::from_utf8_lossy(&job.output.stderr);
            assert!(said.contains("restarting it as incarnation 1"), "{moment}, {rank}: {job:?}");
        }
    }
}
