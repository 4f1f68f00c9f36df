//! A Slurm of one node, whose daemons are children of this process.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where Debian has them: not in the path of those who are not root.
const CONTROLLER: &str = "/usr/sbin/slurmctld";
const NODE: &str = "/usr/sbin/slurmd";

/// How long the node may take until it is there.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts it, or says that it is left out.
    pub fn start() -> Option<Slurm> {
        if ![CONTROLLER, NODE].iter().all(|daemon| std::fs::exists(daemon).unwrap_or(false)) {
            eprintln!("skipped: Slurm ({CONTROLLER}, {NODE}) is not installed");
            return None;
        }
        let mut slurm = Slurm { folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        std::fs::write(slurm.config(), slurm.configuration()).unwrap();
        for daemon in [CONTROLLER, NODE] {
            let mut command = Command::new(daemon);
            command.args(["-D", "-f", &slurm.config()]).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            slurm.daemons.push(command.spawn().unwrap());
        }
        slurm.wait_for_the_node();
        Some(slurm)
    }

    /// What the programs of Slurm are to find in `SLURM_CONF`.
    pub fn config(&self) -> String {
        self.path("slurm.conf")
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// One node, which says that it has eight processors, and no users to be told apart.
    fn configuration(&self) -> String {
        let system = rustix::system::uname();
        let host = system.nodename().to_str().unwrap().split('.').next().unwrap();
        let id = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(id.stdout).unwrap();
        let user = user.trim();
        let path = |name| self.path(name);
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = [port(), port()];
        [
            "ClusterName=test".to_owned(),
            format!("SlurmctldHost={host}(127.0.0.1)"),
            format!("SlurmUser={user}\nSlurmdUser={user}"),
            format!("SlurmctldPort={}\nSlurmdPort={}", ports[0], ports[1]),
            "AuthType=auth/none\nCredType=cred/none".to_owned(),
            format!("StateSaveLocation={}\nSlurmdSpoolDir={}", path("state"), path("spool")),
            format!("SlurmctldPidFile={}\nSlurmdPidFile={}", path("1.pid"), path("2.pid")),
            format!("SlurmctldLogFile={}\nSlurmdLogFile={}", path("1.log"), path("2.log")),
            "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none".to_owned(),
            "SlurmdParameters=config_overrides\nReturnToService=2".to_owned(),
            format!("NodeName={host} NodeAddr=127.0.0.1 CPUs=8"),
            "PartitionName=all Nodes=ALL Default=YES State=UP\n".to_owned(),
        ]
        .join("\n")
    }

    fn wait_for_the_node(&self) {
        let begun = Instant::now();
        loop {
            let mut command = Command::new("sinfo");
            let said = command.args(["-h", "-o", "%T"]).env("SLURM_CONF", self.config()).output();
            if said.is_ok_and(|said| said.stdout == b"idle\n") {
                return;
            }
            let log = |name| std::fs::read_to_string(self.path(name)).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{}{}", log("1.log"), log("2.log"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The node before who waits for it.
        for daemon in self.daemons.iter_mut().rev() {
            let pid = rustix::process::Pid::from_child(daemon);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = daemon.wait();
        }
    }
}
