//! The endpoints that a queue or a counter looks at, and what a thread sleeps on that waits for it.

use crate::abi::constants::{FI_GETWAIT, FI_GETWAITOBJ, FI_WAIT_FD, FI_WAIT_UNSPEC};
use crate::abi::errno::{FI_EINVAL, FI_ENOSYS};
use crate::call::Refusal;
use crate::endpoint::Endpoint;
use crate::wait::Wait;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

pub struct Bound {
    wait_obj: u32,
    /// It never changes.
    pub wait: Option<Arc<Wait>>,
    /// One that is bound in both directions is there once.
    endpoints: Vec<*mut Endpoint>,
}

impl Bound {
    /// None yet; with the wait object that a program asks for.
    pub fn new(wait_obj: u32) -> Result<Self, Refusal> {
        Ok(Bound { wait_obj, wait: Wait::asked(wait_obj)?, endpoints: Vec::new() })
    }

    /// Takes an endpoint in.
    pub fn bind(&mut self, endpoint: *mut Endpoint) -> Result<(), Refusal> {
        if !self.endpoints.contains(&endpoint) {
            if let Some(wait) = &self.wait {
                // SAFETY: an open endpoint.
                wait.add(unsafe { &*endpoint })?;
            }
            self.endpoints.push(endpoint);
        }
        Ok(())
    }

    /// Lets an endpoint go.
    pub fn unbind(&mut self, endpoint: *mut Endpoint) {
        if let Some(wait) = &self.wait {
            // SAFETY: an endpoint that is about to be closed.
            wait.remove(unsafe { &*endpoint });
        }
        self.endpoints.retain(|&bound| bound != endpoint);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// The endpoint with this number.
    #[inline]
    pub fn get(&self, index: usize) -> Option<*mut Endpoint> {
        self.endpoints.get(index).copied()
    }

    /// Wakes whoever sleeps, to look again.
    pub fn ring(&self) {
        if let Some(wait) = &self.wait {
            wait.ring();
        }
    }

    /// Forgets that somebody has rung: what is looked at is looked at after this.
    pub fn silence(&self) {
        if let Some(wait) = &self.wait {
            wait.silence();
        }
    }

    /// The program has waited in vain since then: what for is said.
    ///
    /// # Safety
    /// Open endpoints, and the lock.
    #[cold]
    pub unsafe fn waits_since(&self, since: Instant) {
        for &endpoint in &self.endpoints {
            // SAFETY: the caller's promise.
            unsafe { (*endpoint).waits_since(since) };
        }
    }

    /// How many things have happened to the endpoints.
    ///
    /// # Safety
    /// Open endpoints, and the lock.
    #[cold]
    pub unsafe fn happened(&self) -> u64 {
        // SAFETY: the caller's promise.
        let each = self.endpoints.iter().map(|&endpoint| unsafe { (*endpoint).engine.happened() });
        each.fold(0, u64::wrapping_add)
    }

    /// Prepares a sleep: whether there is nothing to be made progress with.
    ///
    /// # Safety
    /// Open endpoints, and the lock.
    pub unsafe fn arm(&self) -> bool {
        // SAFETY: the caller's promise.
        self.endpoints.iter().all(|&endpoint| unsafe { (*endpoint).engine.arm() })
    }

    /// The control commands of whatever can be waited on.
    ///
    /// # Safety
    /// `arg` is what the command asks for.
    pub unsafe fn control(&self, command: c_int, arg: *mut c_void) -> c_int {
        match (command, &self.wait) {
            (FI_GETWAIT | FI_GETWAITOBJ, _) if arg.is_null() => -FI_EINVAL,
            (FI_GETWAIT, Some(wait)) => {
                // SAFETY: a place for a descriptor.
                unsafe { arg.cast::<c_int>().write(wait.descriptor()) };
                0
            }
            (FI_GETWAITOBJ, _) => {
                let unspecified = self.wait_obj == FI_WAIT_UNSPEC;
                let answer = if unspecified { FI_WAIT_FD } else { self.wait_obj };
                // SAFETY: a place for the kind.
                unsafe { arg.cast::<u32>().write(answer) };
                0
            }
            _ => -FI_ENOSYS,
        }
    }
}
