//! Waiting for completions: one descriptor for everything that a queue or counter looks at.

use crate::abi::constants::*;
use crate::abi::errno::{FI_EAGAIN, FI_EIO, FI_ENOSYS};
use crate::call::Refusal;
use crate::endpoint::Endpoint;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Looks for completions before the first sleep.
const LOOKS: u32 = 1000;
/// Times the processor is given away where nothing can be slept on, and the pause between two looks after that.
const YIELDS: u32 = 1000;
const SHORT_NAP: Duration = Duration::from_micros(50);
/// The longest sleep, after which peers are looked at.
const NAP: Duration = Duration::from_millis(50);

/// What a thread sleeps on. An epoll descriptor that has those of the endpoints in it, and a bell.
pub struct Wait {
    epoll: OwnedFd,
    bell: OwnedFd,
    /// The program has asked whoever sleeps to return.
    is_called_off: AtomicBool,
}

impl Wait {
    /// The wait object that a program asks for: `None` for none.
    pub fn asked(wait_obj: u32) -> Result<Option<Arc<Wait>>, Refusal> {
        match wait_obj {
            FI_WAIT_NONE => Ok(None),
            FI_WAIT_UNSPEC | FI_WAIT_FD | FI_WAIT_YIELD => Ok(Some(Arc::new(Wait::new()?))),
            other => {
                let why =
                    format!("the wait object {other}; there are FI_WAIT_UNSPEC and FI_WAIT_FD");
                Err(Refusal::new(FI_ENOSYS, why))
            }
        }
    }

    /// One that nothing wakes yet.
    pub fn new() -> Result<Wait, Refusal> {
        Wait::create()
            .map_err(|error| Refusal::new(FI_EIO, format!("no descriptor to wait on: {error}")))
    }

    fn create() -> Result<Wait, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(0), readable)?;
        Ok(Wait { epoll, bell, is_called_off: AtomicBool::new(false) })
    }

    /// Sleeps for this endpoint as well.
    pub fn add(&self, endpoint: &Endpoint) -> Result<(), Refusal> {
        let data = epoll::EventData::new_u64(1);
        match epoll::add(&self.epoll, endpoint.engine.fd(), data, epoll::EventFlags::IN) {
            // It is bound in more than one way.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(Refusal::new(FI_EIO, format!("no wait for an endpoint: {error}"))),
        }
    }

    /// Sleeps for this endpoint no more.
    pub fn remove(&self, endpoint: &Endpoint) {
        let _ = epoll::delete(&self.epoll, endpoint.engine.fd());
    }

    /// The descriptor, for the program's own `poll`.
    pub fn descriptor(&self) -> c_int {
        self.epoll.as_fd().as_raw_fd()
    }

    /// Ends the sleep of whoever sleeps, or the next one, to look again.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// The same, to look no more.
    pub fn call_off(&self) {
        self.is_called_off.store(true, Relaxed);
        self.ring();
    }

    /// What is looked at from now on is as it is now or later: who has rung before need not wake anybody.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
    }

    /// Sleeps until there is something, `at_most` so long and never longer than [`NAP`].
    pub fn sleep(&self, at_most: Duration) {
        let mut events = Vec::with_capacity(1);
        let at_most = rustix::event::Timespec::try_from(at_most.min(NAP)).ok();
        let _ =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), at_most.as_ref());
    }
}

/// Looks until `look` finds something, for `timeout` milliseconds (negative: for ever). `arm` says
/// whether there is nothing to be made progress with, so that a sleep is allowed. `FI_EAGAIN` when
/// the time is over, or the wait is called off and this `ends` the wait. Without anything to sleep on
/// it gives the processor away between two looks.
pub fn until<T>(
    wait: Option<&Wait>,
    timeout: c_int,
    ends: bool,
    mut look: impl FnMut() -> Option<T>,
    mut arm: impl FnMut() -> bool,
) -> Result<T, c_int> {
    let deadline = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut looks = 0;
    loop {
        if let Some(wait) = wait.filter(|_| looks >= LOOKS) {
            wait.silence();
        }
        if let Some(found) = look() {
            return Ok(found);
        }
        looks += 1;
        if looks < LOOKS && timeout != 0 {
            std::hint::spin_loop();
            continue;
        }
        let left = match deadline {
            None => NAP,
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        };
        let is_called_off = |wait: &Wait| ends && wait.is_called_off.swap(false, Relaxed);
        if left.is_zero() || wait.is_some_and(is_called_off) {
            return Err(-FI_EAGAIN);
        }
        match wait {
            Some(wait) if arm() => wait.sleep(left),
            _ if looks < LOOKS + YIELDS => std::thread::yield_now(),
            // Nobody else may run where all only give their processors away.
            _ => std::thread::sleep(SHORT_NAP.min(left)),
        }
    }
}
