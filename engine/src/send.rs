//! How a message leaves.

use super::core::Core;
use super::frame::{Frame, MsgHead};
use super::loan::{Buffer, Offer};
use super::peer::{Queued, Waiting};
use super::policy::tx::{Direct, send_numbered};
use super::request::{Slot, Stage};
use crate::Engine;
use crate::policy::protocol::Sends;
use crate::policy::{OnLoss, Policy, Route, by_policy};
use crate::tx::transmit;
use crate::{Dest, Error, NotNow, Rank, Request, Status};
use taffrail_fabric::{Fabric, Fault, PeerId, Reach, Refused, SendMemory, Source};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Checks that a message may go to `to`.
    #[inline]
    pub fn check_dest(&self, to: &Dest) -> Result<(), Error> {
        if self.fabric.in_child() {
            return Err(Error::UsedAfterFork);
        }
        match self.core.peers.get(to.rank as usize) {
            Some(peer) if peer.fault.is_none() => Ok(()),
            _ => Err(self.no_dest(to.rank)),
        }
    }

    #[cold]
    fn no_dest(&self, rank: Rank) -> Error {
        match self.core.peers.get(rank as usize).and_then(|p| p.fault().cloned()) {
            Some(fault) => Error::PeerFailed { rank, fault },
            None => Error::NoSuchRank { rank, size: self.size() },
        }
    }

    /// Sends a message at once. `false` when there is no room now, or it leaves otherwise: then it is started as an
    /// operation, or [copied](Self::send_copy). What leaves the set leaves, or waits in the log, unless the log has no
    /// room before a disk has taken what it is writing, or peers have read: that is `false` too, and nothing has happened.
    #[inline(always)]
    pub fn send_now(&mut self, to: &Dest, source: Source<'_>, len: usize) -> Result<bool, Error> {
        match self.try_send(to, source, len) {
            Ok(sent) => Ok(sent),
            Err(NotNow::Waits) => Ok(false),
            Err(NotNow::Failed(error)) => Err(error),
        }
    }

    /// As [`send_now`](Self::send_now), but says when the log waits for a disk, or for peers.
    #[inline(always)]
    fn try_send(&mut self, to: &Dest, source: Source<'_>, len: usize) -> Result<bool, NotNow> {
        if self.tx.is_poll_due_after_many() {
            self.poll_after_many();
        }
        self.check_dest(to)?;
        if self.begin_send(to.rank) == Route::Kept {
            return match source {
                // The source is made there, so that it need not lie in memory here.
                Source::Bytes(bytes) => self.keep_bytes(to, bytes),
                source => by_policy!(self.core.policy, keep(self, to, source, len)).map(|()| true),
            };
        }
        self.poll_if_due(to, len)?;
        let peer = &self.core.peers[to.rank as usize];
        if !peer.is_clear_for(len, peer.short(), peer.inline()) {
            return Ok(false);
        }
        Ok(self.send_direct(to, |msg| Frame::Eager { msg }, source)?.is_some())
    }

    #[inline(never)]
    fn keep_bytes(&mut self, to: &Dest, bytes: &[u8]) -> Result<bool, NotNow> {
        let source = Source::Bytes(bytes);
        by_policy!(self.core.policy, keep(self, to, source, bytes.len())).map(|()| true)
    }

    /// Hands a message, or its first fragment, to the fabric. `None` when there is no room now.
    #[inline(always)]
    fn send_direct(
        &mut self,
        to: &Dest,
        frame: impl FnOnce(MsgHead) -> Frame,
        source: Source<'_>,
    ) -> Result<Option<MsgHead>, Error> {
        let Engine { fabric, core, .. } = self;
        let Core { policy, numbers, immediate, .. } = core;
        match send_numbered(fabric, &mut Direct(policy), numbers, *immediate, to, frame, source) {
            Ok(msg) => Ok(msg),
            Err(refused) => self.not_now(to.rank, refused).map(|()| None),
        }
    }

    /// Hands as much of an eager message of several fragments to the fabric as there is room for: how it is called,
    /// and how many bytes have left. `None`: none, or it leaves otherwise.
    #[inline(never)]
    fn send_fragments(
        &mut self,
        to: &Dest,
        data: &[u8],
    ) -> Result<Option<(MsgHead, usize)>, Error> {
        let peer = &self.core.peers[to.rank as usize];
        let fragment = peer.fragment();
        let is_clear = peer.is_clear_for(data.len(), self.sizes.eager_max, 0);
        if data.len() <= fragment || !is_clear {
            return Ok(None);
        }
        let len = data.len() as u64;
        let (first, rest) = data.split_at(fragment);
        let begin = |msg| Frame::EagerFirst { msg, len };
        let Some(msg) = self.send_direct(to, begin, Source::Bytes(first))? else {
            return Ok(None);
        };
        // What finds no room waits in the queue, as does the rest for a peer that has failed.
        let mut sent = first.len();
        for fragment in rest.chunks(fragment) {
            let frame = msg.fragment(sent);
            if transmit(&mut self.fabric, to.rank, &frame, Source::Bytes(fragment)).is_err() {
                break;
            }
            sent += fragment.len();
        }
        Ok(Some((msg, sent)))
    }

    /// Polls now and then while messages are sent: their receiver may stop them, and the program need not poll.
    #[cold]
    #[inline(never)]
    fn poll_after_many(&mut self) {
        self.tx.polled();
        self.progress();
    }

    /// Polls now and then while long messages are sent without asking: their receiver may throttle them.
    #[inline]
    pub(crate) fn poll_if_due(&mut self, to: &Dest, len: usize) -> Result<(), Error> {
        let inline = self.core.peers[to.rank as usize].inline();
        if len > inline && self.tx.is_poll_due(len) {
            self.progress();
            // Its failure may be what was heard, and what is started after that nobody ends.
            return self.check_dest(to);
        }
        Ok(())
    }

    #[cold]
    fn not_now(&mut self, rank: Rank, refused: Refused) -> Result<(), Error> {
        match refused {
            Refused::Failed(Fault::Vacant) => Err(Error::NoSuchRank { rank, size: self.size() }),
            Refused::Failed(fault) => match self.core.policy.on_loss(rank, &fault) {
                OnLoss::Suspend => Ok(()),
                OnLoss::Fail => Err(Error::PeerFailed { rank, fault }),
            },
            _ => Ok(()),
        }
    }

    /// Starts a send.
    ///
    /// # Errors
    /// [`NotNow::Waits`] when the log has no room before a disk has taken what it is writing, or peers have read: nothing has
    /// happened, and the call is made again.
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    #[inline(always)]
    pub unsafe fn start_send(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
        sync: bool,
    ) -> Result<u32, NotNow> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(data, len) };
        self.start(to, Source::Bytes(bytes), (data.cast_mut(), len), sync)
    }

    /// Starts a send gathered from several places.
    ///
    /// # Errors
    /// As [`start_send`](Self::start_send).
    ///
    /// # Safety
    /// As [`start_send`](Self::start_send), for each slice; the list itself is not kept.
    pub unsafe fn start_send_vectored(&mut self, to: Dest, parts: &[&[u8]]) -> Result<u32, NotNow> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.start(to, Source::Parts(parts), (std::ptr::null_mut(), len), false)
    }

    /// Starts a send of `len` bytes. They are at `at`, or in several parts.
    #[inline(always)]
    fn start(
        &mut self,
        to: Dest,
        source: Source<'_>,
        (at, len): (*mut u8, usize),
        sync: bool,
    ) -> Result<u32, NotNow> {
        let (mut begun, mut is_kept) = (None, false);
        if sync {
            self.check_dest(&to)?;
            is_kept = self.begin_send(to.rank) == Route::Kept;
        } else if self.try_send(&to, source, len)? {
            return Ok(self.sent(&to, len));
        } else if let Source::Bytes(bytes) = source {
            begun = self.send_fragments(&to, bytes)?;
            if begun.is_some_and(|(_, sent)| sent == len) {
                return Ok(self.sent(&to, len));
            }
        }
        self.check_taken(to.rank)?;
        let request = self.core.requests.start(Stage::Queued, to.rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = sent_status(&to, len);
        if let Source::Parts(parts) = source {
            let parts = parts.iter().map(|part| (part.as_ptr().cast_mut(), part.len()));
            slot.extra().parts = parts.collect();
        }
        if let Some((msg, sent)) = begun {
            self.tx().enqueue(to.rank, Waiting::free(Queued::Eager { msg, request, sent }));
        } else if is_kept {
            slot.stage = Stage::RtsSent;
            let name = slot.name(request);
            let policy = &self.core.policy;
            let kept = by_policy!(policy, keep_whole(self, &to, source, len, Some(name)));
            match kept {
                Ok(()) => {}
                Err(NotNow::Failed(error)) => self.core.fail(request, error),
                Err(NotNow::Waits) => {
                    self.core.requests.end(request);
                    let _ = self.core.requests.finish(request);
                    return Err(NotNow::Waits);
                }
            }
        } else {
            self.tx().queue_send(request, to, sync);
        }
        Ok(request)
    }

    /// A request for a message that has left already.
    #[inline]
    fn sent(&mut self, to: &Dest, len: usize) -> u32 {
        self.core.requests.start_sent(sent_status(to, len))
    }

    /// Sends a buffer away. It is given back where [`NotNow::Waits`] is the answer to others: the call is made again.
    pub fn start_loan(&mut self, to: Dest, buffer: Buffer) -> Result<Option<Buffer>, Error> {
        self.check_dest(&to)?;
        if self.begin_send(to.rank) == Route::Kept {
            // The log has it from now on, and the buffer is free again.
            let (source, len) = (Source::Bytes(&buffer), buffer.len());
            return match by_policy!(self.core.policy, keep_whole(self, &to, source, len, None)) {
                Ok(()) => Ok(None),
                Err(NotNow::Waits) => Ok(Some(buffer)),
                Err(NotNow::Failed(error)) => Err(error),
            };
        }
        let block = buffer.block();
        let key = self.region_key(to.rank, block.region, block.offset)?;
        let is_mapped =
            key.is_of_a_rail() && self.fabric.reach(PeerId(to.rank), &key) == Reach::Mapped;
        let word = self.core.immediate.word(to.context, to.data);
        let Some(context) = word.filter(|_| is_mapped) else {
            self.send_buffer(to, buffer);
            return Ok(None);
        };
        let (block, len) = buffer.into_parts();
        let loan = self.lending.lend(to.rank, block);
        let seq = self.core.number(&to);
        let (msg, offer) = (MsgHead { context, seq, tag: to.tag }, Offer { loan, key });
        self.tx().post_frame(to.rank, Frame::Loan { msg, len: len as u64, offer }, &[]);
        Ok(None)
    }

    /// Sends a copy of a message that could not leave at once. The copy of a logged message is in the log.
    ///
    /// # Errors
    /// As [`start_send`](Self::start_send).
    #[cold]
    pub fn send_copy(&mut self, to: Dest, data: &[u8]) -> Result<(), NotNow> {
        self.check_dest(&to)?;
        if self.begin_send(to.rank) == Route::Kept {
            return self.keep_bytes(&to, data).map(drop);
        }
        self.check_taken(to.rank)?;
        let mut buffer = self.take_buffer(data.len())?;
        buffer.copy_from_slice(data);
        self.send_buffer(to, buffer);
        Ok(())
    }

    /// Sends what is in a buffer, which then goes back to the pool.
    #[cold]
    fn send_buffer(&mut self, to: Dest, mut buffer: Buffer) {
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        let request = self.core.requests.start(Stage::Queued, to.rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = sent_status(&to, len);
        slot.extra().detached = true;
        slot.extra().buffer = Some(buffer);
        self.tx().queue_send(request, to, false);
    }

    /// The handle of a request.
    pub fn handle(&self, request: u32) -> Request {
        self.core.requests.handle(request)
    }
}

impl<P: Policy> Core<P> {
    /// The number of a message that is certain to leave.
    pub(crate) fn number(&mut self, to: &Dest) -> u32 {
        self.policy.number(&mut self.numbers, to.rank, to.context).commit()
    }
}

/// The parts of a message, or of a fragment of one.
pub(crate) fn source_of<'a>(parts: &'a [&'a [u8]]) -> Source<'a> {
    match parts {
        [one] => Source::Bytes(one),
        _ => Source::Parts(parts),
    }
}

/// What a send says at its end.
fn sent_status(to: &Dest, len: usize) -> Status {
    Status { source: to.rank, tag: to.tag, len, data: to.data }
}

/// The bytes at `at`; none for a null pointer.
///
/// # Safety
/// As `slice::from_raw_parts`, but for `len` 0, with which any pointer is good.
pub unsafe fn bytes<'a>(at: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, len) }
}

/// Shows `f` the `len` bytes from `from` on of what a send sends, in order.
pub(crate) fn gather<'a>(slot: &Slot, from: usize, len: usize, mut f: impl FnMut(&'a [u8])) {
    let whole = [(slot.at, slot.len)];
    let parts: &[(*mut u8, usize)] = match &slot.extra {
        Some(extra) if !extra.parts.is_empty() => &extra.parts,
        _ => &whole,
    };
    let (mut skip, mut left) = (from, len);
    for &(at, room) in parts {
        if skip >= room {
            skip -= room;
            continue;
        }
        let now = left.min(room - skip);
        // SAFETY: the caller that started the send vouches for each of its parts until it is finished.
        f(unsafe { bytes(at.add(skip), now) });
        (skip, left) = (0, left - now);
        if left == 0 {
            return;
        }
    }
    if len == 0 {
        f(&[]);
    }
}
