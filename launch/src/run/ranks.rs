//! One rank: how its process is started, what of it is watched, how it is ended.

use super::guard::Guard;
use super::line::Line;
use super::output::Output;
use super::{App, Failure, before_exec, family, in_words, own_program, pmix};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use taffrail::environment::{Use, VARIABLES};

pub struct Rank {
    process: Child,
    /// Until the process has been reaped.
    runs: bool,
    /// Until the rank closes it, or breaks the protocol.
    pub line: Option<Line>,
    pub out: Option<Output<ChildStdout>>,
    pub err: Option<Output<ChildStderr>>,
}

/// What launchers tell their ranks, beside the variables of ours.
const OF_LAUNCHERS: [&str; 4] = ["PMI_PORT", "PMI_ID", "HYDI_CONTROL_FD", "TAFFRAIL_LOG_MEMORY"];

/// What a process is given beside what all have.
#[derive(Default)]
pub struct RankEnv {
    variables: Vec<(&'static str, String)>,
    /// Descriptors that stay open in it, with the numbers that they have here.
    pub inherited: Vec<OwnedFd>,
}

impl RankEnv {
    pub fn set(&mut self, name: &'static str, value: impl ToString) {
        self.variables.push((name, value.to_string()));
    }

    /// Tells it numbers of descriptors.
    pub fn tell(&mut self, name: &'static str, descriptors: &[i32]) {
        let numbers: Vec<String> = descriptors.iter().copied().map(in_digits).collect();
        self.set(name, numbers.join(","));
    }

    /// Lets the process have a descriptor. Returns its number, there as here.
    pub fn inherit(&mut self, file: &impl AsFd) -> Result<i32, Failure> {
        let file = file.as_fd().try_clone_to_owned().map_err(|e| {
            Failure::new(format!("a rank cannot be given what it needs: {}", in_words(&e)))
        })?;
        let number = file.as_raw_fd();
        self.inherited.push(file);
        Ok(number)
    }

    /// The names of what is set.
    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.variables.iter().map(|(name, _)| *name)
    }
}

/// The number of a descriptor, in as many digits whatever it is: a process that is started again is to have
/// its things where the one before had them, and its environment is one of them.
pub fn in_digits(descriptor: i32) -> String {
    format!("{descriptor:04}")
}

/// What is started as a rank, and how.
pub struct Start<'a> {
    pub rank: usize,
    /// Ranks of the job.
    pub ranks: u32,
    /// Its place among the ranks of this host, and how many those are.
    pub local: (usize, usize),
    pub app: &'a App,
    /// Whether its program starts through PMIx.
    pub pmix: bool,
    pub cpu: Option<usize>,
    pub from: Environment<'a>,
    pub streams: Streams,
    /// The rank whose number stands before each line of output, if any does.
    pub label: Option<usize>,
}

/// What a rank finds in its environment beside what is its own.
pub enum Environment<'a> {
    /// What is in ours, and these.
    Ours(&'a [(&'static str, OsString)]),
    /// What a launcher on another host has said, and the working directory.
    Sent { variables: &'a [(OsString, OsString)], directory: &'a Path },
}

/// Where the standard streams of a rank go.
pub struct Streams {
    pub input: Stdio,
    /// Output and error are inherited, if they do not pass through this process.
    pub output: Option<Stdio>,
    pub error: Option<Stdio>,
}

impl Rank {
    /// Starts a rank. When this returns its program runs. With it comes its standard input, if that is a pipe.
    pub fn start(
        start: Start<'_>,
        env: RankEnv,
        guard: &Guard,
    ) -> Result<(Rank, Option<ChildStdin>), Failure> {
        let number = start.rank;
        let program = start.app.program.to_string_lossy();
        let failed = |e: std::io::Error| {
            let (status, why) = before_exec::why(&e);
            Failure { status, why: format!("cannot start {program:?} as rank {number}: {why}") }
        };
        let no_line = |e| {
            Failure::new(format!(
                "rank {number} has no connection (socketpair, fcntl, ioctl): {}",
                in_words(&e)
            ))
        };
        let (ours, theirs) = UnixStream::pair().map_err(no_line)?;
        // Before the rank runs: its first word comes with its sender, or never.
        let line = Line::new(ours).map_err(no_line)?;
        // A number of three digits, see `in_digits`: others read this one, who may mind zeros.
        let theirs = rustix::io::fcntl_dupfd_cloexec(&theirs, 100).unwrap_or(theirs.into());
        let mut command = command(start.pmix, start.app);
        command.stdin(start.streams.input);
        start.from.apply(&mut command);
        command.env("PMI_FD", theirs.as_raw_fd().to_string()).envs(identity(
            number,
            start.ranks,
            start.local,
        ));
        command.envs(env.variables);
        if let Environment::Ours(variables) = start.from {
            command.envs(variables.iter().map(|(name, value)| (name, value)));
        }
        start.streams.output.map(|output| command.stdout(output));
        start.streams.error.map(|error| command.stderr(error));
        let mut inherited = env.inherited;
        inherited.push(theirs);
        before_exec::prepare(&mut command, inherited, start.cpu, guard).map_err(no_line)?;
        let mut process = command.spawn().map_err(failed)?;
        let keyboard = process.stdin.take();
        Ok((Rank::watched(process, start.label, line).map_err(no_line)?, keyboard))
    }

    fn watched(mut process: Child, label: Option<usize>, line: Line) -> std::io::Result<Rank> {
        let (out, err) = (process.stdout.take(), process.stderr.take());
        if let Some(out) = &out {
            rustix::io::ioctl_fionbio(out, true)?;
        }
        if let Some(err) = &err {
            rustix::io::ioctl_fionbio(err, true)?;
        }
        Ok(Rank {
            runs: true,
            line: Some(line),
            out: out.map(|out| Output::new(out, label)),
            err: err.map(|err| Output::new(err, label)),
            process,
        })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The process, as the user knows it.
    pub fn name(&self, number: usize) -> String {
        format!("rank {number} (pid {})", self.pid())
    }

    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Whether its process has ended, and has not been reaped. A process whose state is unknown counts as ended: the
    /// job does not wait for it for ever.
    pub fn has_ended(&self) -> bool {
        self.runs && family::has_ended(self.pid()).unwrap_or(true)
    }

    /// Whether its process is stopped, as far as the system tells.
    pub fn is_stopped(&self) -> bool {
        family::is_stopped(self.pid().as_raw_pid()) == Some(true)
    }

    /// Whether its process is about to end, and has perhaps closed its connections already.
    pub fn is_exiting(&self) -> bool {
        self.runs() && family::is_exiting(self.pid().as_raw_pid()) == Some(true)
    }

    /// Sends a signal to the rank and all that it has started.
    pub fn signal(&self, signal: Signal) {
        if self.runs() {
            // Not reaped yet, so the number is still its own; a group without anyone is no harm.
            let _ = rustix::process::kill_process_group(self.pid(), signal);
        }
    }

    /// The same, also where that has left the process group of the rank.
    pub fn signal_all(&self, signal: Signal) {
        if self.runs() {
            family::signal_all(self.pid(), signal);
        }
    }

    /// Ends the process, if it has not ended, and what it has left behind; returns its status when
    /// all of that is gone.
    ///
    /// # Errors
    /// When the system does not tell how it has ended, or it does not end, or not all of what it has left behind.
    pub fn reap(&mut self, guard: &Guard) -> std::io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        guard.forget(self.pid());
        self.runs = false;
        self.line = None;
        let status = family::wait_for(family::PATIENCE, || self.process.try_wait())?;
        // What it had started is our child now, and may be what was connected with other ranks.
        let pid = self.pid();
        family::wait_for(family::PATIENCE, || {
            match rustix::process::waitpgid(pid, WaitOptions::NOHANG) {
                Ok(Some(_)) => Err(ErrorKind::Interrupted.into()),
                Ok(None) => Ok(None),
                Err(Errno::CHILD) => Ok(Some(())),
                Err(e) => Err(e.into()),
            }
        })?;
        Ok(status)
    }
}

impl Environment<'_> {
    /// Has a process find what is not its own rank's.
    fn apply(&self, command: &mut Command) {
        match self {
            // A launcher that started us, if any, is not the one of the ranks.
            Environment::Ours(_) => {
                let all = std::env::vars_os().map(|(name, _)| name);
                for name in all.filter(|name| is_of_launcher(name)) {
                    command.env_remove(name);
                }
            }
            Environment::Sent { variables, directory } => {
                command.env_clear().current_dir(directory);
                command.envs(variables.iter().map(|(name, value)| (name, value)));
            }
        }
    }
}

/// Whether a variable is what a launcher tells its ranks: not for those of a launcher below it.
pub fn is_of_launcher(name: &OsStr) -> bool {
    let of_ranks = VARIABLES.iter().filter(|variable| variable.of == Use::Job);
    let mut names = of_ranks.map(|variable| variable.name).chain(OF_LAUNCHERS);
    of_pmix(name.as_encoded_bytes()) || names.any(|of_launcher| name == of_launcher)
}

/// Where programs find their rank and the number of ranks before they call MPI: under the names of PMI, of
/// Open MPI's `mpirun`, and of MPICH's `mpiexec`.
fn identity(
    rank: usize,
    ranks: u32,
    (local_rank, local_ranks): (usize, usize),
) -> impl Iterator<Item = (&'static str, String)> {
    let ranks = ranks as usize;
    let all = [
        ("PMI_RANK", rank),
        ("OMPI_COMM_WORLD_RANK", rank),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank),
        ("OMPI_COMM_WORLD_NODE_RANK", local_rank),
        ("MPI_LOCALRANKID", local_rank),
        ("PMI_SIZE", ranks),
        ("OMPI_COMM_WORLD_SIZE", ranks),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", local_ranks),
        ("MPI_LOCALNRANKS", local_ranks),
    ];
    all.into_iter().map(|(name, value)| (name, value.to_string()))
}

/// The program, or what becomes it when it has a server.
fn command(pmix: bool, app: &App) -> Command {
    let mut command = match pmix {
        false => Command::new(&app.program),
        true => {
            let mut command = own_program::command();
            command.args([pmix::RANK, "--"]).arg(&app.program);
            command
        }
    };
    command.args(&app.args);
    command
}

/// What a PMIx server tells its client, and not what a user tells the library.
fn of_pmix(name: &[u8]) -> bool {
    name.starts_with(b"PMIX_") && !name.starts_with(b"PMIX_MCA_")
}

/// Whether a descriptor of another process and one of this process are the same open file; `None` where the system
/// does not tell.
pub fn is_same_file(pid: Pid, fd: i32, own: i32) -> Option<bool> {
    const FILE: i32 = 0;
    let (me, it) = (rustix::process::getpid().as_raw_pid(), pid.as_raw_pid());
    // SAFETY: a system call with numbers.
    match unsafe { libc::syscall(libc::SYS_kcmp, me, it, FILE, own, fd) } {
        0 => Some(true),
        1.. => Some(false),
        _ => None,
    }
}

/// The part of a status that the shell sees; never 0, since this is about failures.
pub fn low_byte(status: i32) -> u8 {
    (status & 0xff).max(1) as u8
}
