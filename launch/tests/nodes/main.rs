//! Jobs over several nodes, with real agents: on this host, each through a command of its own, and in network
//! namespaces.

mod at_once;
mod causal;
mod channels;
mod cuts;
mod ends;
mod floods;
#[path = "../../../tests/common/host.rs"]
mod host;
mod kills;
mod losses;
mod messages;
mod moved_sets;
mod moves;
mod namespaces;
mod prterun;
mod ranks;
mod rendezvous_cuts;
mod rendezvous_ranks;
mod restarts;
#[path = "../../../tests/common/slurm.rs"]
mod slurm;
mod sockets;
#[path = "../../../tests/common/namespaces.rs"]
mod spaces;
mod srun;
mod ssh;
#[path = "../../../tests/common/sshd.rs"]
mod sshd;
mod starts;
mod stopped_loggers;
mod stores;
mod strangers;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How the agents of nodes that are all this host are started.
const HERE: &str = "env TAFFRAIL_TEST_PART={host}";

/// The variable that all processes of a test have.
const MARK: &str = "TAFFRAIL_TEST_ALONE";

/// A job of a test, known by a mark in the environment of all its processes.
struct Job {
    mark: String,
    /// What starts the launcher, if it is not started directly.
    before: Vec<String>,
    args: Vec<String>,
}

struct Ended {
    status: i32,
    out: String,
    err: String,
    took: Duration,
}

impl Job {
    /// `taffrail run` on nodes of this host: `a:2,b:1` are two.
    fn on(hosts: &str) -> Job {
        Job::through(HERE, hosts)
    }

    fn through(rsh_agent: &str, hosts: &str) -> Job {
        Job::new(&[]).with(&["--rsh-agent", rsh_agent, "--hosts", hosts])
    }

    /// `taffrail run`, started by what stands `before` it.
    fn new(before: &[&str]) -> Job {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("nodes-{}-{number}", std::process::id());
        Job { mark, before: Vec::new(), args: vec!["run".to_owned()] }.started_by(before)
    }

    /// The same, started by what stands before it.
    fn started_by(mut self, before: &[impl AsRef<str>]) -> Job {
        self.before = before.iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    fn with(mut self, args: &[&str]) -> Job {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// With ranks that each run a script.
    fn script(self, ranks: u32, script: &str) -> Job {
        self.with(&["-n", &ranks.to_string(), "bash", "-c", script])
    }

    fn command(&self) -> Command {
        let launcher = env!("CARGO_BIN_EXE_taffrail");
        let mut words = self.before.iter().map(String::as_str).chain([launcher]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(&self.args).env(MARK, &self.mark);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end: nothing is left of it then.
    fn run(&self) -> Ended {
        let started = Instant::now();
        self.end(self.command().spawn().unwrap(), started)
    }

    /// The file that exists while its ranks keep a pace.
    fn pace(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{}.pace", self.mark))
    }

    /// The end of a job that was started.
    fn end(&self, child: Child, started: Instant) -> Ended {
        let _ = std::fs::remove_file(self.pace());
        let pid = child.id();
        let (sender, over) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if over.recv_timeout(Duration::from_secs(90)) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(sender);
        watchdog.join().unwrap();
        let ended = Ended::new(output, started);
        self.assert_nothing_left(&ended.err);
        ended
    }

    /// Processes of the job, the launcher and agents among them.
    fn processes(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let all = pids.map(|pid| Process { pid }).filter(|process| process.runs());
        all.filter(|process| process.environment().contains(&mark)).collect()
    }

    fn assert_nothing_left(&self, why: &str) {
        let gone = soon(|| self.processes().is_empty());
        let left: Vec<String> = self.processes().iter().map(Process::words).collect();
        assert!(gone, "left behind: {left:?}\n{why}");
    }

    /// The agent of a node.
    fn agent(&self, node: &str) -> Process {
        let of_node = format!("TAFFRAIL_TEST_PART={node}");
        let is_agent = |process: &Process| {
            process.words().ends_with(" agent") && process.environment().contains(&of_node)
        };
        self.processes().into_iter().find(is_agent).expect("the agent runs")
    }

    /// Processes that run a program of this name.
    fn running(&self, program: &str) -> Vec<Process> {
        let all = self.processes().into_iter();
        all.filter(|process| process.words().starts_with(program)).collect()
    }
}

impl Ended {
    fn new(output: Output, started: Instant) -> Ended {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ended {
            status: output.status.code().expect("it exits, whatever is killed"),
            out: text(output.stdout),
            err: text(output.stderr),
            took: started.elapsed(),
        }
    }

    fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// A process, found from outside.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
}

impl Process {
    fn read(&self, what: &str) -> String {
        let bytes = std::fs::read(format!("/proc/{}/{what}", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn environment(&self) -> Vec<String> {
        self.read("environ").split('\0').map(str::to_owned).collect()
    }

    fn words(&self) -> String {
        self.read("cmdline").trim_end_matches('\0').replace('\0', " ")
    }

    /// It exists and is no zombie.
    fn runs(&self) -> bool {
        let stat = self.read("stat");
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        !matches!(state, None | Some("Z" | "X"))
    }

    fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([&format!("-{signal}"), &self.pid.to_string()]).status();
        assert!(sent.unwrap().success(), "kill -{signal} {}", self.pid);
    }
}

/// Whether something becomes true within some seconds.
fn soon(mut what: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
