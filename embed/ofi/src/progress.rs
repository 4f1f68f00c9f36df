//! Automatic progress (`FI_PROGRESS_AUTO`): a thread that stands in for a program that does not call.
//!
//! Only then: a program that calls makes its own progress, and the thread looks but once in a [`TICK`]
//! whether it still does. Otherwise it serves the endpoints of the domain, and sleeps where peers wake it
//! when they have something for one of them. What has ended is left for the program to take: it alone
//! fills its queues and counters, and whoever sleeps on one of these is woken.

use crate::abi::errno::FI_EOTHER;
use crate::call::Refusal;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::thread;
use crate::wait::Wait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// A program that has not called for so long is stood in for.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks where messages of ours wait for room.
const SOON: Duration = Duration::from_micros(50);

/// The thread of a domain, until this is dropped.
pub struct Progress {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// The thread is one of this process, and not of a forked child.
    process: u32,
}

struct Shared {
    /// What the thread sleeps on.
    wait: Wait,
    is_over: AtomicBool,
}

/// A domain, in which the thread is only behind the lock.
struct Served(*mut Domain);

// SAFETY: the domain is used behind its lock, and stays until the thread has ended.
unsafe impl Send for Served {}

impl Progress {
    /// Begins to serve a domain.
    ///
    /// # Errors
    /// When there is no thread or no descriptor to be had.
    ///
    /// # Safety
    /// Nobody uses the domain yet, and it stays where it is until this is dropped.
    pub unsafe fn begin(domain: *mut Domain) -> Result<Progress, Refusal> {
        // SAFETY: the caller's promise.
        unsafe { (*domain).lock.share() };
        let shared = Arc::new(Shared { wait: Wait::new()?, is_over: AtomicBool::new(false) });
        let (served, with) = (Served(domain), Arc::clone(&shared));
        let thread = thread::start("taffrail-progress", move || serve(&served, &with))
            .map_err(|error| Refusal::new(FI_EOTHER, format!("no thread: {error}")))?;
        Ok(Progress { thread: Some(thread), shared, process: std::process::id() })
    }

    /// Serves this endpoint as well.
    pub fn add(&self, endpoint: &Endpoint) -> Result<(), Refusal> {
        self.shared.wait.add(endpoint)
    }

    /// Serves this endpoint no more.
    pub fn remove(&self, endpoint: &Endpoint) {
        self.shared.wait.remove(endpoint);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            return std::mem::forget(thread);
        }
        self.shared.is_over.store(true, Relaxed);
        self.shared.wait.ring();
        thread.thread().unpark();
        let _ = thread.join();
    }
}

fn serve(domain: &Served, shared: &Shared) {
    let mut seen = 0;
    while !shared.is_over.load(Relaxed) {
        match look(domain, &mut seen) {
            Look::ProgramCalls => std::thread::park_timeout(TICK),
            Look::Progress => std::thread::yield_now(),
            Look::NoRoom => std::thread::park_timeout(SOON),
            Look::Nothing => shared.wait.sleep(Duration::MAX),
        }
    }
}

/// What a look at the endpoints of a domain has found.
enum Look {
    /// The program sees to them itself.
    ProgramCalls,
    Progress,
    /// Messages of ours wait for room, of which nobody tells.
    NoRoom,
    /// Peers wake us when there is something.
    Nothing,
}

fn look(domain: &Served, seen: &mut u64) -> Look {
    // SAFETY: the domain is there; only its lock is used until we are inside.
    let Some(_inside) = (unsafe { &(*domain.0).lock }).stand_in(seen) else {
        return Look::ProgramCalls;
    };
    // SAFETY: we are inside. Endpoints of a domain are open.
    let mut endpoints = unsafe { (*domain.0).state.endpoints.iter().map(|&one| &mut *one) };
    let mut happened = 0;
    for endpoint in endpoints.clone() {
        happened += endpoint.stand_in();
    }
    if happened > 0 {
        return Look::Progress;
    }
    if endpoints.all(Endpoint::arm) { Look::Nothing } else { Look::NoRoom }
}
