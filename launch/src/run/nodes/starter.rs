//! The command that starts the agent of a host, and the channel through it.

use super::allocation::SRUN;
use super::channel::Channel;
use super::invitation::Invitation;
use super::options::{Plan, Reach};
use crate::run::output::Lines;
use crate::run::{family, own_program};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use taffrail_agent::wire::Direction;

/// The last lines of a starter that are kept for the line that says why it has failed.
const KEPT: usize = 3;

/// `prterun` for the agent of the host that follows: one for each node, so that the loss of a node is its alone.
const PRTERUN: [&str; 6] = ["prterun", "-n", "1", "--bind-to", "none", "--host"];

/// How long a starter has to end by itself once its channel was closed.
pub const GRACE: Duration = Duration::from_secs(1);

/// The starter of one node.
pub struct Starter {
    process: Child,
    /// Until it is closed.
    pub channel: Option<Channel>,
    /// Its agent connects by itself, and is to do so yet.
    pub is_called: bool,
    /// Its agent has answered.
    pub is_connected: bool,
    error: Option<OwnedFd>,
    /// What it passes on to its agent.
    _input: Option<ChildStdin>,
    lines: Lines,
    last: VecDeque<String>,
    /// From then on it is killed.
    kill_at: Option<Instant>,
    ended: bool,
}

impl Starter {
    /// Starts the agent of a host.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn start(host: &str, plan: &Plan) -> Result<Starter, String> {
        let mut command = command(host, plan);
        command.stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(&mut command)?;
        let (input, output) = (process.stdout.take(), process.stdin.take());
        let channel = input.zip(output).map(|(input, output)| {
            Channel::new(OwnedFd::from(input), OwnedFd::from(output), Direction::Up)
        });
        let channel = channel.transpose().map_err(|e| e.to_string())?;
        let error = process.stderr.take().map(OwnedFd::from);
        Ok(Starter::new(process, channel, error, None))
    }

    /// Starts the agent of a host, which connects by itself: the starter carries this invitation to it, and nothing back.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn invite(host: &str, plan: &Plan, invitation: &Invitation) -> Result<Starter, String> {
        let mut command = command(host, plan);
        command.arg("--invited");
        let (error, both) = std::io::pipe().map_err(|e| e.to_string())?;
        command.stdout(both.try_clone().map_err(|e| e.to_string())?).stderr(both);
        let mut process = spawn(&mut command)?;
        // It holds the other end of what it writes to, which is to end with it.
        drop(command);
        let mut input = process.stdin.take();
        if let Some(input) = &mut input {
            // Its buffer is empty. If nobody reads any more, the end of the starter says why.
            let line = invitation.line().map_err(|e| e.to_string())?;
            let _ = input.write_all(&line);
        }
        Ok(Starter::new(process, None, Some(error.into()), input))
    }

    fn new(
        process: Child,
        channel: Option<Channel>,
        error: Option<OwnedFd>,
        _input: Option<ChildStdin>,
    ) -> Starter {
        let _ = error.as_ref().map(|error| rustix::io::ioctl_fionbio(error, true));
        Starter {
            process,
            is_called: channel.is_none(),
            channel,
            is_connected: false,
            error,
            _input,
            lines: Lines::new(None),
            last: VecDeque::new(),
            kill_at: None,
            ended: false,
        }
    }

    /// Whether its agent may answer yet.
    pub fn is_connecting(&self) -> bool {
        (self.channel.is_some() || self.is_called) && !self.is_connected
    }

    /// Whether it has ended before its agent has connected.
    pub fn has_failed(&self) -> bool {
        self.is_called && self.error.is_none()
    }

    /// Its agent has connected by itself. A second one, or one that is not waited for, is dropped.
    pub fn connect(&mut self, channel: Channel) {
        if std::mem::take(&mut self.is_called) {
            self.channel = Some(channel);
        }
    }

    /// Where it writes lines for people.
    pub fn error(&self) -> Option<BorrowedFd<'_>> {
        self.error.as_ref().map(AsFd::as_fd)
    }

    /// The lines that it has written since the last time.
    pub fn read_lines(&mut self) -> Vec<String> {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while let Some(error) = &self.error {
            match rustix::io::read(error, &mut buffer) {
                Ok(len @ 1..) => text.extend(self.lines.whole(&buffer[..len])),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Ok(0) | Err(_) => {
                    text.extend(self.lines.finish());
                    self.error = None;
                }
            }
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(|line| line.trim_start_matches("taffrail: ").to_owned());
        let lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
        self.last.extend(lines.iter().cloned());
        self.last.drain(..self.last.len().saturating_sub(KEPT));
        lines
    }

    /// Its last lines, as the end of a longer one.
    pub fn last_lines(&self) -> String {
        self.last.iter().map(|line| format!("; {}", line.trim())).collect()
    }

    /// Closes the channel. The starter ends by itself, or is killed.
    pub fn close(&mut self) {
        self.channel = None;
        self.is_called = false;
        self.kill_at.get_or_insert(Instant::now() + GRACE);
    }

    /// When it is to be looked at.
    pub fn due(&self) -> Option<Instant> {
        self.kill_at.filter(|_| !self.ended)
    }

    /// Reaps it if it has ended, and kills it if it was to end by now. Whether it has ended.
    pub fn check(&mut self) -> bool {
        if !self.ended {
            self.ended = !matches!(self.process.try_wait(), Ok(None));
            if self.kill_at.is_some_and(|at| Instant::now() >= at) && !self.ended {
                self.kill();
            }
        }
        self.ended
    }

    /// Kills it and what it has started on this host.
    fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        self.ended = family::wait_for(GRACE, || self.process.try_wait()).is_ok();
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.channel = None;
        if !self.ended && family::wait_for(GRACE, || self.process.try_wait()).is_err() {
            self.kill();
        }
    }
}

/// Starts a command whose input is a pipe.
fn spawn(command: &mut Command) -> Result<Child, String> {
    // Ctrl-C is the launcher's business.
    command.process_group(0).stdin(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|e| format!("cannot start {name:?}: {e}"))
}

fn command(host: &str, plan: &Plan) -> Command {
    let mut command;
    let mut program = plan.launch_agent.clone();
    let behind = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(host);
        command
    };
    match &plan.reach {
        Reach::Command(words) => {
            let mut named = words.iter().map(|word| word.replace("{host}", host));
            command = Command::new(named.next().unwrap_or_default());
            command.args(named);
            if !words.iter().any(|word| word.contains("{host}")) {
                command.arg(host);
            }
        }
        _ if is_this_host(host) => {
            command = own_program::command();
            command.arg("agent");
            return command;
        }
        Reach::Srun(allocation) if allocation.has(host) => command = behind(&SRUN),
        Reach::Prterun => command = behind(&PRTERUN),
        Reach::Srun(_) | Reach::Ssh => {
            command = Command::new("ssh");
            command.args(["-o", "BatchMode=yes", "-o", "ServerAliveInterval=0", "-T", host]);
            // A shell reads it there.
            let quoted = program.to_str().and_then(|path| shlex::try_quote(path).ok());
            program = quoted.map_or(program.clone(), |quoted| OsString::from(&*quoted));
        }
    }
    command.arg(program).arg("agent");
    command
}

/// Whether a name is that of this host.
pub fn is_this_host(host: &str) -> bool {
    let uname = rustix::system::uname();
    let own = OsStr::new(uname.nodename().to_str().unwrap_or("localhost"));
    ["localhost", "127.0.0.1", "::1"].contains(&host) || own == host
}

/// A command of the user that starts agents, as words.
pub fn words(command: &str) -> std::result::Result<Vec<String>, String> {
    let words = shlex::split(command).filter(|words| !words.is_empty());
    words.ok_or_else(|| format!("--rsh-agent: expected a command, got {command:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taffrail_agent::hosts::Hosts;
    use taffrail_agent::lease::Terms;

    fn words(host: &str, rsh_agent: Option<&str>) -> String {
        let plan = Plan {
            hosts: Hosts::default(),
            reliable: None,
            oversubscribe: false,
            network: String::new(),
            reach: rsh_agent.and_then(shlex::split).map_or(Reach::Ssh, Reach::Command),
            launch_agent: "/opt/with space/taffrail".into(),
            start_timeout: Duration::ZERO,
            terms: Terms::default(),
            link_timeout: Duration::ZERO,
        };
        let command = command(host, &plan);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn hosts_are_reached_by_ssh_or_by_what_the_user_says() {
        let ssh = "ssh|-o|BatchMode=yes|-o|ServerAliveInterval=0|-T|me@a|'/opt/with space/taffrail'|agent";
        assert_eq!(words("me@a", None), ssh);
        let agent = "/opt/with space/taffrail|agent";
        let netns = words("t1", Some("ip netns exec {host}"));
        assert_eq!(netns, format!("ip|netns|exec|t1|{agent}"));
        assert_eq!(words("t1", Some("rsh")), format!("rsh|t1|{agent}"));
        let long = words("a", Some("srun -N1 -w {host} 'x {host}'"));
        assert_eq!(long, format!("srun|-N1|-w|a|x a|{agent}"));
        assert!(
            words("localhost", None).ends_with("|agent")
                && !words("localhost", None).contains("ssh")
        );
    }
}
