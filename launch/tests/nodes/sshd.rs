//! Through a real sshd, on this host: two names of it are two nodes.

use super::*;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

/// Daemons with keys of their own. They end with this.
pub struct Sshd {
    processes: Vec<Child>,
    dir: tempfile::TempDir,
    port: u16,
    /// What starts a program where the daemons are reached.
    before: Vec<String>,
}

fn key(path: &Path) -> bool {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    command.status().is_ok_and(|status| status.success())
}

/// A command behind others.
fn behind(before: &[String], program: &str) -> Command {
    let mut words = before.iter().map(String::as_str).chain([program]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

impl Sshd {
    /// Nothing where there is none, or it may not run, which is said.
    fn start() -> Option<Sshd> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Sshd::listening(port, &[("127.0.0.1", Vec::new())])
    }

    /// At this port of each address, started by what stands beside it; the first is where they are reached from.
    pub fn listening(port: u16, at: &[(&str, Vec<&str>)]) -> Option<Sshd> {
        let before = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut sshd = Sshd { processes: Vec::new(), dir, port, before: before(&at[0].1) };
        let keys = ["host", "user"].iter().all(|name| key(&sshd.dir.path().join(name)));
        let all_listen =
            keys && at.iter().all(|(address, words)| sshd.listen(address, &before(words)));
        if !all_listen {
            eprintln!("skipped: no sshd can be started here (openssh-server, as root)");
        }
        all_listen.then_some(sshd)
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Starts one.
    fn listen(&mut self, address: &str, before: &[String]) -> bool {
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
        let mut command = behind(before, "/usr/sbin/sshd");
        let Ok(mut process) = command.args(["-D", "-e", "-f", &file]).stderr(Stdio::null()).spawn()
        else {
            return false;
        };
        let ended = |process: &mut Child| process.try_wait().is_ok_and(|status| status.is_some());
        let up = soon(|| ended(&mut process) || self.lets_us_in(address)) && !ended(&mut process);
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

    fn lets_us_in(&self, address: &str) -> bool {
        let words = self.command().replace("{host}", address);
        let mut words = words.split_whitespace();
        let mut ssh = behind(&self.before, words.next().unwrap_or_default());
        ssh.args(words).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
        ssh.status().is_ok_and(|status| status.success())
    }

    fn job(&self) -> Job {
        Job::through(&self.command(), "127.0.0.1:2,localhost:2")
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

#[test]
fn jobs_run_end_and_are_lost_through_ssh() {
    let Some(sshd) = Sshd::start() else { return };
    let script =
        "read line; echo $PMI_RANK:$line; [ $PMI_RANK = 3 ] && sleep 1 && exit 5; sleep 30";
    let job = sshd.job().script(4, script);
    let mut child = job.command().stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"ahoy\n").unwrap();
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 5, "{}", ended.err);
    assert_eq!(ended.sorted(), ["0:ahoy", "1:", "2:", "3:"], "{}", ended.err);

    // A connection is lost.
    let job = sshd.job().script(4, "sleep 300 & setsid sleep 300 & wait");
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 8));
    let of_node = |process: &&Process| process.words().contains(" localhost ");
    job.running("ssh ").iter().find(of_node).unwrap().signal("KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    let why = "taffrail: node localhost lost (the connection has ended): ranks 2-3\n";
    assert!(ended.err.contains(why), "{}", ended.err);

    // The launcher is lost.
    let job = sshd.job().script(4, "echo up; sleep 300 & setsid sleep 300 & wait");
    let mut child = job.command().spawn().unwrap();
    let mut up = [0; 12];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    assert_eq!(up, *b"up\nup\nup\nup\n");
    assert!(soon(|| job.running("sleep").len() == 8));
    child.kill().unwrap();
    child.wait().unwrap();
    job.assert_nothing_left("after the launcher was killed");
}
