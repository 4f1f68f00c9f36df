//! A Slurm whose nodes are this host or network namespaces of it, and whose daemons are children of this process.

use super::host::Host;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where Debian has them: not in the path of those who are not root.
const CONTROLLER: &str = "/usr/sbin/slurmctld";
const NODE: &str = "/usr/sbin/slurmd";

/// How long the nodes may take until they are there.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes `n0`, `n1` and so on.
pub struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts it with a node on each of these hosts, or says that it is left out. The first has the controller, and
    /// is where jobs are started.
    pub fn start(hosts: &[Host]) -> Option<Slurm> {
        if ![CONTROLLER, NODE].iter().all(|daemon| std::fs::exists(daemon).unwrap_or(false)) {
            eprintln!("skipped: Slurm ({CONTROLLER}, {NODE}) is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut slurm = Slurm { folder, daemons: Vec::new() };
        std::fs::write(slurm.config(), slurm.configuration(hosts)).unwrap();
        slurm.start_daemon(&hosts[0], CONTROLLER, &[]);
        for (node, host) in hosts.iter().enumerate() {
            slurm.start_daemon(host, NODE, &["-N", &format!("n{node}")]);
        }
        slurm.wait_for_nodes(hosts);
        Some(slurm)
    }

    fn start_daemon(&mut self, host: &Host, daemon: &str, more: &[&str]) {
        let mut command = host.command(daemon);
        command.args(["-D", "-f", &self.config()]).args(more).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    /// What the programs of Slurm are to find in `SLURM_CONF`.
    pub fn config(&self) -> String {
        self.path("slurm.conf")
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Nodes that say that they have eight processors each, and no users to be told apart.
    fn configuration(&self, hosts: &[Host]) -> String {
        let system = rustix::system::uname();
        let name = system.nodename().to_str().unwrap().split('.').next().unwrap();
        let id = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(id.stdout).unwrap();
        let user = user.trim();
        let path = |name| self.path(name);
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (controller, address) = (port(), &hosts[0].address);
        let node = |(number, host): (usize, &Host)| {
            let (address, port) = (&host.address, port());
            format!("NodeName=n{number} NodeHostname={name} NodeAddr={address} Port={port} CPUs=8")
        };
        let nodes: Vec<String> = hosts.iter().enumerate().map(node).collect();
        [
            "ClusterName=test".to_owned(),
            format!("SlurmctldHost={name}({address})"),
            format!("SlurmUser={user}\nSlurmdUser={user}"),
            format!("SlurmctldPort={controller}"),
            "AuthType=auth/none\nCredType=cred/none".to_owned(),
            format!("StateSaveLocation={}\nSlurmdSpoolDir={}", path("state"), path("%n")),
            format!("SlurmctldPidFile={}\nSlurmdPidFile={}", path("pid"), path("%n.pid")),
            format!("SlurmctldLogFile={}\nSlurmdLogFile={}", path("log"), path("%n.log")),
            "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none".to_owned(),
            "SlurmdParameters=config_overrides\nReturnToService=2".to_owned(),
            nodes.join("\n"),
            "PartitionName=all Nodes=ALL Default=YES State=UP\n".to_owned(),
        ]
        .join("\n")
    }

    fn wait_for_nodes(&self, hosts: &[Host]) {
        let begun = Instant::now();
        loop {
            let mut command = hosts[0].command("sinfo");
            let said =
                command.args(["-h", "-o", "%T %D"]).env("SLURM_CONF", self.config()).output();
            if said.is_ok_and(|said| said.stdout == format!("idle {}\n", hosts.len()).as_bytes()) {
                return;
            }
            let log = |name| std::fs::read_to_string(self.path(name)).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{}{}", log("log"), log("n0.log"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Nodes before the controller, which waits for them.
        for daemon in self.daemons.iter_mut().rev() {
            let pid = rustix::process::Pid::from_child(daemon);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = daemon.wait();
        }
    }
}
