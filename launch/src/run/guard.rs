//! The guard: a small process that ends the job when the launcher is killed outright.
//!
//! A rank itself dies with its launcher (the kernel sees to that), but what the rank has started
//! would not. The guard holds one end of a connection on which every rank announces its process
//! group before it runs any program; when the launcher is gone the connection ends, and the guard
//! kills the groups that are left, and what has left them and is no daemon, and removes the files that MPIs have for
//! the job. It shares the outputs of the launcher, to know who holds them. The guard of an agent does the same, and at the
//! agent's deadline even if the agent is there: it may be stopped (`docs/spec/agent.md`, section 5).

use super::{Failure, family, in_words, left_behind, own_program};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The launcher's handle on its guard.
pub struct Guard {
    process: Child,
    connection: Option<UnixStream>,
    job: Guarded,
}

/// The job of a guard, from the first message that it receives.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Guarded {
    name: String,
    ranks: u32,
    /// Of an agent: the number of its node.
    node: Option<u16>,
}

/// In place of the number of a node.
const NO_NODE: u32 = u32::MAX;

/// The longest name of a job that a guard believes.
const NAME_MAX: u32 = 1024;

impl Guarded {
    fn to_bytes(&self) -> Vec<u8> {
        let node = self.node.map_or(NO_NODE, u32::from);
        let numbers = [self.ranks, node, self.name.len() as u32].map(u32::to_ne_bytes);
        [numbers.as_flattened(), self.name.as_bytes()].concat()
    }

    /// Nothing if the launcher was gone before it had said it.
    fn read(from: &mut impl Read) -> Option<Guarded> {
        let mut number = || {
            let mut bytes = [0; 4];
            from.read_exact(&mut bytes).ok()?;
            Some(u32::from_ne_bytes(bytes))
        };
        let (ranks, node, len) = (number()?, number()?, number()?.min(NAME_MAX));
        let mut name = vec![0; len as usize];
        from.read_exact(&mut name).ok()?;
        Some(Guarded { name: String::from_utf8(name).ok()?, ranks, node: node.try_into().ok() })
    }

    /// What processes of it have in their environment.
    fn mark(&self) -> String {
        left_behind::mark(&self.name, self.node)
    }
}

impl Guard {
    /// Starts the guard of the job of this name with this number of ranks, or of one node of it.
    pub fn start(name: &str, ranks: u32, node: Option<u16>) -> Result<Guard, Failure> {
        let failed = |e| {
            let (calls, why) = ("socketpair, fork, setpgid, execve", in_words(&e));
            Failure::new(format!("cannot start the guard of the job ({calls}): {why}"))
        };
        let job = Guarded { name: name.to_owned(), ranks, node };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut process = own_program::command()
            .arg("guard")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        check_waiting(&mut process)?;
        let guard = Guard { process, connection: Some(ours), job };
        send(guard.connection(), &guard.job.to_bytes());
        Ok(guard)
    }

    /// Starts another one for these groups, if this one was killed.
    pub fn replace_if_dead(&mut self, groups: impl Iterator<Item = Pid>) -> Result<(), Failure> {
        if let Ok(Some(_)) = self.process.try_wait() {
            *self = Guard::start(&self.job.name, self.job.ranks, self.job.node)?;
            groups.for_each(|group| self.watch(group));
        }
        Ok(())
    }

    /// Where ranks announce themselves with [`announce`].
    #[expect(
        clippy::expect_used,
        reason = "the connection is taken only when the guard is dropped"
    )]
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_ref().expect("open until dropped").as_fd()
    }

    /// A group that is to end with the job, whose leader has not announced itself.
    pub fn watch(&self, group: Pid) {
        say(self.connection(), group.as_raw_pid());
    }

    /// The group has nobody in it any more. To be said while its number cannot be used again.
    pub fn forget(&self, group: Pid) {
        say(self.connection(), -group.as_raw_pid());
    }

    /// All groups are to end at this time of [`boot_time`], unless a later one comes before.
    pub fn arm(&self, deadline: Duration) {
        let deadline = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        let record = [&DEADLINE.to_ne_bytes()[..], &deadline.to_ne_bytes()].concat();
        send(self.connection(), &record);
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

/// The record in front of a deadline: no process has this number.
const DEADLINE: i32 = 0;

/// The clock of deadlines. It counts while the machine is suspended.
pub fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.connection = None;
        family::end(&mut self.process, PATIENCE);
    }
}

/// Nothing is started whose end would not be seen. The guard is the first child.
fn check_waiting(child: &mut Child) -> Result<(), Failure> {
    let refused = |call: &str, e| {
        let why = in_words(&e);
        Failure::new(format!(
            "the ends of processes cannot be seen ({call}), so none is started: {why}"
        ))
    };
    family::has_ended(Pid::from_child(child)).map_err(|e| refused("waitid", e.into()))?;
    child.try_wait().map(drop).map_err(|e| refused("wait4", e))
}

/// Tells the guard of the process group of this process, its leader. Async-signal-safe.
pub fn announce(connection: BorrowedFd<'_>) {
    say(connection, rustix::process::getpid().as_raw_pid());
}

fn say(connection: BorrowedFd<'_>, number: i32) {
    send(connection, &number.to_ne_bytes());
}

/// A guard that someone killed or stopped guards no more; the job itself is not in danger, and does not wait.
fn send(connection: BorrowedFd<'_>, bytes: &[u8]) {
    let _ = rustix::net::send(connection, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// How long the guard waits for what it has killed, before it removes files that could still be made; and how long the
/// launcher waits for the guard.
const PATIENCE: Duration = Duration::from_secs(1);

/// The guard's end of the connection, and its deadline.
struct Watch {
    /// Without it, a deadline has no effect beside that of the agent itself.
    timer: Option<OwnedFd>,
    /// The deadline has passed while the launcher was there.
    fired: bool,
}

impl Watch {
    fn new() -> Watch {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC).ok();
        Watch { timer, fired: false }
    }

    /// The next number of the launcher; `None` when it is gone, or at the deadline.
    fn next(&mut self) -> Option<i32> {
        loop {
            match i32::from_ne_bytes(self.read()?) {
                DEADLINE => {
                    let deadline = u64::from_ne_bytes(self.read()?);
                    self.arm(deadline);
                }
                number => return Some(number),
            }
        }
    }

    fn read<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (mut bytes, mut len) = ([0; N], 0);
        while len < N {
            if !self.wait() {
                return None;
            }
            match rustix::io::read(rustix::stdio::stdin(), &mut bytes[len..]) {
                Ok(0) => return None,
                Ok(more) => len += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(bytes)
    }

    /// Waits for more, until the deadline.
    fn wait(&mut self) -> bool {
        let stdin = rustix::stdio::stdin();
        let timer = self.timer.as_ref().map_or(stdin, AsFd::as_fd);
        let mut both = [stdin, timer].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        while let Err(rustix::io::Errno::INTR) = poll(&mut both, None) {}
        let [has_more, has_fired] = both.map(|fd| !fd.revents().is_empty());
        // What was said before it is heard first: it may be a later deadline.
        self.fired = self.timer.is_some() && has_fired && !has_more;
        !self.fired
    }

    fn arm(&mut self, deadline: u64) {
        let (seconds, rest) = (deadline / 1_000_000_000, deadline % 1_000_000_000);
        let at = Timespec { tv_sec: seconds as i64, tv_nsec: rest as _ };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
        let timer = self.timer.as_ref();
        timer.map(|timer| timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once));
    }
}

/// What the guard process does.
pub fn guard() -> ExitCode {
    own_program::name_process(own_program::GUARD);
    let launcher = rustix::process::getppid();
    let (mut groups, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    let Some(job) = Guarded::read(&mut Unbuffered) else { return ExitCode::SUCCESS };
    let mut watch = Watch::new();
    while let Some(number) = watch.next() {
        outputs.extend(Pid::from_raw(number.max(0)).into_iter().flat_map(left_behind::pipes_of));
        match number {
            1.. => groups.insert(number),
            _ => groups.remove(&number.saturating_neg()),
        };
    }
    if groups.is_empty() && !watch.fired {
        // The launcher has ended, and has removed the files itself.
        return ExitCode::SUCCESS;
    }
    let groups: Vec<Pid> = groups.into_iter().filter_map(Pid::from_raw).collect();
    end_job(&job, &groups, &outputs);
    if watch.fired {
        end_launcher(launcher);
    }
    ExitCode::SUCCESS
}

fn end_job(job: &Guarded, groups: &[Pid], outputs: &BTreeSet<OsString>) {
    for &group in groups {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    left_behind::end_everywhere(&job.mark(), outputs, Instant::now() + PATIENCE);
    let_go_of_outputs();
    let until = Instant::now() + PATIENCE;
    let is_there = |group: &Pid| rustix::process::test_kill_process_group(*group).is_ok();
    while groups.iter().any(is_there) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    crate::mpi::remove_left_behind(&job.name, 0..job.ranks as usize);
}

/// At its deadline an agent that runs ends by itself. One that is stopped would stay.
fn end_launcher(launcher: Option<Pid>) {
    std::thread::sleep(PATIENCE);
    if let Some(launcher) = launcher.filter(|_| rustix::process::getppid() == launcher) {
        let _ = rustix::process::kill_process(launcher, Signal::KILL);
    }
}

/// Standard input, of which no byte more is taken than was asked for.
struct Unbuffered;

impl Read for Unbuffered {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), into)?)
    }
}

/// Who reads the job's output waits for what is left of the job, not for its files.
fn let_go_of_outputs() {
    if let Ok(nowhere) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_told_its_job() {
        let of_node = Guarded { name: "taffrail-1-ab".into(), ranks: 7, node: Some(3) };
        assert_eq!(Guarded::read(&mut &of_node.to_bytes()[..]), Some(of_node.clone()));
        assert_eq!(of_node.mark(), "TAFFRAIL_NODE=taffrail-1-ab:3");
        let job = Guarded { node: None, ..of_node };
        assert_eq!(job.mark(), "TAFFRAIL_JOB=taffrail-1-ab");
        let bytes = job.to_bytes();
        let mut both = [&bytes[..], &5i32.to_ne_bytes()].concat();
        let mut rest = &both[..];
        assert_eq!(Guarded::read(&mut rest), Some(job));
        assert_eq!(rest, 5i32.to_ne_bytes());
        both.truncate(bytes.len() - 1);
        assert_eq!(Guarded::read(&mut &both[..]), None);
    }
}
