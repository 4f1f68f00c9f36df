//! Through a real sshd, on this host: two names of it are two nodes.

use super::*;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

/// An sshd of its own, with keys of its own. It ends with this.
struct Sshd {
    process: Child,
    dir: tempfile::TempDir,
    port: u16,
}

fn key(path: &Path) -> bool {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    command.status().is_ok_and(|status| status.success())
}

impl Sshd {
    /// Nothing where there is none, or it may not run, which is said.
    fn start() -> Option<Sshd> {
        let started = Sshd::try_start();
        if started.is_none() {
            eprintln!("skipped: no sshd can be started here (openssh-server, as root)");
        }
        started
    }

    fn try_start() -> Option<Sshd> {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        if !key(&dir.path().join("host")) || !key(&dir.path().join("user")) {
            return None;
        }
        // Where a service has not made it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n\
             AuthorizedKeysFile {}\nPidFile none\n",
            at("host"),
            at("user.pub"),
        );
        std::fs::write(dir.path().join("config"), config).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f", &at("config")]).stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let ended = |process: &mut Child| process.try_wait().is_ok_and(|status| status.is_some());
        let up = soon(|| ended(&mut process) || listens()) && !ended(&mut process);
        let sshd = Sshd { process, dir, port };
        (up && sshd.lets_us_in()).then_some(sshd)
    }

    fn command(&self) -> String {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        format!(
            "ssh -F none -i {} -p {} -o StrictHostKeyChecking=no -o UserKnownHostsFile={} -o LogLevel=ERROR \
             -o BatchMode=yes -T {{host}}",
            at("user"),
            self.port,
            at("known"),
        )
    }

    fn lets_us_in(&self) -> bool {
        let words = self.command().replace("{host}", "127.0.0.1");
        let mut words = words.split_whitespace();
        let mut ssh = Command::new(words.next().unwrap_or_default());
        ssh.args(words).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
        ssh.status().is_ok_and(|status| status.success())
    }

    fn job(&self) -> Job {
        Job::through(&self.command(), "127.0.0.1:2,localhost:2")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
