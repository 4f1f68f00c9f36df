//! What leaves: logged first, if it goes to another set, and sent from the log.

use super::{Kept, Log};
use crate::engine::peer::{Queued, Waiting};
use crate::engine::request::Stage;
use crate::engine::{EAGER_LOGGED, LONG_LOGGED, kind};
use crate::{Dest, Endpoint, Error, Rank};
use taffrail_fabric::{Fabric, Head, LogRange, PeerId, Refused, SendMemory, Sent, Source};
use taffrail_logging::{Entry, Received, Sending, Ticket};

/// A message that is sent again and longer than this is announced: probably its receive is still to be
/// posted, and it would be copied twice.
const EAGER_AGAIN: usize = 256 << 10;

/// A message of the log that waits for room, or at the gate.
pub(crate) struct Leaving {
    pub(crate) context: u16,
    pub(crate) seq: u32,
    pub(crate) kept: Kept,
    /// Bytes that have left, the length in front included.
    pub(crate) sent: usize,
    /// Its receiver has started again.
    pub(crate) again: bool,
}

impl Leaving {
    /// A message of the log that is to be sent again.
    pub(super) fn new(entry: Entry<Kept>) -> Self {
        let Entry { context, seq, payload: kept } = entry;
        Leaving { context, seq, kept, sent: 0, again: true }
    }
}

impl Log {
    /// A message is about to be sent.
    #[inline(always)]
    pub(super) fn before_send(&mut self) {
        if self.recorder.has_polled() {
            self.write_polls();
        }
    }

    #[inline(never)]
    fn write_polls(&mut self) {
        if let Some(event) = self.recorder.before_send() {
            self.write(event);
        }
    }
}

/// Whether a message leaves now. A synchronous one is to be acknowledged, also by a receiver that has it.
#[inline(always)]
pub(super) fn leaves(sending: Sending, is_sync: bool) -> bool {
    match sending {
        Sending::Transmit => true,
        Sending::Suppress => is_sync,
        Sending::Hold => false,
    }
}

impl Endpoint {
    /// Uses a moment in which there is nothing to do.
    #[inline(never)]
    pub(crate) fn prepare_log(&mut self) {
        if let Some(log) = &self.core.log {
            log.tape.prepare_in_advance(&mut self.line);
        }
    }

    /// Something is about to be sent. Whether it leaves the set: then it is to be logged.
    #[inline(always)]
    pub(crate) fn leaves_the_set(&mut self, to: Rank) -> bool {
        match &mut self.core.log {
            None => false,
            Some(log) => {
                log.before_send();
                let leaves = !log.is_fellow(to);
                if !leaves && log.is_causal() {
                    self.precede_message(to);
                }
                leaves
            }
        }
    }

    /// As [`send`](Self::send), to a rank of another set.
    #[inline(never)]
    pub(crate) fn send_logged(&mut self, to: Dest, data: &[u8]) -> Result<(), Error> {
        if self.send_short::<false>(&to, data) {
            Ok(())
        } else {
            self.send_logged_slowly(&to, data)
        }
    }

    #[inline(never)]
    fn send_logged_slowly(&mut self, to: &Dest, data: &[u8]) -> Result<(), Error> {
        if self.send_short_behind(to, data) {
            return Ok(());
        }
        self.log_and_send(to, &[data], data.len(), None)?;
        self.listen(to, data.len())
    }

    /// Sends a short message at once, and logs it while it is on its way (*logged-before-visible*: that
    /// there is room for it is made sure before, and the log ends with its process). `false` when
    /// something stands in its way. `BEHIND`: in causal logging, behind what must go before it.
    #[inline(always)]
    pub(super) fn send_short<const BEHIND: bool>(&mut self, to: &Dest, data: &[u8]) -> bool {
        let Endpoint { line, core, .. } = self;
        let Some(log) = &mut core.log else { return false };
        if !(BEHIND || log.departs_freely)
            || log.fills_page(to.rank)
            || data.len() > line.limits(PeerId(to.rank)).inline
            || !log.tape.has_room(data.len())
            || !core.peers[to.rank as usize].queue.is_empty()
        {
            return false;
        }
        let Some(context) = core.immediate.word(to.context, to.data) else { return false };
        let Some(next) = log.outbound.next(to.rank, to.context) else { return false };
        let seq = *next;
        let head = Head { kind: kind::EAGER, context, seq, tag: to.tag };
        if line.send(PeerId(to.rank), head, Source::Bytes(data)).is_err() {
            return false;
        }
        *next = seq.wrapping_add(1);
        let mut kept = Kept::new(to.tag, data.len(), false, false, context ^ to.context);
        kept.at = log.tape.write_short(line, data);
        log.outbound.keep(to.rank, Entry { context: to.context, seq, payload: kept });
        if log.fills_page(to.rank) {
            // If there is no room, the next message says so.
            let _ = log.write_page(line, to.rank);
        }
        true
    }

    /// Logs a message, and sends it, or leaves that for later. `sync` names the request of a
    /// synchronous one.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room in the log.
    pub(crate) fn log_and_send(
        &mut self,
        to: &Dest,
        parts: &[&[u8]],
        len: usize,
        sync: Option<u64>,
    ) -> Result<(), Error> {
        let Endpoint { line, core, piece, .. } = self;
        let Some(log) = &mut core.log else { return Ok(()) };
        let inline = line.limits(PeerId(to.rank)).inline;
        let Some(context) = core.immediate.word(to.context, to.data) else {
            return Err(Error::NotLogged {
                what: "a message with so large a number beside its payload",
                remedy: "below an MPI this is the sender's rank, of which there are 16383 at the most",
            });
        };
        if log.fills_page(to.rank) {
            log.write_page(line, to.rank)?;
        }
        if !log.tape.fits_at_once(len) {
            return self.log_long(to, parts, len, sync, context);
        }
        log.tape.prepare(line, len, *piece)?;
        let (seq, sending) = log.outbound.number(to.rank, to.context);
        let leaves = leaves(sending, sync.is_some());
        if leaves && log.is_causal() {
            self.precede_message(to.rank);
        }
        let Endpoint { line, core, piece, logged_piece, .. } = self;
        let Some(log) = &mut core.log else { return Ok(()) };
        let ticket = log.events.ticket();
        let peer = &core.peers[to.rank as usize];
        let at_once = leaves
            && sync.is_none()
            && peer.queue.is_empty()
            && ticket.is_free()
            && !is_announced(peer.announce_all, len, inline);
        let pieces = len > *piece;
        let mut kept = Kept::new(to.tag, len, pieces, sync.is_some(), context ^ to.context);
        let head = Head { kind: kind::EAGER, context, seq, tag: to.tag };
        let mut sent = 0;
        if len <= inline {
            kept.at = log.tape.begin_short(len);
            for part in parts {
                log.tape.write(line, part);
            }
            if at_once {
                let left = match parts {
                    [whole] => line.send(PeerId(to.rank), head, Source::Bytes(whole)),
                    _ => line.send(PeerId(to.rank), head, Source::Parts(parts)),
                };
                sent = if left.is_ok() { usize::MAX } else { 0 };
            }
        } else {
            let skew = taffrail_fabric::skew(parts, len);
            kept.at = match pieces {
                false => log.tape.begin_whole(len, skew),
                true => log.tape.begin_pieces(line, len, skew),
            };
            let mut goes_on = at_once;
            let mut written = kept.prefix();
            let mut source = Gather { parts, at: 0 };
            // Of a long message the receiver has enough to copy while the next piece is written.
            let step = if len > LONG_LOGGED { *logged_piece } else { *piece };
            while written < kept.bytes() {
                let now = (kept.bytes() - written).min(step).min(log.tape.room());
                source.write(now, |bytes| _ = log.tape.write(line, bytes));
                written += now;
                while goes_on && sent < written {
                    let range = log.tape.range(kept.at + sent as u64, written - sent, usize::MAX);
                    let head = kept.head(to.context, seq, sent);
                    goes_on = send_range(line, to.rank, head, range).is_ok();
                    sent += if goes_on { range.len } else { 0 };
                }
            }
            sent = if goes_on { usize::MAX } else { sent };
        }
        let leaving = Leaving { context: to.context, seq, kept, sent, again: false };
        let ticket = (leaves && sent != usize::MAX).then_some(ticket);
        self.is_logged(to.rank, leaving, sync, ticket);
        Ok(())
    }

    /// A message is in the log. With a ticket it is to leave, or the rest of it.
    #[inline]
    pub(super) fn is_logged(
        &mut self,
        to: Rank,
        leaving: Leaving,
        sync: Option<u64>,
        ticket: Option<Ticket>,
    ) {
        let Some(log) = &mut self.core.log else { return };
        let Leaving { context, seq, kept, .. } = leaving;
        log.outbound.keep(to, Entry { context, seq, payload: kept });
        if let Some(send) = sync {
            log.note_sync(&self.core.requests, (to, context, seq), send);
        }
        if let Some(ticket) = ticket {
            let frame = Queued::Logged(leaving);
            self.enqueue_waiting(to, Waiting { ticket, weight: 0, frame });
        }
    }

    /// A peer outside of the set has said what it has: sends it what it lacks of the log.
    pub(crate) fn send_again(&mut self, rank: Rank, mut has: Received) {
        self.precede(rank);
        self.core.ask_again(rank, &mut has);
        let Some(log) = &mut self.core.log else { return };
        let ticket = log.events.ticket();
        // What it lacks may have been held when it was sent, and depend on events that are not stable
        // yet: all of it waits for what is written by now.
        let pages = log.again(rank, &has);
        tracing::debug!(rank, pages = pages.len(), "sending again what it lacks");
        let lacking = log.outbound.restarted(rank, has);
        let lacking = lacking.map(|entry| Queued::Logged(Leaving::new(entry)));
        let frames = pages.into_iter().map(Queued::Page).chain(lacking);
        let waiting = frames.map(|frame| Waiting { ticket: ticket.clone(), weight: 0, frame });
        self.core.peers[rank as usize].queue.extend(waiting);
        self.owe(rank);
        self.flush_peer(rank);
    }

    /// As `send_front`, of a message of the log.
    pub(crate) fn send_front_logged(&mut self, rank: Rank) -> bool {
        let sent = self.send_leaving(rank);
        if sent == Some(true) {
            self.core.peers[rank as usize].pop_front();
        }
        sent.is_some()
    }

    /// Sends more of the message at the front of a peer's queue, which is of the log. `None`: there is no
    /// room. `Some(true)`: all of it has left.
    fn send_leaving(&mut self, rank: Rank) -> Option<bool> {
        let Endpoint { line, core, piece, .. } = self;
        let log = core.log.as_mut()?;
        let Some(Queued::Logged(leaving)) = core.peers[rank as usize].front_mut() else {
            return None;
        };
        let Leaving { context, seq, ref kept, sent, .. } = *leaving;
        let waits = log.waiting_send(&core.requests, (rank, context, seq), kept);
        let back = log.tape.bring_back(line, kept.at + sent as u64);
        back.unwrap_or_else(|error| lost(&error));
        if let Some(send) = waits {
            // Of those that are short enough the bytes go along; the others are announced instead.
            let range = log.tape.range(kept.at, kept.len(), kept.len());
            let head = Head { kind: kind::EAGER_SYNC, ..kept.head(context, seq, 0) };
            let body = [&send.to_le_bytes()[..], line.read(range.segment, range.at, kept.len())];
            let body = body.concat();
            return line.send(PeerId(rank), head, Source::Bytes(&body)).is_ok().then_some(true);
        }
        let left = kept.bytes() - sent;
        let range = log.tape.range(kept.at + sent as u64, left, *piece + kept.prefix());
        send_range(line, rank, kept.head(context, seq, sent), range).ok()?;
        leaving.sent += range.len;
        Some(leaving.sent == kept.bytes())
    }

    /// Announces the message at the front of a peer's queue, which is of the log, if that is the way:
    /// the peer has asked for it, or wants to be waited for.
    pub(crate) fn obey_logged(&mut self, rank: Rank) {
        let peer = &self.core.peers[rank as usize];
        let (announce_all, inline) = (peer.announce_all, self.line.limits(PeerId(rank)).inline);
        let Some(Queued::Logged(Leaving { context, seq, kept, sent: 0, again })) = peer.front()
        else {
            return;
        };
        let (context, seq, kept, again) = (*context, *seq, *kept, *again);
        let log = self.core.log.as_ref();
        let waits =
            log.and_then(|log| log.waiting_send(&self.core.requests, (rank, context, seq), &kept));
        let len = kept.len();
        let is_sent = match waits {
            None => !(is_announced(announce_all, len, inline) || again && len > EAGER_AGAIN),
            Some(_) => len + 8 <= inline,
        };
        if is_sent {
            return;
        }
        let head = kept.head(context, seq, 0);
        let request = match waits {
            Some(send) => send as u32,
            None => self.detached(rank, &kept),
        };
        let announcement = self.announcement(rank, request, head, None);
        self.core.peers[rank as usize].queue[0].frame = announcement;
    }

    /// A send of nobody, of a message in the log.
    fn detached(&mut self, rank: Rank, kept: &Kept) -> u32 {
        let null = std::ptr::null_mut();
        let request = self.core.requests.start(Stage::Queued, rank, null, kept.len());
        let slot = self.core.requests.get(request);
        slot.status =
            crate::Status { source: rank, tag: kept.tag, len: kept.len(), data: crate::Data::NONE };
        slot.extra().detached = true;
        slot.extra().kept = Some(kept.at + kept.prefix() as u64);
        request
    }
}

impl Log {
    /// Sends `most` bytes of a logged message, or as many as are in one segment. How many, if there was
    /// room.
    pub(crate) fn send_piece(
        &mut self,
        line: &mut (impl Fabric + SendMemory),
        to: Rank,
        head: Head,
        place: u64,
        most: usize,
    ) -> Option<usize> {
        let back = self.tape.bring_back(line, place);
        back.unwrap_or_else(|error| lost(&error));
        let range = self.tape.range(place, most, most);
        send_range(line, to, head, range).is_ok().then_some(range.len)
    }
}

impl Kept {
    /// The head of the piece from byte `sent` on.
    fn head(&self, context: u16, seq: u32, sent: usize) -> Head {
        let kind = match (sent, self.prefix()) {
            (0, 0) => kind::EAGER,
            (0, _) => kind::FIRST,
            _ => return Head { kind: kind::MORE, ..Head::default() },
        };
        Head { kind, context: self.word(context), seq, tag: self.tag }
    }
}

/// What is logged cannot be had: nobody who needs it can go on. This process ends, and is started again.
#[cold]
pub(super) fn lost(error: &Error) -> ! {
    crate::explain::say(&format!("a message of the log cannot be sent again: {error}"));
    std::process::abort();
}

/// Whether a message is announced and not sent: the peer has asked for that, or it is longer than what
/// a peer takes before it has been matched.
#[inline]
fn is_announced(announce_all: bool, len: usize, inline: usize) -> bool {
    (announce_all && len > inline) || len > EAGER_LOGGED
}

fn send_range(
    line: &mut impl Fabric,
    rank: Rank,
    head: Head,
    range: LogRange,
) -> Result<Sent, Refused> {
    let source = if range.len == 0 { Source::Bytes(&[]) } else { Source::Log(range) };
    line.send(PeerId(rank), head, source)
}

/// Bytes gathered from several places, taken piece by piece.
pub(super) struct Gather<'a> {
    pub(super) parts: &'a [&'a [u8]],
    /// Bytes taken of the first part.
    pub(super) at: usize,
}

impl Gather<'_> {
    /// Shows the next `len` bytes.
    pub(super) fn write(&mut self, len: usize, mut f: impl FnMut(&[u8])) {
        let mut left = len;
        while left > 0 {
            let part = &self.parts[0][self.at..];
            let now = part.len().min(left);
            f(&part[..now]);
            left -= now;
            self.at += now;
            if self.at == self.parts[0].len() {
                (self.parts, self.at) = (&self.parts[1..], 0);
            }
        }
    }
}
