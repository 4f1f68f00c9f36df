//! Signals to the launcher.
//!
//! Ranks find the dispositions that the launcher was started with (`nohup`), except that SIGCHLD and SIGPIPE
//! are at their defaults and no signal is blocked.

use super::Failure;
use rustix::process::Signal;
use signal_hook::consts::*;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Signals that ranks get as they are, and that end them unless they handle them.
const TO_RANKS: [i32; 2] = [SIGUSR1, SIGUSR2];
/// Signals that end the job, and that ranks get as they are.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals that end the job by SIGTERM: they mean the launcher, not its ranks.
const ENDING_BY_TERM: [i32; 9] =
    [SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGABRT, SIGTRAP, libc::SIGPWR, libc::SIGSTKFLT];
/// Caught even if they are ignored: without the first the kernel keeps no status of a rank.
const ALWAYS: [i32; 3] = [SIGCHLD, SIGCONT, SIGXFSZ];

/// What a signal to the launcher means for its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The job ends; ranks get this signal.
    End(Signal),
    /// Ranks get it.
    Forward(Signal),
    /// The job stops, and the launcher with it.
    Stop,
    /// The job goes on.
    Continue,
    /// A process that the launcher has started may have ended.
    Child,
    /// A write of the launcher's has failed, and says so itself.
    None,
}

/// What a signal means.
pub fn meaning(signal: i32) -> Meaning {
    let named = Signal::from_named_raw(signal);
    match (signal, named) {
        (SIGCHLD, _) => Meaning::Child,
        (SIGCONT, _) => Meaning::Continue,
        (SIGTSTP, _) => Meaning::Stop,
        (SIGXFSZ, _) => Meaning::None,
        (_, Some(named)) if TO_RANKS.contains(&signal) => Meaning::Forward(named),
        (_, Some(named)) if ENDING.contains(&signal) => Meaning::End(named),
        _ => Meaning::End(Signal::TERM),
    }
}

/// The signals that have come and were not looked at.
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Catches all signals that mean something, but for those that whoever started us (nohup, a shell for its
    /// background jobs) wants ignored.
    pub fn catch() -> Result<Signals, Failure> {
        unblock_all();
        let mut caught = ALWAYS.to_vec();
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        let others = TO_RANKS.into_iter().chain(ENDING).chain(ENDING_BY_TERM).chain(real_time);
        caught.extend(others.chain([SIGTSTP]).filter(|signal| !ignored(*signal)));
        let delivery = UnixStream::pair()
            .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, SignalOnly, caught));
        let failed = |e| {
            Failure::new(format!(
                "cannot catch signals (socketpair, sigaction): {}",
                super::in_words(&e)
            ))
        };
        Ok(Signals { delivery: delivery.map_err(failed)? })
    }

    /// Readable when signals have come.
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Those that have come, each once.
    pub fn take(&mut self) -> Vec<i32> {
        self.delivery.pending().collect()
    }
}

/// A server beside the program of a rank leaves signals to the program's process group to the program.
pub fn leave_to_program() -> std::io::Result<()> {
    let all = TO_RANKS.into_iter().chain(ENDING);
    for signal in all {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Signals that whoever started us has blocked would not come.
fn unblock_all() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initializes the set before it is used; the old mask is not asked for.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Whether whoever started us wants the signal ignored.
fn ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action changes nothing; the old one is written to `now`, whose zeroes are a
    // valid value should the call fail.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// `9 (SIGKILL)`.
pub fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGPWR => Some("SIGPWR"),
        libc::SIGSTKFLT => Some("SIGSTKFLT"),
        _ => signal_hook::low_level::signal_name(signal),
    };
    name.map_or_else(|| signal.to_string(), |name| format!("{signal} ({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_its_meaning() {
        assert_eq!(meaning(SIGUSR2), Meaning::Forward(Signal::USR2));
        assert_eq!(meaning(SIGQUIT), Meaning::End(Signal::QUIT));
        assert_eq!(meaning(SIGTSTP), Meaning::Stop);
        for signal in ENDING_BY_TERM.into_iter().chain([libc::SIGRTMIN(), libc::SIGRTMAX()]) {
            assert_eq!(meaning(signal), Meaning::End(Signal::TERM), "{signal}");
        }
    }
}
