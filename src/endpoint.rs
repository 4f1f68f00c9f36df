//! The endpoint: what programs and runtimes call.
//!
//! Each call is thin; what it does is in `engine/`.

mod active;
mod checkpoint;
mod joining;
mod looking;
mod memory;
mod one_sided;
mod opening;
pub(crate) mod reporting;
mod standing_in;
mod starting;
mod waiting;

use crate::engine::Engine;
use crate::engine::call::Operation;
use crate::engine::loan::Buffer;
use crate::engine::log::Logging as LoggingOf;
use crate::engine::policy::{Policy, Route};
use crate::engine::unposted_recv::Received;
use crate::host::Files;
use crate::host::heartbeat::Heartbeat;
use crate::job_fabric::JobFabric;
use crate::spin::Spin;
use crate::{Dest, Error, Pattern, Rank, Settings, Status};
use active::Handler;
pub(crate) use opening::{digest, not_set_up};
use std::any::Any;
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use taffrail_fabric::{Arming, Fabric, SendMemory, Source, Wait};

/// What an endpoint stands on: a fabric with memory to send from, whose arrivals can be waited for.
pub trait Transport: Fabric + SendMemory + Wait {}

impl<F: Fabric + SendMemory + Wait> Transport for F {}

/// The engine of the product.
pub(crate) type EngineOf<F> = Engine<F, Option<Box<LoggingOf<Files>>>>;

/// One rank's end of the transport.
///
/// An endpoint belongs to one thread at a time (it is `Send`, and every call takes `&mut self`); a
/// process may have several. Progress is made inside calls only, there is no thread behind it.
///
/// Jobs have endpoints over a [`JobFabric`], which is what `F` is unless said otherwise.
///
/// ```
/// use taffrail::{Job, Pattern};
/// let mut jobs = Job::local(2);
/// let other = jobs.pop().unwrap();
/// let peer = std::thread::spawn(move || {
///     let mut other = other;
///     let mut endpoint = other.endpoint()?;
///     let mut text = [0; 16];
///     let status = endpoint.recv(Pattern::any_source(7), &mut text)?;
///     endpoint.send((status.source, 8), &text[..status.len])
/// });
/// let mut endpoint = jobs[0].endpoint()?;
/// endpoint.send((1, 7), b"ahoy")?;
/// let mut echo = [0; 16];
/// let status = endpoint.recv((1, 8), &mut echo)?;
/// assert_eq!(&echo[..status.len], b"ahoy");
/// peer.join().unwrap()?;
/// # Ok::<(), taffrail::Error>(())
/// ```
pub struct Endpoint<F: Transport = JobFabric> {
    pub(crate) engine: EngineOf<F>,
    pub(crate) handlers: HashMap<u16, Handler<F>>,
    /// A handler is running.
    pub(crate) handling: bool,
    /// Idle turns before a wait gives the processor away.
    pub(crate) spin: Spin,
    /// Whose message a blocking receive has got last.
    pub(crate) last_source: Rank,
    pub(crate) heartbeat: Heartbeat,
    /// When a wait began to sleep, and after how long it says what it waits for.
    pub(crate) asleep: Instant,
    pub(crate) patience: Duration,
    pub(crate) settings: Settings,
    /// Where the ranks are; only this one, if the job is open.
    pub(crate) addresses: Vec<String>,
    /// Others join by their addresses.
    pub(crate) is_open: bool,
    pub(crate) attached: Option<Box<dyn Any + Send>>,
}

impl<F: Transport> Endpoint<F> {
    /// What an interface on top keeps with the endpoint: it is not looked at here. The C library has the functions
    /// there that run when operations are over.
    #[inline]
    pub fn attached(&mut self) -> &mut Option<Box<dyn Any + Send>> {
        &mut self.attached
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.engine.rank()
    }

    /// How many ranks the job has.
    #[inline]
    pub fn size(&self) -> u32 {
        self.engine.size()
    }

    // Blocking operations.

    /// Sends a message, and returns when `data` may be used again. That a long message has been
    /// sent means that its receive has been posted; of a short one it means nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::PeerFailed`], [`Error::UsedAfterFork`].
    #[inline]
    pub fn send(&mut self, to: impl Into<Dest>, data: &[u8]) -> Result<(), Error> {
        let to = to.into();
        match self.engine.send_now(&to, Source::Bytes(data), data.len())? {
            true => Ok(()),
            false => self.send_slowly(to, data, false),
        }
    }

    /// Sends a message, and returns when a receive has matched it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_sync(&mut self, to: impl Into<Dest>, data: &[u8]) -> Result<(), Error> {
        self.send_slowly(to.into(), data, true)
    }

    /// As [`send`](Self::send), the message gathered from several places.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_vectored(
        &mut self,
        to: impl Into<Dest>,
        data: &[IoSlice<'_>],
    ) -> Result<(), Error> {
        let parts: Vec<&[u8]> = data.iter().map(|part| &**part).collect();
        let to = to.into();
        // SAFETY: the borrows last until the wait is over.
        let request = self.begin(|engine| unsafe { engine.start_send_vectored(to, &parts) })?;
        self.wait_for(request).map(drop)
    }

    /// Receives a message.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it was longer than `into`, [`Error::PeerFailed`] when a named
    /// source is gone, [`Error::NoSuchRank`], [`Error::UsedAfterFork`].
    #[inline]
    pub fn recv(&mut self, from: impl Into<Pattern>, into: &mut [u8]) -> Result<Status, Error> {
        let from = from.into();
        self.engine.check_pattern(&from)?;
        // SAFETY: the borrow lasts until the wait is over.
        unsafe {
            let (at, room) = (into.as_mut_ptr(), into.len());
            let request = match self.receive_directly(&from, at, room) {
                Received::Has(status) => return Ok(status),
                Received::Posted(request) => request,
                Received::Nothing => self.engine.start_recv(from, at, room)?,
            };
            self.wait_for(request)
        }
    }

    /// As [`recv`](Self::recv), the message scattered to several places.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use std::io::{IoSlice, IoSliceMut};
    /// endpoint.send_vectored((0, 1), &[IoSlice::new(b"head"), IoSlice::new(b"body")])?;
    /// let (mut first, mut rest) = ([0; 1], [0; 7]);
    /// let mut places = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut rest)];
    /// endpoint.recv_vectored((0, 1), &mut places)?;
    /// assert_eq!((&first, &rest), (b"h", b"eadbody"));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn recv_vectored(
        &mut self,
        from: impl Into<Pattern>,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<Status, Error> {
        // SAFETY: the borrows last until the wait is over.
        let request = unsafe { self.engine.start_recv_vectored(from.into(), into)? };
        self.wait_for(request)
    }

    /// Sends and receives at once.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let (me, size) = (endpoint.rank(), endpoint.size());
    /// let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    /// let mut word = [0; 8];
    /// endpoint.sendrecv((next, 7), &u64::to_le_bytes(5), (previous, 7), &mut word)?;
    /// assert_eq!(u64::from_le_bytes(word), 5);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn sendrecv(
        &mut self,
        to: impl Into<Dest>,
        data: &[u8],
        from: impl Into<Pattern>,
        into: &mut [u8],
    ) -> Result<Status, Error> {
        let to = to.into();
        // SAFETY: the borrows last until both waits are over, which happens whatever fails.
        unsafe {
            let recv = self.engine.start_recv(from.into(), into.as_mut_ptr(), into.len())?;
            match self.begin(|engine| engine.start_send(to, data.as_ptr(), data.len(), false)) {
                Ok(send) => {
                    let sent = self.wait_for(send);
                    let received = self.wait_for(recv);
                    sent.and(received)
                }
                Err(error) => {
                    self.abandon(recv);
                    Err(error)
                }
            }
        }
    }

    // Progress.

    /// One turn of the engine, and what follows from it here. Returns how many things happened.
    #[inline(always)]
    pub(crate) fn progress_once(&mut self) -> usize {
        let events = self.engine.progress();
        events + self.after_turns()
    }

    /// Shows that this process goes on, and runs the handlers of active messages that have come.
    #[inline(always)]
    pub(crate) fn after_turns(&mut self) -> usize {
        self.heartbeat.beat(self.engine.turns);
        if self.engine.core.active.is_empty() { 0 } else { self.handle_active() }
    }

    /// Makes progress without waiting. Returns how many things happened.
    #[inline]
    pub fn progress(&mut self) -> usize {
        if self.engine.fabric.in_child() {
            return 0;
        }
        self.progress_once()
    }

    /// A descriptor for `poll` and the like: after [`arm`](Self::arm) has returned `true`, it is
    /// readable when there is something to be made progress with, the end of a peer included. It is the endpoint's: wait for it
    /// to be readable, and do not read it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.engine.fabric.fd()
    }

    /// Prepares a wait on [`fd`](Self::fd). `false` when something is there already: make progress
    /// instead. While messages of this rank wait for room, look again after a short time.
    pub fn arm(&mut self) -> bool {
        if self.engine.fabric.in_child() {
            return false;
        }
        // The wait must be one on the descriptor.
        let _ = self.engine.fabric.fd();
        // It is readable when a peer has died as well, which no other call is sure to look at.
        self.engine.check() == 0
            && !self.engine.tx.has_backlog()
            && self.engine.fabric.arm() == Arming::Armed
    }

    /// Bytes of shared memory that this endpoint provides.
    pub fn footprint(&self) -> usize {
        self.engine.fabric.footprint()
    }

    /// Which protocol is used for each peer and size, and why each other is not.
    pub fn explain(&self) -> String {
        crate::explain::explain(self)
    }

    /// What causal logging has sent with this rank's messages since it was started; `None` where
    /// messages are not logged, or not in the causal way.
    pub fn determinants(&self) -> Option<crate::Counters> {
        self.engine.core.policy.counters()
    }

    /// Whether what this rank sends to some rank is kept, so that either is replayed without the other if it
    /// is killed: there is more than one correlated set.
    pub fn logs_payload(&self) -> bool {
        (0..self.size()).any(|rank| self.engine.core.policy.route(rank) == Route::Kept)
    }

    /// Refuses a buffer of another endpoint, whose regions are not ours.
    fn check_own(&self, buffer: &Buffer) -> Result<(), Error> {
        if self.engine.lending.owns(buffer) {
            return Ok(());
        }
        let block = buffer.block();
        let (region, offset) = (block.region.0, block.offset as u64);
        Err(taffrail_fabric::MemoryError::Unknown { region, offset }.into())
    }

    /// Refuses the child of a fork.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        if !self.engine.fabric.in_child() { Ok(()) } else { Err(Error::UsedAfterFork) }
    }

    /// Ends a request that nobody can wait for any more.
    pub(crate) fn abandon(&mut self, request: u32) {
        let handle = self.engine.handle(request);
        let _ = self.complete(Operation::Cancel(handle));
        let _ = self.wait_for(request);
    }
}

impl<F: Transport> Drop for Endpoint<F> {
    /// Returns when the operations under way are over: peers have received what was sent to them, or
    /// have finalised without that, or are gone. Peers in the same process are waited for five seconds at
    /// most, since their thread may be this one. While a panic unwinds, so are all.
    fn drop(&mut self) {
        if self.engine.abandon_in_child() {
            return;
        }
        self.engine.give_all_back();
        if !std::thread::panicking() {
            self.take_leave();
        }
        self.finalize();
        self.heartbeat.end();
    }
}
