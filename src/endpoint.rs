//! The endpoint: what programs and runtimes call.
//!
//! Each call is thin; what it does is in `engine/`.

use crate::engine::EAGER_LIMIT;
use crate::engine::active::Handler;
use crate::engine::channels::Channels;
use crate::engine::core::Core;
use crate::engine::loan::{Back, Buffer};
use crate::engine::multi::Landed;
use crate::engine::one_sided::Way;
use crate::engine::pool::{Block, Pool};
use crate::engine::receive::Claimed;
use crate::engine::view::View;
use crate::{
    AmMessage, Dest, Error, Job, Pattern, Rank, RegionId, RemoteMemory, Request, Scope, Settings,
    Status,
};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use taffrail_fabric::{Arming, Fabric};
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
    pub(crate) line: Line,
    pub(crate) core: Core,
    pub(crate) channels: Channels,
    /// Ranks that something waits to be sent to.
    pub(crate) owing: Vec<Rank>,
    pub(crate) back: Arc<Back>,
    pub(crate) pool: Pool,
    /// Our loans that are out: to whom, and what.
    pub(crate) loans: FxHashMap<u64, (Rank, Block)>,
    pub(crate) last_loan: u64,
    /// Memory that peers may reach by [`RemoteMemory`].
    pub(crate) registered: HashMap<u32, (Exposed, usize)>,
    pub(crate) handlers: HashMap<u16, Handler>,
    /// A handler is running.
    pub(crate) handling: bool,
    /// Bytes of a piece of a long message.
    pub(crate) piece: usize,
    /// Messages of up to this many bytes leave whole, without asking.
    pub(crate) short: usize,
    /// Idle turns before a wait gives the processor away.
    pub(crate) spin: u32,
    /// Turns of the wheel, and when the peers were looked at last.
    pub(crate) turns: u32,
    pub(crate) checked: Instant,
    pub(crate) settings: Settings,
}

/// The address of registered memory.
#[derive(Clone, Copy)]
pub(crate) struct Exposed(pub(crate) *mut u8);

// SAFETY: whoever registers memory vouches for it, for any thread that has the endpoint.
unsafe impl Send for Exposed {}

// SAFETY: raw pointers in requests belong to whoever started them and vouches for their memory, in
// whatever thread the endpoint then is; everything else is owned.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens an endpoint; see [`Job::endpoint`].
    pub(crate) fn open(job: &mut Job, mut settings: Settings) -> Result<Endpoint, Error> {
        let setup = |error: taffrail_shm::SetupError| Error::Setup(error.to_string());
        let line = Setup::new(Config {
            rank: job.rank(),
            ranks: job.size(),
            incarnation: 0,
            job: digest(job.id()),
            outbox_max: settings.outbox,
            patience: settings.patience,
            costs: settings.tuning.as_ref().map_or(Ok(Costs::default()), |t| t.costs())?,
        })
        .map_err(setup)?;
        let addresses = job.exchange("shm", line.address())?;
        let line = line.connect(&addresses).map_err(setup)?;
        // The first piece of a message travels with the length of the whole.
        let piece = settings.piece.unwrap_or(line.caps().piece);
        let piece = piece.clamp(SHORTEST_PIECE, line.caps().max_message - 8);
        settings.eager_max = settings.eager_max.min(EAGER_LIMIT);
        let crowded = job.size() as usize > processors();
        Ok(Endpoint {
            core: Core::new(job.size(), settings.unexpected),
            channels: Channels::new(job.size()),
            owing: Vec::new(),
            back: Arc::new(Back::default()),
            pool: Pool::default(),
            loans: FxHashMap::default(),
            last_loan: 0,
            registered: HashMap::new(),
            handlers: HashMap::new(),
            handling: false,
            piece,
            short: piece.min(settings.eager_max),
            spin: settings.spin.unwrap_or(if crowded { 0 } else { 20_000 }),
            turns: 0,
            checked: Instant::now(),
            settings,
            line,
        })
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.line.me().0
    }

    /// How many ranks the job has.
    #[inline]
    pub fn size(&self) -> u32 {
        self.core.peers.len() as u32
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
        self.check_dest(&to)?;
        if self.send_now(&to, data)? { Ok(()) } else { self.send_slowly(to, data, false) }
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
        // SAFETY: the borrows last until the wait is over.
        let request = unsafe { self.start_send_vectored(to.into(), data)? };
        self.wait_for(request).map(drop)
    }

    /// Receives a message.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it was longer than `into`, [`Error::PeerFailed`] when a named
    /// source is gone, [`Error::NoSuchRank`], [`Error::UsedAfterFork`].
    #[inline]
    pub fn recv(&mut self, from: impl Into<Pattern>, into: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: the borrow lasts until the wait is over.
        let request = unsafe { self.start_recv(from.into(), into.as_mut_ptr(), into.len())? };
        self.wait_for(request)
    }

    /// As [`recv`](Self::recv), the message scattered to several places.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_vectored(
        &mut self,
        from: impl Into<Pattern>,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<Status, Error> {
        // SAFETY: the borrows last until the wait is over.
        let request = unsafe { self.start_recv_vectored(from.into(), into)? };
        self.wait_for(request)
    }

    /// Sends and receives at once.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`recv`](Self::recv).
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
            let recv = self.start_recv(from.into(), into.as_mut_ptr(), into.len())?;
            match self.start_send(to, data.as_ptr(), data.len(), false) {
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

    // Memory without copies.

    /// Memory that peers reach without copies in between: best for long messages, needed for loans
    /// and for cheap one-sided access. It comes from a pool and its contents are whatever the last
    /// user has left.
    ///
    /// # Errors
    /// [`Error::Memory`], saying what was needed and what there was.
    pub fn alloc(&mut self, len: usize) -> Result<Buffer, Error> {
        self.check_process()?;
        if self.back.any() {
            self.bring_back();
        }
        let block = self.pool.take(&mut self.line, len)?;
        Ok(Buffer::new(block, len, self.back.clone()))
    }

    /// Sends a buffer away without copying it: a receive by [`recv_view`](Self::recv_view) gets it
    /// in place, any other receive a copy. It returns to this endpoint's pool when the receiver has
    /// done with it. When the receiver is behind with so many loans that it cannot be told of more
    /// memory, it gets a copy, too.
    ///
    /// # Errors
    /// As [`send`](Self::send); the buffer is then back in the pool.
    pub fn loan(&mut self, to: impl Into<Dest>, buffer: Buffer) -> Result<(), Error> {
        self.start_loan(to.into(), buffer)
    }

    /// Receives a message of any length: of a loan a view in place, of another a private copy.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_view(&mut self, from: impl Into<Pattern>) -> Result<View, Error> {
        let request = self.start_recv_view(from.into())?;
        self.wait_view(request)
    }

    // Looking without receiving.

    /// What a receive with this pattern would get, if something is there.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::UsedAfterFork`].
    pub fn probe(&mut self, from: impl Into<Pattern>) -> Result<Option<Status>, Error> {
        self.look_for(&from.into())
    }

    /// Takes a message out of the queue, so that only [`recv_claimed`](Self::recv_claimed) gets it.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn claim(&mut self, from: impl Into<Pattern>) -> Result<Option<Claimed>, Error> {
        self.claim_message(&from.into())
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_claimed(&mut self, claimed: Claimed, into: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: the borrow lasts until the wait is over.
        let request = unsafe { self.receive_claimed(claimed, into.as_mut_ptr(), into.len())? };
        self.wait_for(request)
    }

    // Non-blocking operations, safe.

    /// Runs `f` with a [`Scope`], in which operations can be started whose buffers are borrowed.
    /// Everything started is over when this returns: what `f` has not waited for is waited for, and
    /// receives that nothing has matched are cancelled.
    ///
    /// # Errors
    /// What `f` returns; else the first error of an operation that `f` has not looked at.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let (mut a, mut b) = ([0; 4], [0; 4]);
    /// endpoint.scope(|s| {
    ///     let first = s.irecv((0, 1), &mut a)?;
    ///     let second = s.irecv((0, 2), &mut b)?;
    ///     s.isend((0, 2), b"two.")?;
    ///     s.isend((0, 1), b"one.")?;
    ///     s.wait(first)?;
    ///     s.wait(second)
    /// })?;
    /// assert_eq!((&a, &b), (b"one.", b"two."));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn scope<'env, R>(
        &mut self,
        f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        crate::scope::run(self, f)
    }

    // Non-blocking operations, raw.

    /// Starts a send.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    #[inline]
    pub unsafe fn isend_raw(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_send(to, data, len, false)? };
        Ok(self.handle(request))
    }

    /// Starts a send that is over when a receive has matched the message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw).
    pub unsafe fn isend_sync_raw(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_send(to, data, len, true)? };
        Ok(self.handle(request))
    }

    /// Starts a send gathered from several places.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw), for each slice; the list itself is not kept.
    pub unsafe fn isend_vectored_raw(
        &mut self,
        to: Dest,
        data: &[IoSlice<'_>],
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_send_vectored(to, data)? };
        Ok(self.handle(request))
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// `len` bytes at `into` stay writable, and are used by nobody else, until the request is
    /// finished.
    #[inline]
    pub unsafe fn irecv_raw(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_recv(from, into, len)? };
        Ok(self.handle(request))
    }

    /// Starts a receive into several places.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw), for each slice; the list itself is not kept.
    pub unsafe fn irecv_vectored_raw(
        &mut self,
        from: Pattern,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_recv_vectored(from, into)? };
        Ok(self.handle(request))
    }

    /// Starts a receive of many messages into one buffer, one behind the other, until fewer than
    /// `least` bytes are free. [`landed`](Self::landed) tells of each; the request itself is over
    /// when the buffer is used up and everything in it has landed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn irecv_multi_raw(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
        least: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_multi(from, into, len, least)? };
        Ok(self.handle(request))
    }

    /// The next message that a multi-receive has got. Makes progress when there is none.
    ///
    /// # Errors
    /// What has become of that message; [`Error::StaleRequest`].
    pub fn landed(&mut self, request: Request) -> Result<Option<Landed>, Error> {
        self.check_process()?;
        if let Some(landed) = self.next_landed(request)? {
            return Ok(Some(landed));
        }
        self.turn();
        self.next_landed(request)
    }

    /// The result of an operation, or `None` while it is not over. Makes progress. A multi-receive
    /// is not over for it before [`landed`](Self::landed) has told of every message; `wait` does
    /// not care.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    #[inline]
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.check_process()?;
        if let Some(status) = self.try_finish(request)? {
            return Ok(Some(status));
        }
        self.turn();
        self.try_finish(request)
    }

    /// Waits until an operation is over.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    #[inline]
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> {
        self.check_process()?;
        self.core.requests.look(request)?;
        self.wait_for(request.index)
    }

    /// Waits until one of several operations is over. Returns which, and its status.
    ///
    /// # Errors
    /// Those of the operation that ended, and [`Error::StaleRequest`] for any.
    ///
    /// # Panics
    /// If there are none.
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, Status), Error> {
        self.check_process()?;
        assert!(!requests.is_empty(), "waiting for the first of no operations never ends");
        self.wait_first(requests)
    }

    /// Waits until all of several operations are over.
    ///
    /// # Errors
    /// The first error in the order of the list; the other operations are over all the same.
    pub fn wait_all(&mut self, requests: &[Request]) -> Result<(), Error> {
        let mut result = Ok(());
        for &request in requests {
            result = result.and(self.wait(request).map(drop));
        }
        result
    }

    /// Cancels a receive, if no message has matched it. It is then over with [`Error::Cancelled`],
    /// which is still to be taken by [`test`](Self::test) or [`wait`](Self::wait). Sends are not
    /// cancelled. `false` when nothing was done.
    ///
    /// # Errors
    /// [`Error::StaleRequest`].
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> {
        self.check_process()?;
        self.cancel_request(request)
    }

    // One-sided access.

    /// Registers memory, so that peers may reach it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid until [`deregister`](Self::deregister), and peers may read
    /// and write them at any time until then.
    pub unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, Error> {
        self.check_process()?;
        // SAFETY: the caller's promise.
        let region = unsafe { self.line.register(at, len)? };
        self.registered.insert(region.0, (Exposed(at), len));
        Ok(region)
    }

    /// Ends a registration.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no such region.
    pub fn deregister(&mut self, region: RegionId) -> Result<(), Error> {
        self.check_process()?;
        self.unregister(region)
    }

    /// What rank `to` needs to reach registered memory.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no such region, and as [`send`](Self::send).
    pub fn remote_memory(&mut self, to: Rank, region: RegionId) -> Result<RemoteMemory, Error> {
        self.check_process()?;
        let unknown = taffrail_fabric::MemoryError::Unknown { region: region.0, offset: 0 };
        let (_, len) = *self.registered.get(&region.0).ok_or(unknown)?;
        self.remote(to, region, 0, len)
    }

    /// What rank `to` needs to reach a buffer.
    ///
    /// # Errors
    /// As [`remote_memory`](Self::remote_memory).
    ///
    /// # Safety
    /// As long as the peer uses it, the buffer is not dropped or lent, and it is read or written
    /// here only when messages have made sure that the peer does not.
    pub unsafe fn remote_buffer(
        &mut self,
        to: Rank,
        buffer: &Buffer,
    ) -> Result<RemoteMemory, Error> {
        let block = buffer.block();
        self.remote(to, block.region, block.offset, buffer.len())
    }

    /// Reads memory of a peer, `offset` bytes in, into `into`.
    ///
    /// # Errors
    /// [`Error::Memory`] when that lies outside, [`Error::PeerFailed`] when it fails.
    pub fn get(
        &mut self,
        from: Rank,
        memory: &RemoteMemory,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let (at, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: the borrow lasts until the wait is over.
        let request = unsafe { self.start_one_sided(Way::Get, from, memory, offset, at, len)? };
        self.wait_for(request).map(drop)
    }

    /// Writes `data` to memory of a peer, `offset` bytes in, and returns when it is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn put(
        &mut self,
        to: Rank,
        memory: &RemoteMemory,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Error> {
        let (at, len) = (data.as_ptr().cast_mut(), data.len());
        // SAFETY: the borrow lasts until the wait is over, and a put only reads.
        let request = unsafe { self.start_one_sided(Way::Put, to, memory, offset, at, len)? };
        self.wait_for(request).map(drop)
    }

    /// Starts a [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Safety
    /// `len` bytes at `into` stay writable, and are used by nobody else, until the request is
    /// finished.
    pub unsafe fn iget_raw(
        &mut self,
        from: Rank,
        memory: &RemoteMemory,
        offset: u64,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_one_sided(Way::Get, from, memory, offset, into, len)? };
        Ok(self.handle(request))
    }

    /// Starts a [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    pub unsafe fn iput_raw(
        &mut self,
        to: Rank,
        memory: &RemoteMemory,
        offset: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        let at = data.cast_mut();
        // SAFETY: the caller's promise; a put only reads.
        let request = unsafe { self.start_one_sided(Way::Put, to, memory, offset, at, len)? };
        Ok(self.handle(request))
    }

    // Active messages.

    /// Sends an active message: `handler` runs at the target when it makes progress. Active
    /// messages of one sender arrive in the order sent.
    ///
    /// # Errors
    /// [`Error::TooLong`], and as [`send`](Self::send).
    pub fn send_am(
        &mut self,
        to: Rank,
        handler: u16,
        header: u64,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.send_active(to, handler, header, payload)
    }

    /// Says what runs when an active message for `handler` arrives. It may use the endpoint.
    pub fn on_am(
        &mut self,
        handler: u16,
        run: impl FnMut(&mut Endpoint, AmMessage<'_>) + Send + 'static,
    ) {
        self.handlers.insert(handler, Box::new(run));
    }

    // Progress.

    /// Makes progress without waiting. Returns how many things happened.
    #[inline]
    pub fn progress(&mut self) -> usize {
        if !self.line.is_parent() {
            return 0;
        }
        self.turn()
    }

    /// A descriptor for `poll` and the like: after [`arm`](Self::arm) has returned `true`, it is
    /// readable when there is something to be made progress with.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.line.fd()
    }

    /// Prepares a wait on [`fd`](Self::fd). `false` when something is there already: make progress
    /// instead. While messages of this rank wait for room, look again after a short time.
    pub fn arm(&mut self) -> bool {
        if !self.line.is_parent() {
            return false;
        }
        // The wait must be one on the descriptor.
        let _ = self.line.fd();
        self.owing.is_empty() && self.line.arm() == Arming::Armed
    }

    /// Bytes of shared memory that this endpoint provides.
    pub fn footprint(&self) -> usize {
        self.line.footprint()
    }

    /// Which protocol is used for each peer and size, and why each other is not.
    pub fn explain(&self) -> String {
        crate::explain::explain(self)
    }

    /// Refuses the child of a fork.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        if self.line.is_parent() { Ok(()) } else { Err(Error::UsedAfterFork) }
    }

    /// Ends a request that nobody can wait for any more.
    pub(crate) fn abandon(&mut self, request: u32) {
        let handle = self.handle(request);
        let _ = self.cancel_request(handle);
        let _ = self.wait_for(request);
    }
}

impl Drop for Endpoint {
    /// Sends what still waits for room, as long as the peers take it. Memory of operations that are
    /// not over stays theirs: what was sent of it may still be read.
    fn drop(&mut self) {
        if !self.line.is_parent() {
            return;
        }
        self.give_all_back();
        let deadline = Instant::now() + Duration::from_secs(5);
        let owes = |ep: &Endpoint| !ep.owing.is_empty() || !ep.core.actions.is_empty();
        while owes(self) && Instant::now() < deadline {
            if self.turn() == 0 {
                self.check();
                std::thread::yield_now();
            }
        }
    }
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
fn digest(id: &str) -> [u64; 2] {
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
