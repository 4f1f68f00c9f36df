//! The endpoint: what programs and runtimes call.
//!
//! Each call is thin; what it does is in `engine/`.

mod active;
mod checkpoint;
mod joining;
mod looking;
mod memory;
mod one_sided;
pub(crate) mod reporting;
mod standing_in;
mod starting;
mod waiting;

use crate::engine::Clock;
use crate::engine::call::Operation;
use crate::engine::loan::Buffer;
use crate::engine::log::Logging as LoggingOf;
use crate::engine::policy::Policy;
use crate::engine::unposted_recv::Received;
use crate::engine::{EAGER_LIMIT, Engine, Sizes};
use crate::host::Files;
use crate::host::heartbeat::Heartbeat;
use crate::host::setting::Setting as Logging;
use crate::spin::Spin;
use crate::{Dest, Error, Job, Pattern, Rank, Settings, Status, environment, host};
use active::Handler;
use std::any::Any;
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use taffrail_fabric::{Arming, Fabric, SendMemory, Source, Wait};
use taffrail_shm::{Config, Costs, Line, Setup};

/// No piece of a long message is shorter than this many bytes.
const SHORTEST_PIECE: usize = 256;

/// One rank's end of the transport.
///
/// An endpoint belongs to one thread at a time (it is `Send`, and every call takes `&mut self`); a
/// process may have several. Progress is made inside calls only, there is no thread behind it.
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
pub struct Endpoint {
    pub(crate) engine: Engine<Line, Option<Box<LoggingOf<Files>>>>,
    pub(crate) handlers: HashMap<u16, Handler>,
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

impl Endpoint {
    /// Opens an endpoint; see [`Job::endpoint`].
    pub(crate) fn open(job: &mut Job, mut settings: Settings) -> Result<Endpoint, Error> {
        let logging = Logging::from_env(job.rank(), job.size())?;
        let heartbeat = environment::heartbeat()?;
        let (setup, addresses) = Endpoint::meet(job, &settings, logging.as_ref())?;
        let line = match job.is_open() {
            true => setup.open(),
            false => {
                let me = job.rank();
                setup.connect_or(&addresses, &|missing, waited| {
                    crate::explain::joining_waits(me, missing, waited)
                })
            }
        };
        let line = line.map_err(not_set_up)?;
        let limits = line.limits(line.me());
        // The first piece of a message travels with the length of the whole.
        let piece = settings.piece.unwrap_or(limits.fragment);
        let longest = limits.max_message - 8;
        let piece = piece.clamp(SHORTEST_PIECE, longest);
        // A piece whose receiver waits for it is copied out as soon as it is there. Of those that it has
        // asked for there are many, and fewer are better.
        let is_given = settings.piece.is_some() || settings.tuning.is_some();
        let long_piece = if is_given { piece } else { (2 * piece).min(longest) };
        // A log lies in memory and not in caches: fewer pieces save more than a receiver that begins earlier.
        let logged_piece = if is_given { piece } else { limits.max_message };
        settings.eager_max = settings.eager_max.min(EAGER_LIMIT);
        let crowded = job.size() as usize > processors();
        let log = logging.as_ref().map(|logging| {
            let (me, segment) = (job.rank(), line.segment_len());
            let parts = host::open(logging, me, segment, line.max_segments(), heartbeat)?;
            LoggingOf::open(&logging.config, parts, me, segment)
        });
        let sizes = Sizes {
            piece,
            long_piece,
            logged_piece,
            eager_max: settings.eager_max,
            way: settings.way,
            unexpected: settings.unexpected,
        };
        let policy = log.transpose()?.map(Box::new);
        let mut engine = Engine::new(line, policy, job.size(), sizes, Clock::new(Instant::now));
        if job.is_embedded() {
            engine.open();
        }
        let mut endpoint = Endpoint {
            engine,
            handlers: HashMap::new(),
            handling: false,
            spin: match settings.spin {
                Some(turns) => Spin::fixed(turns),
                // Nobody knows how many take part in an open job.
                None if crowded || job.is_open() => Spin::learning(),
                None => Spin::fixed(20_000),
            },
            last_source: job.rank(),
            heartbeat,
            asleep: Instant::now(),
            patience: Duration::MAX,
            settings,
            addresses,
            is_open: job.is_open(),
            attached: None,
        };
        endpoint.heartbeat.beat(0);
        endpoint.engine.resume()?;
        endpoint.engine.begin_exchange();
        Ok(endpoint)
    }

    /// Makes this rank's memory, and learns where the other ranks are.
    pub(crate) fn meet(
        job: &mut Job,
        settings: &Settings,
        logging: Option<&Logging>,
    ) -> Result<(Setup, Vec<String>), Error> {
        let setup = Setup::new(Config {
            rank: job.rank(),
            ranks: job.size(),
            open: job.is_open(),
            name: job.own_name(),
            incarnation: logging.map_or(0, |logging| logging.config.incarnation),
            generations: logging.map_or(Vec::new(), |logging| logging.generations.clone()),
            restarts: logging.is_some(),
            job: digest(job.id()),
            outbox_max: settings.outbox + logging.map_or(0, |logging| logging.config.memory),
            reserve: logging.map_or(0, |logging| logging.reserve),
            outbox: logging.and_then(Logging::log_memory),
            patience: settings.patience,
            costs: settings.tuning.as_ref().map_or(Ok(Costs::default()), |t| t.costs())?,
        })
        .map_err(not_set_up)?;
        let addresses = job.exchange("shm", setup.address())?;
        Ok((setup, addresses))
    }

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
        // SAFETY: the borrows last until the wait is over.
        let request = unsafe { self.engine.start_send_vectored(to.into(), &parts)? };
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
            match self.engine.start_send(to, data.as_ptr(), data.len(), false) {
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
            && self.engine.peers_with_backlog.is_empty()
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
        self.engine.core.policy.log().and_then(|log| log.counters())
    }

    /// Whether what this rank sends to some rank is kept, so that either is replayed without the other if it
    /// is killed: there is more than one correlated set.
    pub fn logs_payload(&self) -> bool {
        let log = self.engine.core.policy.log();
        log.is_some_and(|log| (0..self.size()).any(|rank| !log.is_fellow(rank)))
    }

    /// Refuses a buffer of another endpoint, whose regions are not ours.
    fn check_own(&self, buffer: &Buffer) -> Result<(), Error> {
        if buffer.is_of(&self.engine.back) {
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

impl Drop for Endpoint {
    /// Returns when the operations under way are over: peers have received what was sent to them, or
    /// have finalised without that, or are gone. Peers in the same process are waited for five seconds at
    /// most, since their thread may be this one. While a panic unwinds, so are all.
    fn drop(&mut self) {
        if self.engine.fabric.in_child() {
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

pub(crate) fn not_set_up(error: taffrail_shm::SetupError) -> Error {
    Error::Setup(error.to_string())
}

/// Processors that the ranks of this node may use: those of this process, unless it is bound to
/// one, since then the others are bound to others.
fn processors() -> usize {
    match std::thread::available_parallelism().map_or(1, |n| n.get()) {
        1 => online_processors(),
        many => many,
    }
}

/// A digest of the job's identity, to tell jobs apart (not to keep secrets).
pub(crate) fn digest(id: &str) -> [u64; 2] {
    let fnv = |seed: u64| {
        id.bytes().fold(seed, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    };
    [fnv(0xcbf2_9ce4_8422_2325), fnv(0x9ae1_6a3b_2f90_404f)]
}

/// Processors that this machine runs.
fn online_processors() -> usize {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}
