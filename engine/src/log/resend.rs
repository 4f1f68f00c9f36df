//! Messages that leave from the log: behind others, at the gate, or again for a peer that has started again.

use super::decisions::Logged;
use super::host::Host;
use super::leaving::LoggedSend;
use super::log_and_send::send_range;
use super::nondeterminism::CoreParts;
use super::send::needs_rts;
use super::{LogEntry, Logging};
use crate::Engine;
use crate::core::Core;
use crate::frame::{Frame, MsgHead};
use crate::peer::{Queued, Waiting};
use crate::request::{Requests, Stage};
use crate::tx::transmit;
use crate::{Error, NotNow, Rank};
use taffrail_fabric::{Fabric, Refused, SendMemory, Sent, Source};
use taffrail_logging::{Received, Ticket, mutant};

/// A message that is sent again and longer than this is announced: probably its receive is still to be
/// posted, and it would be copied twice.
const EAGER_AGAIN: usize = 256 << 10;

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    /// A peer outside of the set has said what it has: sends it what it lacks of the log.
    pub(super) fn send_again(&mut self, rank: Rank, mut has: Received) {
        self.tx().send_determinants(rank);
        self.core.ask_again(rank, &mut has);
        let CoreParts { log, peers, .. } = self.core.parts();
        let ticket =
            if mutant!(SentAgainUngated) { Ticket::default() } else { log.events.ticket() };
        // What it lacks may have been held when it was sent, and depend on events that are not stable
        // yet: all of it waits for what is written by now.
        let pages = log.again(rank, &has);
        tracing::debug!(rank, pages = pages.len(), "sending again what it lacks");
        let lacking = log.outbound.restarted(rank, has);
        let lacking = lacking.map(|entry| Queued::Logged(LoggedSend::new(entry)));
        let frames = pages.into_iter().map(Queued::Page).chain(lacking);
        for frame in frames.filter(|_| !mutant!(HeldIsForgotten)) {
            peers[rank as usize].push(Waiting { ticket: ticket.clone(), weight: 0, frame });
        }
        self.tx.mark_backlog(rank);
        self.tx().flush_peer(rank);
    }
}

impl<P: Logged> Core<P> {
    /// The RTS of a message of the log that is at the front of a peer's queue, if that is the way: the peer has
    /// asked for it, or the send waits for it. The request that it is of, and how it is called.
    pub(super) fn logged_rts(
        &mut self,
        rank: Rank,
        leaving: LoggedSend,
        forced: bool,
        inline: usize,
    ) -> Option<(u32, MsgHead)> {
        let LoggedSend { context, seq, kept, sent: 0, again } = leaving else { return None };
        let CoreParts { log, requests, .. } = self.parts();
        let waits = log.waiting_send(requests, (rank, context, seq), &kept);
        let len = kept.len();
        let is_sent = match waits {
            None => !(needs_rts(forced, len, inline) || again && len > EAGER_AGAIN),
            Some(_) => len + 8 <= inline,
        };
        let request = match waits {
            _ if is_sent => return None,
            Some(send) => send as u32,
            None => self.detached(rank, &kept),
        };
        Some((request, kept.msg(context, seq)))
    }

    /// A send of nobody, of a message in the log.
    fn detached(&mut self, rank: Rank, kept: &LogEntry) -> u32 {
        let null = std::ptr::null_mut();
        let request = self.requests.start(Stage::Queued, rank, null, kept.len());
        let slot = self.requests.get(request);
        slot.status =
            crate::Status { source: rank, tag: kept.tag, len: kept.len(), data: crate::Data::NONE };
        slot.extra().detached = true;
        slot.extra().kept = Some(kept.at + kept.prefix() as u64);
        request
    }
}

impl<H: Host> Logging<H> {
    /// Sends more of a message of the log; `None` until that is read from the file. Its receiver may have to be asked to
    /// say when it is matched.
    pub(super) fn send_entry(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        requests: &Requests,
        rank: Rank,
        leaving: &mut LoggedSend,
        fragment: usize,
    ) -> Option<Result<Sent, Refused>> {
        let LoggedSend { context, seq, kept, sent, .. } = *leaving;
        let waits = self.waiting_send(requests, (rank, context, seq), &kept);
        if !self.is_back(fabric, kept.at + sent as u64) {
            return None;
        }
        if let Some(send) = waits {
            // Of those that are short enough the bytes go along; the others are announced instead.
            let range = self.payload_log.range(kept.at, kept.len(), kept.len());
            let frame = Frame::EagerSync { msg: kept.msg(context, seq), name: send };
            let body = fabric.read(range.segment, range.at, kept.len()).to_vec();
            let result = transmit(fabric, rank, &frame, Source::Bytes(&body));
            leaving.sent = if result.is_ok() { kept.bytes() } else { sent };
            return Some(result);
        }
        let left = kept.bytes() - sent;
        let range = self.payload_log.range(kept.at + sent as u64, left, fragment + kept.prefix());
        let result = send_range(fabric, rank, &kept.frame(context, seq, sent), range);
        leaving.sent += if result.is_ok() { range.len } else { 0 };
        Some(result)
    }

    /// Whether a place is in memory. If it is in the file only, it is being read from then on, and what leaves from there
    /// stays at the front of its queue, as if its peer had no room.
    #[inline]
    fn is_back(&mut self, memory: &mut impl SendMemory, place: u64) -> bool {
        match self.payload_log.bring_back(memory, place) {
            Ok(()) => true,
            Err(NotNow::Waits) => false,
            Err(NotNow::Failed(error)) => lost::<H>(&error),
        }
    }

    /// Sends `most` bytes of a logged message, or as many as are in one segment. How many, if there was
    /// room.
    pub(super) fn send_place(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: Rank,
        frame: &Frame,
        place: u64,
        most: usize,
    ) -> Option<usize> {
        if !self.is_back(fabric, place) {
            return None;
        }
        let range = self.payload_log.range(place, most, most);
        send_range(fabric, to, frame, range).is_ok().then_some(range.len)
    }
}

impl LogEntry {
    /// How it is called.
    pub(super) fn msg(&self, context: u16, seq: u32) -> MsgHead {
        MsgHead { context: self.word(context), seq, tag: self.tag }
    }

    /// The frame that has its bytes from `sent` on.
    pub(super) fn frame(&self, context: u16, seq: u32, sent: usize) -> Frame {
        let msg = self.msg(context, seq);
        match (sent, self.prefix()) {
            (0, 0) => Frame::Eager { msg },
            (0, _) => Frame::EagerFirst { msg, len: self.len() as u64 },
            (_, prefix) => msg.fragment(sent - prefix),
        }
    }
}

/// What is logged cannot be had: nobody who needs it can go on. This process ends, and is started again.
#[cold]
pub(super) fn lost<H: Host>(error: &Error) -> ! {
    H::end_process(&format!("a message of the log cannot be sent again: {error}"))
}
