//! A message is written into the log, and leaves: in which order.

use super::gather::Gather;
use super::host::Host;
use super::leaving::LoggedSend;
use super::{LogEntry, Logging};
use crate::Rank;
use crate::frame::Frame;
use crate::tx::transmit;
use taffrail_fabric::{BeforeLog, Fabric, LogRange, Refused, SendMemory, Sent, Source};
use taffrail_logging::mutant;

impl<H: Host> Logging<H> {
    /// Sends a message out of the user's memory, whole or in fragments of `step`, as far as there is room, and then writes it into the log
    /// while it is on its way. Whether all of it has left.
    ///
    /// *logged-before-visible* holds all the same: there is room for it, nothing of this process comes between the two, and if the process is killed
    /// there, its log ends with it but for what a checkpoint covers, which none does in the middle of a call. The number is given before, and the gate is open: so the next
    /// process sends the same bytes under the same number, logs them, and sends on what its receiver does not have.
    ///
    /// The fabric hears where the log will have the bytes ([`BeforeLog`]): it is not polled before they are there, since only sends and
    /// writes of memory come between the two.
    pub(super) fn send_and_write(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: Rank,
        leaving: &mut LoggedSend,
        parts: &[&[u8]],
        step: usize,
    ) -> bool {
        debug_assert!(
            leaving.kept.len() <= step || leaving.kept.prefix() > 0,
            "a message of several frames has its length in front, so `rndv_fragment` is at least `fragment`"
        );
        self.begin(fabric, &mut leaving.kept, parts);
        let (at, bytes) = (leaving.kept.at, leaving.kept.bytes());
        let places = cfg!(debug_assertions).then(|| self.payload_log.ranges(at, bytes));
        let is_sent = match leaving.kept.len() > step {
            false => self.send_whole(fabric, to, leaving, parts),
            true => self.send_fragments(fabric, to, leaving, parts, step),
        };
        for mut left in parts.iter().copied() {
            while !left.is_empty() {
                left = &left[self.payload_log.write(fabric, left)..];
            }
        }
        debug_assert_eq!(
            places,
            Some(self.payload_log.ranges(at, bytes)),
            "it is where it was to be"
        );
        is_sent
    }

    /// Sends a message out of the user's memory. In the log it may have several fragments, if that has shorter segments than the longest
    /// message. Whether there was room.
    #[inline]
    fn send_whole(
        &self,
        fabric: &mut impl Fabric,
        to: Rank,
        leaving: &mut LoggedSend,
        parts: &[&[u8]],
    ) -> bool {
        let LoggedSend { context, seq, kept, sent, .. } = leaving;
        let frame = Frame::Eager { msg: kept.msg(*context, *seq) };
        let (one, several);
        let ranges = match kept.prefix() {
            0 => {
                one = [self.payload_log.range(kept.at, kept.len(), usize::MAX)];
                &one[..]
            }
            prefix => {
                several = self.payload_log.ranges(kept.at + prefix as u64, kept.len());
                &several[..]
            }
        };
        let source = Source::BeforeLog(&BeforeLog { parts, ranges });
        let is_sent = transmit(fabric, to, &frame, source).is_ok();
        *sent = if is_sent { kept.bytes() } else { 0 };
        is_sent
    }

    /// Sends a message out of the user's memory, in fragments of `step`, as far as there is room. Whether all of it has left.
    fn send_fragments(
        &self,
        fabric: &mut impl Fabric,
        to: Rank,
        leaving: &mut LoggedSend,
        parts: &[&[u8]],
        step: usize,
    ) -> bool {
        let LoggedSend { context, seq, kept, sent, .. } = leaving;
        let mut source = Gather::behind(parts, 0);
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(parts.len());
        while *sent < kept.bytes() {
            // The frame of the first one has the length of the whole, which is in front of it in the log.
            let before = (*sent).max(kept.prefix());
            let now = (kept.bytes() - before).min(step);
            pieces.clear();
            source.write(now, |bytes| pieces.push(bytes));
            let ranges = self.payload_log.ranges(kept.at + *sent as u64, before + now - *sent);
            let frame = kept.frame(*context, *seq, *sent);
            let source = Source::BeforeLog(&BeforeLog { parts: &pieces, ranges: &ranges });
            if transmit(fabric, to, &frame, source).is_err() {
                *sent = if mutant!(RestBegunAgain) { 0 } else { *sent };
                return false;
            }
            *sent = if mutant!(SentMiscounted) { *sent + now } else { before + now };
        }
        true
    }

    /// Writes a message of several fragments, or one that is longer than a slot, into the log, and sends each fragment
    /// when it is there, `at_once`, as far as there is room. Whether all of it has left.
    pub(super) fn write_and_send(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: Rank,
        leaving: &mut LoggedSend,
        parts: &[&[u8]],
        (step, at_once): (usize, bool),
    ) -> bool {
        let LoggedSend { context, seq, kept, sent, .. } = leaving;
        self.begin(fabric, kept, parts);
        let mut goes_on = at_once;
        let mut written = kept.prefix();
        let mut source = Gather::behind(parts, 0);
        while written < kept.bytes() {
            let now = (kept.bytes() - written).min(step).min(self.payload_log.room());
            source.write(now, |bytes| _ = self.payload_log.write(fabric, bytes));
            written += now;
            while goes_on && *sent < written {
                let range =
                    self.payload_log.range(kept.at + *sent as u64, written - *sent, usize::MAX);
                let frame = kept.frame(*context, *seq, *sent);
                goes_on = send_range(fabric, to, &frame, range).is_ok();
                *sent += if goes_on { range.len } else { 0 };
            }
        }
        goes_on
    }

    /// Begins a message in the log, whole or in fragments as its entry says, of which there is to be room.
    #[inline]
    fn begin(&mut self, memory: &mut impl SendMemory, kept: &mut LogEntry, parts: &[&[u8]]) {
        let skew = taffrail_fabric::skew(parts, kept.len());
        kept.at = match kept.prefix() {
            0 => self.payload_log.begin_whole(kept.len(), skew),
            _ => self.payload_log.begin_fragments(memory, kept.len(), skew),
        };
    }
}

pub(super) fn send_range(
    fabric: &mut impl Fabric,
    rank: Rank,
    frame: &Frame,
    range: LogRange,
) -> Result<Sent, Refused> {
    let source = if range.len == 0 { Source::Bytes(&[]) } else { Source::Log(range) };
    transmit(fabric, rank, frame, source)
}
