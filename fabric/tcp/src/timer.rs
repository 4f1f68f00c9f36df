//! When something is to be done that no socket asks for.

use crate::error::SetupError;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A descriptor that is readable from a moment on.
pub(crate) struct Timer {
    fd: OwnedFd,
    at: Option<Instant>,
}

impl Timer {
    pub(crate) fn new() -> Result<Timer, SetupError> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(SetupError::os("timerfd_create"))?;
        Ok(Timer { fd, at: None })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Sets the moment. `None`: never.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        if self.at == at {
            return;
        }
        self.at = at;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = at.map(|at| {
            // No time at all would switch it off.
            at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
        });
        let left = left.and_then(|left| Timespec::try_from(left).ok()).unwrap_or(zero);
        let value = Itimerspec { it_interval: zero, it_value: left };
        let set = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value);
        debug_assert!(set.is_ok(), "a timer and a time: {set:?}");
    }

    /// It has gone off, and is not readable any more.
    pub(crate) fn silence(&mut self) {
        self.at = None;
        // Empty is as good as read.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}
