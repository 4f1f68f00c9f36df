//! Sending: a message to another set is logged first, and sent from the log.

use super::decisions::Logged;
use super::host::Host;
use super::leaving::LoggedSend;
use super::nondeterminism::CoreParts;
use super::{LogEntry, Logging};
use crate::Engine;
use crate::core::Core;
use crate::frame::{Frame, MsgHead};
use crate::peer::{Peer, Queued, Waiting};
use crate::policy::protocol::Sends;
use crate::policy::tx::{TxPolicy, send_numbered};
use crate::policy::{Policy, Route};
use crate::send::source_of;
use crate::tx::{Tx, transmit};
use crate::{Dest, Error, NotNow, Rank};
use crate::{EAGER_LOGGED, LONG_LOGGED};
use taffrail_fabric::{Fabric, PeerId, SendMemory, Source};
use taffrail_logging::{Entry, Next, Numbers, Sending, Ticket, mutant};

impl<H: Host> Logging<H> {
    /// A message is about to be sent.
    #[inline(always)]
    pub(super) fn before_send(&mut self, peers: &mut [Peer]) {
        if self.recorder.has_polled() {
            self.write_polls(peers);
        }
    }

    #[inline(never)]
    fn write_polls(&mut self, peers: &mut [Peer]) {
        if let Some(event) = self.recorder.before_send() {
            self.write(peers, event);
        }
    }
}

/// Whether a message leaves now. A synchronous one needs an ACK, also from a receiver that has it.
#[inline(always)]
pub(super) fn leaves(sending: Sending, is_sync: bool) -> bool {
    match sending {
        Sending::Transmit => true,
        Sending::Suppress if mutant!(SynchronousSuppressed) => false,
        Sending::Suppress => is_sync || mutant!(DuplicatesDelivered),
        Sending::Hold => mutant!(HeldIsSent),
    }
}

impl<P: Logged> Sends<P> for Logging<P::Host> {
    /// Empty polls since the last event are recorded before.
    #[inline(always)]
    fn begin_send<F: Fabric + SendMemory>(engine: &mut Engine<F, P>, to: Rank) -> Route {
        let CoreParts { log, peers, .. } = engine.core.parts();
        if !mutant!(NothingNotLogged) {
            log.before_send(peers);
        }
        let route = log.route(to);
        if route != Route::Kept && log.is_causal() {
            engine.precede_message(to);
        }
        route
    }

    #[inline(never)]
    fn keep<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        to: &Dest,
        source: Source<'_>,
        len: usize,
    ) -> Result<(), NotNow> {
        let Engine { fabric, core, .. } = engine;
        if core.log().departs_freely && core.send_short(fabric, to, source, len) {
            return Ok(());
        }
        engine.send_out_of_log(to, source, len)
    }

    fn keep_whole<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        to: &Dest,
        source: Source<'_>,
        len: usize,
        sync: Option<u64>,
    ) -> Result<(), NotNow> {
        engine.keep_and_send(to, source, len, sync)
    }

    fn kept_rts(
        core: &mut Core<P>,
        to: Rank,
        kept: LoggedSend,
        forced: bool,
        inline: usize,
    ) -> Option<(u32, MsgHead)> {
        core.logged_rts(to, kept, forced, inline)
    }

    fn precede_frame<F: Fabric + SendMemory>(tx: &mut Tx<'_, F, P>, to: Rank) {
        tx.send_determinants(to);
    }
}

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    #[inline(never)]
    fn send_out_of_log(&mut self, to: &Dest, source: Source<'_>, len: usize) -> Result<(), NotNow> {
        if self.send_short_behind(to, source, len) {
            return Ok(());
        }
        self.keep_and_send(to, source, len, None)?;
        Ok(self.poll_if_due(to, len)?)
    }

    /// Logs a message, and sends it, or leaves that for later. `sync` names the request of a
    /// synchronous one.
    ///
    /// A message that does not fit into the memory of the log is logged through the file before its number is
    /// given and any of it leaves, so that nothing has happened if the disk is full.
    ///
    /// # Errors
    /// [`NotNow::Waits`] until the disk has taken others, and [`Error::Memory`] when there is no room in the log.
    pub(super) fn keep_and_send(
        &mut self,
        to: &Dest,
        source: Source<'_>,
        len: usize,
        sync: Option<u64>,
    ) -> Result<(), NotNow> {
        let one;
        let parts = match source {
            Source::Parts(parts) => parts,
            Source::Bytes(whole) => {
                one = [whole];
                &one[..]
            }
            _ => return Ok(()),
        };
        let Engine { fabric, core, .. } = self;
        let log = core.policy.logging();
        let peer = &core.peers[to.rank as usize];
        let (inline, fragment) = (peer.inline(), peer.fragment());
        let Some(context) = core.immediate.word(to.context, to.data) else {
            return Err(Error::NotLogged {
                what: "a message with so large a number beside its payload",
                remedy: "below an MPI this is the sender's rank, of which there are 16383 at the most",
            }
            .into());
        };
        if log.fills_page(to.rank) {
            log.write_page(fabric, to.rank)?;
        }
        let in_memory = log.payload_log.fits_at_once(len);
        let fragments = len > fragment || !in_memory;
        let mut kept = LogEntry::new(to.tag, len, fragments, sync.is_some(), context ^ to.context);
        if in_memory {
            if !(peer.copies_sends() && mutant!(WrittenWithoutRoom)) {
                log.payload_log.prepare(fabric, len, fragment)?;
            }
        } else {
            log.write_long(fabric, to.rank, &mut kept, parts)?;
        }
        let (seq, sending) = log.outbound.number(&mut core.numbers, to.rank, to.context);
        let leaves = leaves(sending, sync.is_some());
        if leaves && log.is_causal() && !mutant!(DeterminantsBehind) {
            self.precede_message(to.rank);
        }
        let Engine { fabric, core, sizes, .. } = self;
        let log = core.policy.logging();
        let peer = &core.peers[to.rank as usize];
        let escapes = mutant!(RtsUngated) && needs_rts(peer.forces_rendezvous(), len, inline);
        let ticket = if escapes { Ticket::default() } else { log.events.ticket() };
        let at_once = leaves
            && sync.is_none()
            && ticket.is_free()
            && peer.is_clear()
            && !needs_rts(peer.forces_rendezvous(), len, inline);
        let mut leaving = LoggedSend { context: to.context, seq, kept, sent: 0, again: false };
        let mut is_sent = false;
        if in_memory && len <= inline {
            leaving.kept.at = log.payload_log.begin_short(len);
            for part in parts {
                log.payload_log.write(fabric, part);
            }
            let frame = leaving.kept.frame(to.context, seq, 0);
            is_sent = at_once && transmit(fabric, to.rank, &frame, source_of(parts)).is_ok();
        } else if in_memory && at_once && peer.copies_sends() {
            let step = peer.rndv_fragment();
            is_sent = log.send_and_write(fabric, to.rank, &mut leaving, parts, step);
        } else if in_memory {
            // Of a long message the receiver has enough to copy while the next fragment is written.
            let step = if len > LONG_LOGGED { sizes.logged_fragment } else { fragment };
            is_sent = log.write_and_send(fabric, to.rank, &mut leaving, parts, (step, at_once));
        }
        self.is_logged(to.rank, leaving, sync, (leaves && !is_sent).then_some(ticket));
        Ok(())
    }

    /// A message is in the log. With a ticket it is to leave, or the rest of it.
    #[inline]
    pub(super) fn is_logged(
        &mut self,
        to: Rank,
        leaving: LoggedSend,
        sync: Option<u64>,
        ticket: Option<Ticket>,
    ) {
        let CoreParts { log, requests, .. } = self.core.parts();
        let LoggedSend { context, seq, kept, .. } = leaving;
        log.outbound.keep(to, Entry { context, seq, payload: kept });
        let is_held = !log.outbound.is_ready(to);
        if let Some(send) = sync {
            log.note_sync(requests, (to, context, seq), send);
        }
        if is_held && !mutant!(HeldCallsNobody) {
            // Perhaps they have not spoken with each other yet.
            self.fabric.connect(PeerId(to));
        }
        if let Some(ticket) = ticket {
            let frame = Queued::Logged(leaving);
            self.tx().enqueue(to, Waiting { ticket, weight: 0, frame });
        }
        if mutant!(DeterminantsBehind) {
            self.precede_message(to);
        }
    }
}

impl<H: Host> TxPolicy for Logging<H> {
    #[inline(always)]
    fn next<'a>(
        &'a mut self,
        numbers: &'a mut Numbers,
        to: Rank,
        context: u16,
    ) -> Option<Next<'a>> {
        self.outbound.transmits_all(to).then(|| numbers.next(to, context))
    }

    #[inline(always)]
    fn keep_sent(
        &mut self,
        memory: &mut impl SendMemory,
        to: &Dest,
        msg: MsgHead,
        source: Source<'_>,
    ) {
        let Source::Bytes(data) = source else { return };
        let mut kept = LogEntry::new(to.tag, data.len(), false, false, msg.context ^ to.context);
        kept.at = self.payload_log.write_short(memory, data);
        self.outbound.keep(to.rank, Entry { context: to.context, seq: msg.seq, payload: kept });
        if self.fills_page(to.rank) {
            // If there is no room, the next message says so.
            let _ = self.write_page(memory, to.rank);
        }
    }
}

impl<P: Logged> Core<P> {
    /// Sends a short message at once, and logs it while it is on its way (*logged-before-visible*: that
    /// there is room for it is made sure before, and the log ends with its process). `false` when
    /// something stands in its way.
    #[inline(always)]
    pub(super) fn send_short(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: &Dest,
        source: Source<'_>,
        len: usize,
    ) -> bool {
        let Core { policy, peers, numbers, immediate, .. } = self;
        let log = policy.logging();
        let inline = peers[to.rank as usize].inline();
        let eager = |msg| Frame::Eager { msg };
        matches!(source, Source::Bytes(_))
            && !log.fills_page(to.rank)
            && log.payload_log.has_room(len)
            && peers[to.rank as usize].is_clear_for(len, inline, inline)
            && matches!(
                send_numbered(fabric, log, numbers, *immediate, to, eager, source),
                Ok(Some(_))
            )
    }
}

/// Whether a message is announced and not sent: the peer has asked for that, or it is longer than what
/// a peer takes before it has been matched.
#[inline]
pub(super) fn needs_rts(forced: bool, len: usize, inline: usize) -> bool {
    (forced && len > inline) || len > EAGER_LOGGED
}
