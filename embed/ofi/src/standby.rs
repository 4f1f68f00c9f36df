//! The standby: a thread that stands in for a program that does not call, where messages are logged.
//!
//! A rank that is started again needs the others: to take it in, and to send it what their logs have
//! for it. A program below an MPI may not call for as long as it likes, and also wait, outside of the
//! provider, for that very rank: in a barrier of the launcher. So a thread looks after the endpoint
//! whenever the program has not called since its last look. It goes on with that when the endpoint is
//! closed, since what is logged is needed until all programs are over (`over.rs`), and ends with the
//! process. There is one, since a process whose messages are logged has one endpoint.

use crate::endpoint::Endpoint;
use crate::lock::Lock;
use crate::thread;
use crate::thread_level::ThreadLevel;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A program that has not called for so long is stood in for.
const TICK: Duration = Duration::from_millis(5);
/// The same while there is something to do.
const BUSY: Duration = Duration::from_micros(50);

/// What the thread looks after.
static CHARGE: Mutex<Charge> = Mutex::new(Charge::Nobody);

/// The program has closed its endpoint, and all ranks were done with each other then.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

enum Charge {
    /// There is no endpoint yet.
    Nobody,
    /// One that the program uses.
    Open { endpoint: *mut Endpoint, lock: *const Lock },
    /// One that the program has closed.
    Closed(Box<Endpoint>),
}

// SAFETY: an open endpoint is used behind the lock of its domain, and only while this says that it is
// open; one that was closed is nobody else's.
unsafe impl Send for Charge {}

/// Begins to look after an endpoint, behind the lock of its domain.
///
/// # Errors
/// What the system says to a new thread.
///
/// # Safety
/// Nobody uses the endpoint yet, and it is closed by [`Away::close`], until when both stay where they
/// are.
pub unsafe fn begin(endpoint: *mut Endpoint, lock: *const Lock) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { (*lock).share() };
    *charge() = Charge::Open { endpoint, lock };
    thread::start("taffrail-standby", stand_by).map(drop)
}

fn stand_by() {
    let mut seen = 0;
    let mut thread_level = ThreadLevel::default();
    loop {
        let happened = match &mut *charge() {
            Charge::Nobody => 0,
            // SAFETY: it is open, and nobody is inside.
            Charge::Open { endpoint, lock } => unsafe {
                let inside = (**lock).stand_in(&mut seen);
                inside.map_or(0, |_inside| (**endpoint).stand_in())
            },
            Charge::Closed(endpoint) => endpoint.engine.stand_in(),
        };
        // Behind the charge, for which MPI_Finalize may wait.
        if happened == 0 && !is_closed() {
            thread_level.look();
        }
        std::thread::sleep(if happened > 0 { BUSY } else { TICK });
    }
}

/// Keeps the thread away, until this is dropped. To be had before the lock of a domain.
pub fn keep_away() -> Away {
    Away(charge())
}

/// The thread is away.
pub struct Away(MutexGuard<'static, Charge>);

impl Away {
    /// Takes an endpoint that the program closes. Returns when no rank has anything to send or receive
    /// any more.
    pub fn close(mut self, mut endpoint: Box<Endpoint>) {
        endpoint.engine.finish();
        IS_CLOSED.store(true, Relaxed);
        *self.0 = Charge::Closed(endpoint);
    }

    /// For as long as the process lives.
    pub fn for_ever(self) {
        std::mem::forget(self);
    }
}

/// Whether the program has closed its endpoint.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Relaxed)
}

fn charge() -> MutexGuard<'static, Charge> {
    CHARGE.lock().unwrap_or_else(PoisonError::into_inner)
}
