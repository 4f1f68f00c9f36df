//! Worker processes: this program again, doing one part, as ranks of a job of their own.

use super::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Tells a worker its part.
pub const PART: &str = "TAFFRAIL_TEST_PART";

/// How files in `/dev/shm` begin that MPI programs of other tests have made, or left behind when they were
/// killed.
const OF_MPIS: [&str; 2] = ["mpich_shm_", "vader_segment"];

/// The ranks of a job.
pub struct Family {
    pub workers: Vec<Worker>,
    server: Server,
    scratch: tempfile::TempDir,
}

/// One rank.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    said: Receiver<(Instant, String)>,
    log: PathBuf,
    pub ended: Option<std::process::ExitStatus>,
}

impl Family {
    /// Starts `ranks` workers that do `part`, with these settings in their environment.
    pub fn start(ranks: u32, part: &str, settings: &[(&str, String)]) -> Family {
        let server = Server::new(ranks);
        let scratch = tempfile::tempdir().expect("a directory");
        let workers = (0..ranks)
            .map(|rank| {
                let log = scratch.path().join(format!("log-{rank}"));
                start(rank, ranks, part, settings, &server, log)
            })
            .collect();
        Family { workers, server, scratch }
    }

    /// Ends a worker at once.
    pub fn kill(&mut self, rank: usize) -> Instant {
        let worker = &mut self.workers[rank];
        worker.child.kill().expect("it was started");
        let now = Instant::now();
        worker.ended = Some(worker.child.wait().expect("it was started"));
        now
    }

    /// Says something to a worker.
    pub fn tell(&mut self, rank: usize, what: &str) {
        // Whether it is gone is seen elsewhere.
        let _ = writeln!(self.workers[rank].input, "{what}");
    }

    /// The next thing that a worker says: when, and what.
    pub fn hear(&mut self, rank: usize, limit: Duration) -> Result<(Instant, String), String> {
        match self.workers[rank].said.recv_timeout(limit) {
            Ok(said) => Ok(said),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("rank {rank} is silent for {limit:?}{}", self.report()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.workers[rank].child.wait();
                self.workers[rank].ended = ended.ok();
                Err(format!("rank {rank} ended too early{}", self.report()))
            }
        }
    }

    /// Waits until a worker has ended, and says how.
    pub fn end(&mut self, rank: usize, limit: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let worker = &mut self.workers[rank];
            match worker.child.try_wait().expect("it was started") {
                Some(status) if status.success() => {
                    worker.ended = Some(status);
                    return Ok(());
                }
                Some(status) => {
                    worker.ended = Some(status);
                    return Err(format!("rank {rank}: {status}{}", self.report()));
                }
                None if start.elapsed() > limit => {
                    return Err(format!("rank {rank} does not end{}", self.report()));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// What the workers have left behind to say.
    pub fn report(&self) -> String {
        let logs = self.workers.iter().enumerate().map(|(rank, worker)| {
            let log = std::fs::read_to_string(&worker.log).unwrap_or_default();
            format!("\n--- rank {rank}, {:?} ---\n{log}", worker.ended)
        });
        logs.collect()
    }

    /// Looks whether anything is left of the family, all of which has ended.
    pub fn look_for_remains(self) -> Result<(), String> {
        let pids: Vec<u32> = self.workers.iter().map(|worker| worker.child.id()).collect();
        if let Some(left) = self.workers.iter().position(|worker| worker.ended.is_none()) {
            return Err(format!("rank {left} was not waited for"));
        }
        let sockets = std::fs::read_to_string("/proc/net/unix").map_err(|e| e.to_string())?;
        if let Some(name) = self.server.sockets().iter().find(|name| sockets.contains(&**name)) {
            return Err(format!("the socket {name} is left behind"));
        }
        for process in std::fs::read_dir("/proc").map_err(|e| e.to_string())?.flatten() {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let after = stat.rsplit(')').next().unwrap_or_default();
            let numbers: Vec<u32> =
                after.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
            // Parent and process group.
            if numbers.iter().take(2).any(|of| pids.contains(of)) {
                return Err(format!("the process {stat} is left behind"));
            }
        }
        let mut files: Vec<_> =
            std::fs::read_dir("/dev/shm").into_iter().flatten().flatten().collect();
        files.extend(std::fs::read_dir(self.scratch.path()).into_iter().flatten().flatten());
        for file in files {
            let name = file.file_name().to_string_lossy().into_owned();
            // Those of MPIs have random numbers in their names, which may hold any other number.
            let of_an_mpi = OF_MPIS.iter().any(|begin| name.starts_with(begin));
            let theirs = !of_an_mpi && pids.iter().any(|pid| name.contains(&pid.to_string()));
            let in_scratch = file.path().starts_with(self.scratch.path());
            if name.contains("taffrail") || theirs || in_scratch && !name.starts_with("log-") {
                return Err(format!("{} is left behind", file.path().display()));
            }
        }
        Ok(())
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if worker.ended.is_none() {
                let _ = worker.child.kill();
                let _ = worker.child.wait();
            }
        }
    }
}

fn start(
    rank: u32,
    ranks: u32,
    part: &str,
    settings: &[(&str, String)],
    server: &Server,
    log: PathBuf,
) -> Worker {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let fd = theirs.as_raw_fd();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "worker", "--nocapture", "--quiet", "--test-threads=1"])
        .env(PART, part)
        .env("PMI_FD", fd.to_string())
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", ranks.to_string())
        .env("TMPDIR", log.parent().expect("a directory"))
        .env("RUST_BACKTRACE", "1")
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).expect("a file"));
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(fd, libc::F_SETFD, 0);
            libc::setpgid(0, 0);
            // Nobody outlives the test.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let mut child = command.spawn().expect("this program runs again");
    drop(theirs);
    server.serve(ours);
    let (teller, said) = channel();
    let output = child.stdout.take().expect("piped");
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Other lines are the test harness's.
            if let Some(at) = line.find('@') {
                let _ = teller.send((Instant::now(), line[at + 1..].to_owned()));
            }
        }
    });
    let input = child.stdin.take().expect("piped");
    Worker { child, input, said, log, ended: None }
}

/// What the parent tells a worker, line by line.
pub fn orders() -> Receiver<String> {
    let (teller, orders) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if teller.send(line).is_err() {
                return;
            }
        }
    });
    orders
}

/// Says something to the parent.
pub fn say(what: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "@{what}");
    let _ = out.flush();
}
