//! One-sided access: get and put on memory that a peer has registered.
//!
//! The fabric does it where it can. Where the kernel gives no way to the peer's memory, the target's
//! engine does it, when the target makes progress.

use super::core::{Core, answers_not_taken};
use super::frame::Frame;
use super::loan::Buffer;
use super::memory::{MemoryName, NoMemory, Target, TargetAddr, Way};
use super::peer::Stream;
use super::request::{Extra, Stage};
use super::rma::Serving;
use super::tx::Tx;
use crate::Engine;
use crate::policy::{OnLoss, Policy, Route};
use crate::{Dest, Error, Rank, Status};
use std::collections::VecDeque;
use taffrail_fabric::{
    Fabric, Fault, MemoryError, PeerId, Refused, RegionId, RemoteKey, SendMemory, Token, UserBuf,
    UserBytes,
};

/// What a peer must have to reach memory of this rank: plain bytes, to be sent as one likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    key: RemoteKey,
    region: u32,
    offset: u64,
    len: u64,
}

impl RemoteMemory {
    /// Length of the encoded form.
    pub const ENCODED: usize = RemoteKey::MAX + 24;

    /// Bytes of the memory.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The encoded form.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        let key = self.key.as_bytes();
        bytes[0] = key.len() as u8;
        bytes[1..=key.len()].copy_from_slice(key);
        bytes[68..72].copy_from_slice(&self.region.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.offset.to_le_bytes());
        bytes[80..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) has encoded.
    #[expect(clippy::expect_used, reason = "slices of 8 and 24 bytes out of an array")]
    pub fn from_bytes(bytes: &[u8; Self::ENCODED]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        // A key that nobody has made reaches nothing, and the access fails.
        let key = bytes[1..65].get(..usize::from(bytes[0])).and_then(RemoteKey::from_bytes);
        RemoteMemory {
            key: key.unwrap_or(RemoteKey::OF_NO_RAIL),
            region: (word(64) >> 32) as u32,
            offset: word(72),
            len: word(80),
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// What rank `to` needs to reach `len` bytes of a region from `offset` on.
    pub fn remote(
        &mut self,
        to: Rank,
        region: RegionId,
        offset: usize,
        len: usize,
    ) -> Result<RemoteMemory, Error> {
        self.check_dest(&Dest::new(to, 0))?;
        let key = self.region_key(to, region, offset)?;
        Ok(RemoteMemory { key, region: region.0, offset: offset as u64, len: len as u64 })
    }

    /// The key under which rank `to` reaches memory of this rank; that of no rail, where no fabric leads there.
    pub(crate) fn region_key(
        &mut self,
        to: Rank,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        match self.fabric.key(PeerId(to), region, offset) {
            Err(MemoryError::NotOffered { .. }) => Ok(RemoteKey::OF_NO_RAIL),
            key => key,
        }
    }

    /// What rank `to` needs to reach a buffer.
    pub fn remote_buffer(&mut self, to: Rank, buffer: &Buffer) -> Result<RemoteMemory, Error> {
        let (block, len) = (buffer.block(), buffer.len());
        let memory = self.remote(to, block.region, block.offset, len)?;
        // Where the fabric cannot do it, this rank does.
        self.lending.let_reach(buffer);
        Ok(memory)
    }

    /// Starts a get or put.
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid (for writes, of a get) until the request is finished.
    pub unsafe fn start_one_sided(
        &mut self,
        way: Way,
        rank: Rank,
        memory: &RemoteMemory,
        offset: u64,
        at: *mut u8,
        len: usize,
    ) -> Result<u32, Error> {
        self.check_access(rank)?;
        if offset.checked_add(len as u64).is_none_or(|end| end > memory.len) {
            return Err(MemoryError::Unknown { region: memory.region, offset }.into());
        }
        let request = self.core.requests.start(Stage::OneSided, rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = Status { source: rank, tag: 0, len, data: crate::Data::NONE };
        if len == 0 {
            slot.stage = Stage::Done;
            return Ok(request);
        }
        let token = Token(slot.name(request));
        let target =
            Target { way, region: memory.region.into(), start: memory.offset.wrapping_add(offset) };
        let extra = slot.extra();
        (extra.source, extra.target) = (Some((memory.key, 0)), Some(target));
        // SAFETY: the caller's promise; the request is finished only after the fabric's report.
        let (into, source) = unsafe { (UserBuf::new(at, len), UserBytes::new(at, len)) };
        let started = match way {
            // The frame that asks for it waits.
            _ if self.core.peers[rank as usize].is_held() => Err(Refused::Busy),
            _ if !memory.key.is_of_a_rail() => Err(Refused::Busy),
            Way::Get => self.fabric.get(PeerId(rank), &memory.key, offset, into, token),
            Way::Put => self.fabric.put(PeerId(rank), &memory.key, offset, source, token),
        };
        match started {
            Ok(()) => {}
            Err(Refused::Failed(fault)) => {
                if self.core.policy.on_loss(rank, &fault) == OnLoss::Fail {
                    self.core.fail(request, Error::PeerFailed { rank, fault });
                }
            }
            Err(_) => {
                self.core.requests.get(request).extra().source = None;
                self.tx().ask_for(target, rank, request);
            }
        }
        Ok(request)
    }

    /// Refuses what cannot be done, or not be logged.
    pub(crate) fn check_access(&mut self, rank: Rank) -> Result<(), Error> {
        self.check_dest(&Dest::new(rank, 0))?;
        if self.core.policy.piggybacks() && rank != self.rank() {
            self.core.policy.check_repeatable(
                "access to the memory of another rank, with --logging causal,",
                "send messages",
            )?;
        }
        if self.begin_send(rank) == Route::Kept {
            self.core.policy.check_repeatable(
                "access to the memory of a rank of another set",
                "send messages",
            )?;
        }
        Ok(())
    }

    /// Ends a registration.
    pub fn unregister(&mut self, region: RegionId) -> Result<(), Error> {
        let unknown = MemoryError::Unknown { region: region.0, offset: 0 };
        if !self.rma.unregister(region) {
            return Err(unknown.into());
        }
        self.fabric.deregister(region)?;
        self.tx().end_answers(MemoryName::Region(region.0.into()));
        Ok(())
    }
}

impl<F: Fabric + SendMemory, P: Policy> Tx<'_, F, P> {
    /// A get or put that the fabric has failed at is done by its target, unless the memory is not there.
    pub(crate) fn retry_one_sided(&mut self, request: u32, rank: Rank, fault: Fault) {
        let slot = self.core.requests.get(request);
        let target = slot.extra.as_mut().and_then(|extra| extra.target.take());
        match target.filter(|_| matches!(fault, Fault::Os { .. })) {
            Some(target) if self.core.peers[rank as usize].fault.is_none() => {
                self.ask_for(target, rank, request);
            }
            _ => self.fail_with_peer(request, rank, fault),
        }
    }

    fn ask_for(&mut self, Target { way, region, start }: Target, rank: Rank, request: u32) {
        self.ask_target(way, rank, request, TargetAddr { region, keyed: false, offset: start });
    }

    /// Lets the target do it, in its memory there.
    pub(crate) fn ask_target(&mut self, way: Way, to: Rank, request: u32, place: TargetAddr) {
        let slot = self.core.requests.get(request);
        slot.stage = if way == Way::Get { Stage::AskedGet } else { Stage::AskedPut };
        let (at, len, name) = (slot.at, slot.len, slot.name(request));
        if way == Way::Get {
            return self.post_frame(to, Frame::GetReq { name, place, len: len as u64 }, &[]);
        }
        let step = self.fabric.limits(PeerId(to)).max_message - 24;
        for from in (0..len).step_by(step) {
            let now = step.min(len - from);
            let place = TargetAddr { offset: place.offset.wrapping_add(from as u64), ..place };
            // SAFETY: the caller of `start_one_sided` vouches for the range.
            let body = unsafe { std::slice::from_raw_parts(at.add(from), now) };
            self.post_frame(to, Frame::PutReq { name, place, last: from + now == len }, body);
        }
    }

    /// Answers that still read what peers call by this name end early. Others of the same bytes go on.
    pub(crate) fn end_answers(&mut self, name: MemoryName) {
        for peer in 0..self.core.peers.len() as Rank {
            let Core { peers, requests, .. } = &mut *self.core;
            let peer_state = &mut peers[peer as usize];
            if peer_state.stream().is_none() {
                continue;
            }
            let streams = std::mem::take(peer_state.streams()).into_iter();
            let (ended, others): (VecDeque<_>, VecDeque<_>) = streams.partition(|stream| {
                let extra = requests.get(stream.request).extra.as_ref();
                extra.is_some_and(|extra| extra.reads == Some(name))
            });
            *peer_state.streams() = others;
            for stream in ended {
                self.core.requests.get(stream.request).stage = Stage::Done;
                let _ = self.core.requests.finish(stream.request);
                let nak = Frame::NakKey { name: stream.to, why: NoMemory::Unknown };
                self.post_frame(peer, nak, &[]);
            }
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Serving<'_, F, P> {
    /// Does a get, put or atomic operation on our memory for a peer.
    pub(crate) fn serve(&mut self, from: Rank, frame: Frame, body: &[u8]) {
        if self.tx.core.peers[from as usize].fault.is_some() {
            return;
        }
        match frame {
            Frame::GetReq { name, place, len } => self.serve_get(from, name, place, len),
            Frame::PutReq { name, place, last } => self.serve_put(from, name, place, body, last),
            Frame::Atomic { name, place, what } => {
                self.serve_atomic(from, name, place, what, body);
            }
            _ => {}
        }
    }

    fn serve_get(&mut self, from: Rank, to: u64, place: TargetAddr, len: u64) {
        let at = match self.rma.find(self.tx.lending, place, len, Way::Get) {
            Ok(at) => at,
            Err(why) => return self.tx.post_frame(from, Frame::NakKey { name: to, why }, &[]),
        };
        let most = self.tx.core.most_answers();
        if self.tx.core.peers[from as usize].streams().len() >= most {
            return self.tx.core.protocol_error(from, answers_not_taken(most));
        }
        let reads = Some(MemoryName::of(place));
        let want = len as usize;
        let request = self.tx.core.requests.start(Stage::Streaming, from, at, want);
        self.tx.core.requests.get(request).extra =
            Some(Box::new(Extra { detached: true, reads, ..Extra::default() }));
        self.tx.start_stream(from, Stream { request, want, to, non_temporal: false });
    }

    fn serve_put(&mut self, from: Rank, name: u64, place: TargetAddr, data: &[u8], last: bool) {
        let at = match self.rma.find(self.tx.lending, place, data.len() as u64, Way::Put) {
            Ok(at) => at,
            Err(why) => return self.tx.post_frame(from, Frame::NakKey { name, why }, &[]),
        };
        // SAFETY: the range lies inside registered or named memory, whose owner has agreed that peers
        // write to it.
        unsafe { taffrail_fabric::copy(data.as_ptr(), at, data.len()) };
        if last {
            self.tx.post_frame(from, Frame::Ack { name }, &[]);
        }
    }
}
