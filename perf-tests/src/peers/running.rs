//! Running other programs: found or not, pinned, and not for ever.

use crate::cpus;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No single benchmark takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a program's end is looked for; rarely, since it runs on the CPUs measured.
const LOOK: Duration = Duration::from_millis(20);
/// A server that is not ready after this long will not be.
const READY: Duration = Duration::from_secs(3);

/// The first of `names` in the search path; otherwise says to install `package`.
pub fn find(names: &[&str], package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
        .ok_or_else(|| format!("{} is not installed (Debian package {package})", names[0]))
}

/// Runs a program to its end; its standard output. Not for long outputs: they are read at the end.
pub fn run(command: &mut Command) -> Result<String, String> {
    run_within(PATIENCE, command)
}

/// As [`run`], for programs of which it is known how long they may take.
pub fn run_within(patience: Duration, command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = start(command)?;
    succeed(&name, wait(child, &name, patience)?)
}

/// Runs a server and a client, pinned to a CPU each, the client again until the server is ready.
/// `arguments` get a free port. Returns the client's standard output.
pub fn run_server_and_client(
    server: impl FnOnce(u16) -> Command,
    client: impl Fn(u16) -> Command,
) -> Result<String, String> {
    let (first, second) = cpus::pair().map_err(|e| e.to_string())?;
    let port = free_port()?;
    let mut server = server(port);
    let name = server.get_program().to_string_lossy().into_owned();
    let mut server = Ended(start_on(first, &mut server)?);
    let until = Instant::now() + READY;
    loop {
        std::thread::sleep(LOOK);
        let answer = start_on(second, &mut client(port))
            .and_then(|child| wait(child, &name, PATIENCE))
            .and_then(|output| succeed(&name, output));
        let gone = !matches!(server.0.try_wait(), Ok(None));
        match answer {
            Ok(text) => return Ok(text),
            Err(reason) if gone || Instant::now() > until => return Err(reason),
            Err(_) => {}
        }
    }
}

/// A process that does not outlive its use.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16, String> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| format!("no free TCP port: {e}"))
}

fn start(command: &mut Command) -> Result<Child, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name} could not be started: {e}"))
}

/// Starts a program from a thread on `cpu`, from which it inherits that.
fn start_on(cpu: usize, command: &mut Command) -> Result<Child, String> {
    cpus::on(cpu, || start(command)).map_err(|e| e.to_string())?
}

fn wait(mut child: Child, name: &str, patience: Duration) -> Result<Output, String> {
    let until = Instant::now() + patience;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            drop(Ended(child));
            return Err(format!("{name} did not end within {} s", patience.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
    child.wait_with_output().map_err(|e| format!("{name}: {e}"))
}

fn succeed(name: &str, output: Output) -> Result<String, String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Launchers draw lines round what they say.
    let words = |line: &&str| line.contains(char::is_alphanumeric);
    let said = said.lines().rfind(words).unwrap_or("nothing said");
    Err(format!("{name} ended with {}: {}", output.status, said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let reason = find(&["no-such-benchmark"], "some-package").unwrap_err();
        assert_eq!(reason, "no-such-benchmark is not installed (Debian package some-package)");
        assert!(find(&["no-such-benchmark", "sh"], "dash").is_ok());
    }

    #[test]
    fn failures_say_why() {
        assert_eq!(run(Command::new("sh").args(["-c", "echo yes"])).unwrap(), "yes\n");
        let reason = run(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err();
        assert!(reason.contains("exit status: 3") && reason.ends_with("because"), "{reason}");
        assert!(run(&mut Command::new("/no/such/program")).unwrap_err().contains("/no/such"));
    }
}
