//! Real ssh daemons, on this host or in network namespaces of it.

use super::host::Host;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take until it lets us in.
const PATIENCE: Duration = Duration::from_secs(20);

/// Daemons with keys of their own. They end with this.
pub struct Sshd {
    processes: Vec<Child>,
    dir: tempfile::TempDir,
    port: u16,
}

fn key(path: &Path) -> bool {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    command.status().is_ok_and(|status| status.success())
}

impl Sshd {
    /// At this port of each host; the first is where they are reached from. Nothing where there is none, or it may not
    /// run, which is said.
    pub fn listening(port: u16, at: &[Host]) -> Option<Sshd> {
        let dir = tempfile::tempdir().unwrap();
        let mut sshd = Sshd { processes: Vec::new(), dir, port };
        let keys = ["host", "user"].iter().all(|name| key(&sshd.dir.path().join(name)));
        let all_listen = keys && at.iter().all(|host| sshd.listen(host, &at[0]));
        if !all_listen {
            eprintln!("skipped: no sshd can be started here (openssh-server, as root)");
        }
        all_listen.then_some(sshd)
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Starts one.
    fn listen(&mut self, host: &Host, from: &Host) -> bool {
        let address = &host.address;
        // Where a service has not made it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let config = format!(
            "Port {}\nListenAddress {address}\nHostKey {}\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n\
             AuthorizedKeysFile {}\nPidFile none\n",
            self.port,
            self.at("host"),
            self.at("user.pub"),
        );
        let file = self.at(&format!("config-{address}"));
        std::fs::write(&file, config).unwrap();
        let mut command = host.command("/usr/sbin/sshd");
        let Ok(mut process) = command.args(["-D", "-e", "-f", &file]).stderr(Stdio::null()).spawn()
        else {
            return false;
        };
        let begun = Instant::now();
        let up = loop {
            if process.try_wait().is_ok_and(|status| status.is_some()) || begun.elapsed() > PATIENCE
            {
                break false;
            }
            if self.lets_us_in(from, address) {
                break true;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.processes.push(process);
        up
    }

    pub fn command(&self) -> String {
        format!(
            "ssh -F none -i {} -p {} -o StrictHostKeyChecking=no -o UserKnownHostsFile={} -o LogLevel=ERROR \
             -o BatchMode=yes -T {{host}}",
            self.at("user"),
            self.port,
            self.at("known"),
        )
    }

    fn lets_us_in(&self, from: &Host, address: &str) -> bool {
        let words = self.command().replace("{host}", address);
        let mut words = words.split_whitespace();
        let mut ssh = from.command(words.next().unwrap_or_default());
        ssh.args(words).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
        ssh.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
