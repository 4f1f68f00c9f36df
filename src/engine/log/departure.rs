//! What leaves: logged first, if it goes to another set, and sent from the log.

use super::{Kept, Log};
use crate::engine::core::Core;
use crate::engine::immediate::Immediate;
use crate::engine::peer::{Peer, Queued, Waiting};
use crate::engine::request::{Requests, Stage};
use crate::engine::send::source_of;
use crate::engine::tx_policy::{TxPolicy, send_numbered};
use crate::engine::{EAGER_LOGGED, LONG_LOGGED, kind};
use crate::{Dest, Endpoint, Error, Rank};
use taffrail_fabric::{Fabric, Head, LogRange, PeerId, Refused, SendMemory, Sent, Source};
use taffrail_logging::{Entry, Next, Received, Sending, Ticket};

/// A message that is sent again and longer than this is announced: probably its receive is still to be
/// posted, and it would be copied twice.
const EAGER_AGAIN: usize = 256 << 10;

/// A message of the log that waits for room, or at the gate.
#[derive(Clone, Copy)]
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

    /// Whether all of it has left.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent >= self.kept.bytes()
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
    pub(crate) fn is_inter_set(&mut self, to: Rank) -> bool {
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

    /// Sends a message to a rank of another set, at once or out of the log.
    #[inline(never)]
    pub(crate) fn send_logged(
        &mut self,
        to: &Dest,
        source: Source<'_>,
        len: usize,
    ) -> Result<(), Error> {
        if self.send_short(to, source, len) {
            return Ok(());
        }
        self.send_out_of_log(to, source, len)
    }

    #[inline(never)]
    fn send_out_of_log(&mut self, to: &Dest, source: Source<'_>, len: usize) -> Result<(), Error> {
        if self.send_short_behind(to, source, len) {
            return Ok(());
        }
        self.keep_and_send(to, source, len, None)?;
        self.poll_if_due(to, len)
    }

    /// Sends a short message at once, and logs it while it is on its way (*logged-before-visible*: that
    /// there is room for it is made sure before, and the log ends with its process). `false` when
    /// something stands in its way.
    #[inline(always)]
    pub(super) fn send_short(&mut self, to: &Dest, source: Source<'_>, len: usize) -> bool {
        let Endpoint { line, core, .. } = self;
        let Some(log) = &mut core.log else { return false };
        log.departs_freely
            && log.send_short(line, core.immediate, &core.peers[to.rank as usize], to, source, len)
    }

    /// Logs a message, and sends it, or leaves that for later. `sync` names the request of a
    /// synchronous one.
    ///
    /// A message that does not fit into the memory of the log is logged through the file before its number is
    /// given and any of it leaves, so that nothing has happened if the disk is full.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room in the log.
    pub(crate) fn keep_and_send(
        &mut self,
        to: &Dest,
        source: Source<'_>,
        len: usize,
        sync: Option<u64>,
    ) -> Result<(), Error> {
        let one;
        let parts = match source {
            Source::Parts(parts) => parts,
            Source::Bytes(whole) => {
                one = [whole];
                &one[..]
            }
            _ => return Ok(()),
        };
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
        let in_memory = log.tape.fits_at_once(len);
        let pieces = len > *piece || !in_memory;
        let mut kept = Kept::new(to.tag, len, pieces, sync.is_some(), context ^ to.context);
        if in_memory {
            log.tape.prepare(line, len, *piece)?;
        } else {
            log.write_long(line, to.rank, &mut kept, parts)?;
        }
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
            && ticket.is_free()
            && !peer.has_backlog()
            && !is_announced(peer.forces_rendezvous(), len, inline);
        let mut leaving = Leaving { context: to.context, seq, kept, sent: 0, again: false };
        let mut is_sent = false;
        if in_memory && len <= inline {
            leaving.kept.at = log.tape.begin_short(len);
            for part in parts {
                log.tape.write(line, part);
            }
            let head = leaving.kept.head(to.context, seq, 0);
            is_sent = at_once && line.send(PeerId(to.rank), head, source_of(parts)).is_ok();
        } else if in_memory {
            // Of a long message the receiver has enough to copy while the next piece is written.
            let step = if len > LONG_LOGGED { *logged_piece } else { *piece };
            is_sent =
                log.write_and_send(line, to.rank, &mut leaving, parts, (*piece, step, at_once));
        }
        self.is_logged(to.rank, leaving, sync, (leaves && !is_sent).then_some(ticket));
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
            self.enqueue(to, Waiting { ticket, weight: 0, frame });
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
        for frame in frames {
            self.core.peers[rank as usize].push(Waiting {
                ticket: ticket.clone(),
                weight: 0,
                frame,
            });
        }
        self.mark_backlog(rank);
        self.flush_peer(rank);
    }
}

impl Core {
    /// The RTS of a message of the log that is at the front of a peer's queue, if that is the way: the peer has
    /// asked for it, or the send waits for it. The request that it is of, and its head.
    pub(crate) fn logged_rts(
        &mut self,
        rank: Rank,
        leaving: Leaving,
        forced: bool,
        inline: usize,
    ) -> Option<(u32, Head)> {
        let Leaving { context, seq, kept, sent: 0, again } = leaving else { return None };
        let log = self.log.as_ref()?;
        let waits = log.waiting_send(&self.requests, (rank, context, seq), &kept);
        let len = kept.len();
        let is_sent = match waits {
            None => !(is_announced(forced, len, inline) || again && len > EAGER_AGAIN),
            Some(_) => len + 8 <= inline,
        };
        let request = match waits {
            _ if is_sent => return None,
            Some(send) => send as u32,
            None => self.detached(rank, &kept),
        };
        Some((request, kept.head(context, seq, 0)))
    }

    /// A send of nobody, of a message in the log.
    fn detached(&mut self, rank: Rank, kept: &Kept) -> u32 {
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

impl TxPolicy for Log {
    #[inline(always)]
    fn next(&mut self, to: Rank, context: u16) -> Option<Next<'_>> {
        self.outbound.next(to, context)
    }

    #[inline(always)]
    fn keep_sent(
        &mut self,
        memory: &mut impl SendMemory,
        to: &Dest,
        head: Head,
        source: Source<'_>,
    ) {
        let Source::Bytes(data) = source else { return };
        let mut kept = Kept::new(to.tag, data.len(), false, false, head.context ^ to.context);
        kept.at = self.tape.write_short(memory, data);
        let Head { seq, .. } = head;
        self.outbound.keep(to.rank, Entry { context: to.context, seq, payload: kept });
        if self.fills_page(to.rank) {
            // If there is no room, the next message says so.
            let _ = self.write_page(memory, to.rank);
        }
    }
}

impl Log {
    /// Sends a short message at once, if nothing stands in its way but what must go before it.
    #[inline(always)]
    pub(super) fn send_short(
        &mut self,
        line: &mut (impl Fabric + SendMemory),
        immediate: Immediate,
        peer: &Peer,
        to: &Dest,
        source: Source<'_>,
        len: usize,
    ) -> bool {
        let inline = line.limits(PeerId(to.rank)).inline;
        matches!(source, Source::Bytes(_))
            && !self.fills_page(to.rank)
            && self.tape.has_room(len)
            && peer.is_clear_for(len, inline, inline)
            && matches!(send_numbered(line, self, immediate, to, kind::EAGER, source), Ok(Some(_)))
    }

    /// Writes a message of several pieces, or one that is longer than a slot, into the log, and sends each piece
    /// when it is there, `at_once`, as far as there is room. Whether all of it has left.
    fn write_and_send(
        &mut self,
        line: &mut (impl Fabric + SendMemory),
        to: Rank,
        leaving: &mut Leaving,
        parts: &[&[u8]],
        (piece, step, at_once): (usize, usize, bool),
    ) -> bool {
        let Leaving { context, seq, kept, sent, .. } = leaving;
        let skew = taffrail_fabric::skew(parts, kept.len());
        kept.at = match kept.len() > piece {
            false => self.tape.begin_whole(kept.len(), skew),
            true => self.tape.begin_pieces(line, kept.len(), skew),
        };
        let mut goes_on = at_once;
        let mut written = kept.prefix();
        let mut source = Gather { parts, at: 0 };
        while written < kept.bytes() {
            let now = (kept.bytes() - written).min(step).min(self.tape.room());
            source.write(now, |bytes| _ = self.tape.write(line, bytes));
            written += now;
            while goes_on && *sent < written {
                let range = self.tape.range(kept.at + *sent as u64, written - *sent, usize::MAX);
                let head = kept.head(*context, *seq, *sent);
                goes_on = send_range(line, to, head, range).is_ok();
                *sent += if goes_on { range.len } else { 0 };
            }
        }
        goes_on
    }

    /// Sends more of a message of the log. Its receiver may have to be asked to say when it is matched.
    pub(crate) fn send_more(
        &mut self,
        line: &mut (impl Fabric + SendMemory),
        requests: &Requests,
        rank: Rank,
        leaving: &mut Leaving,
        piece: usize,
    ) -> Result<Sent, Refused> {
        let Leaving { context, seq, kept, sent, .. } = *leaving;
        let waits = self.waiting_send(requests, (rank, context, seq), &kept);
        let back = self.tape.bring_back(line, kept.at + sent as u64);
        back.unwrap_or_else(|error| lost(&error));
        if let Some(send) = waits {
            // Of those that are short enough the bytes go along; the others are announced instead.
            let range = self.tape.range(kept.at, kept.len(), kept.len());
            let head = Head { kind: kind::EAGER_SYNC, ..kept.head(context, seq, 0) };
            let body = [&send.to_le_bytes()[..], line.read(range.segment, range.at, kept.len())];
            let body = body.concat();
            let result = line.send(PeerId(rank), head, Source::Bytes(&body));
            leaving.sent = if result.is_ok() { kept.bytes() } else { sent };
            return result;
        }
        let left = kept.bytes() - sent;
        let range = self.tape.range(kept.at + sent as u64, left, piece + kept.prefix());
        let result = send_range(line, rank, kept.head(context, seq, sent), range);
        leaving.sent += if result.is_ok() { range.len } else { 0 };
        result
    }

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
fn is_announced(forced: bool, len: usize, inline: usize) -> bool {
    (forced && len > inline) || len > EAGER_LOGGED
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
