//! An MPI's synchronous send waits for the events of its receiver (`docs/logging.md`, section 2, "The gate").

use super::installed::Mpi;
use super::processes::{children, is_logger, soon};
use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Two ranks, of which one sends to the other while the event logger is stopped.
struct Stopped {
    dir: tempfile::TempDir,
    job: std::process::Child,
    logger: Pid,
}

impl Stopped {
    fn start(bench: &Bench, mpi: &Mpi, durability: &[&str], bytes: &str) -> Stopped {
        let source = Bench::source("mpi-gate.c");
        let program = mpi.compile(&source, bench.folder.path(), &["-w", "-O1"]);
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(bench.taffrail());
        command.args(["run", "-n", "2", "--logging", "pessimistic", "--sets", "rank"]);
        command.args(["--timeout", "50"]).args(durability).arg(program).arg(dir.path()).arg(bytes);
        command.env("FI_PROVIDER_PATH", bench.prefix.join("lib")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let job = mpi.choose(&mut command).spawn().unwrap();
        let is_there = |what: &str| dir.path().join(what).exists();
        assert!(soon(|| is_there("there.0") && is_there("there.1")), "{mpi:?}");
        let logger = children(job.id()).into_iter().find(|pid| is_logger(pid));
        let logger = Pid::from_raw(logger.expect("it logs").parse().unwrap()).unwrap();
        kill_process(logger, Signal::STOP).unwrap();
        std::fs::write(dir.path().join("go"), "").unwrap();
        let stopped = Stopped { dir, job, logger };
        assert!(soon(|| stopped.has("received.0")), "{mpi:?}");
        stopped
    }

    fn has(&self, what: &str) -> bool {
        self.dir.path().join(what).exists()
    }

    /// The logger goes on, and the job ends well.
    fn ends(self) {
        kill_process(self.logger, Signal::CONT).unwrap();
        let job = Ended::from(self.job.wait_with_output().unwrap());
        job.is_right();
        assert!(job.out == "OK\n" && self.dir.path().join("goes_on.1").exists(), "{job:?}");
    }
}

#[test]
fn a_synchronous_send_waits_while_the_logger_is_stopped() {
    let Some(bench) = Bench::new() else { return };
    for mpi in [installed::mpich(), installed::open_mpi()].into_iter().flatten() {
        for bytes in ["8", "1000000"] {
            let events = tempfile::tempdir().unwrap();
            let events = events.path().to_str().expect("a path of letters");
            let disk = ["--durability", "disk", "--log-dir", events];
            let job = Stopped::start(&bench, &mpi, &disk, bytes);
            std::thread::sleep(Duration::from_millis(150));
            assert!(!job.has("goes_on.1"), "{mpi:?} {bytes}");
            job.ends();
        }
        // Nothing waits for the logger where events are stable when they are written.
        let job = Stopped::start(&bench, &mpi, &["--durability", "process"], "8");
        assert!(soon(|| job.has("goes_on.1")), "{mpi:?}");
        job.ends();
    }
}
