//! Causal logging (`docs/logging.md`, section 13): what is sent is preceded by the events that it may
//! depend on and that are not known to be stable (*determinant-before-effect*).

use super::Logging;
use super::decisions::Logged;
use super::events::Events;
use super::host::{EventSink, Host, ReplayedEvents};
use super::nondeterminism::CoreParts;
use crate::Engine;
use crate::frame::{Frame, body};
use crate::policy::protocol::unexpected_determinants;
use crate::tx::Tx;
use crate::{Dest, Error, Rank};
use taffrail_fabric::{Fabric, Fault, Payload, SendMemory, Source};
use taffrail_logging::causal::{Counters, DETERMINANT, HeldStore};
use taffrail_logging::{Causal, LoggedEvent, mutant};

/// What a rank knows at its start: its own events before that, as far as they are not stable, and what survivors hold.
pub(crate) fn open<R: ReplayedEvents>(
    me: Rank,
    ranks: u32,
    events: &Events<impl EventSink>,
    replayed: &R,
    held: Option<&dyn HeldStore>,
) -> Result<Causal, Error> {
    let mut causal = Causal::new(me, ranks, events.capacity());
    let stable: Vec<(Rank, u64)> = events.acknowledged().collect();
    for &(rank, clock) in &stable {
        causal.stable(rank, clock);
    }
    replayed.clone().behind(stable[0].1).for_each(|event| causal.restore(&event));
    if let Some(held) = held {
        causal.adopt(&held.all()).map_err(|error| Error::Setup(error.to_string()))?;
    }
    Ok(causal)
}

impl<H: Host> Logging<H> {
    /// Whether what is sent is preceded by determinants.
    #[inline]
    pub fn is_causal(&self) -> bool {
        self.causal.is_some()
    }

    /// An event was written. Apart, so that it is not in memory where logging is not causal.
    #[inline(never)]
    pub(crate) fn wrote(&mut self, event: LoggedEvent) {
        if let Some(causal) = &mut self.causal {
            causal.wrote(&event);
        }
    }

    /// What is known of events, with those that the event logger has by now.
    pub(super) fn refresh_causal(&mut self) -> Option<&mut Causal> {
        let causal = self.causal.as_deref_mut()?;
        for (rank, clock) in self.events.acknowledged() {
            causal.stable(rank, clock);
        }
        Some(causal)
    }

    /// The next determinants that a peer has to be sent now, `most` bytes of them at the most. `false`
    /// when there are none.
    fn determinants_for(&mut self, to: Rank, most: usize, bytes: &mut Vec<u8>) -> bool {
        let Some(causal) = &mut self.causal else { return false };
        if !causal.has_news_for(to) || to == self.me {
            return false;
        }
        let (me, clock) = (self.me, self.recorder.clock());
        let Some(causal) = self.refresh_causal() else { return false };
        let has_some = causal.piggyback(to, most, bytes);
        if mutant!(DeterminantsDroppedEarly) && !causal.has_news_for(to) {
            causal.stable(me, clock);
        }
        has_some
    }

    /// A peer has died, or is there again.
    pub(crate) fn forget_known_determinants(&mut self, peer: Rank) {
        if let Some(causal) = &mut self.causal
            && !mutant!(LostForgotten)
        {
            causal.lost(peer);
        }
    }

    /// All determinants that this rank holds and that are not stable, in causal logging.
    pub fn held(&self) -> Vec<u8> {
        let written = self.events.sink.written();
        self.causal.as_deref().map_or_else(Vec::new, |causal| causal.all_held(written))
    }

    /// Whether this rank knows what the event of a rank with this clock was, or that it is stable.
    pub fn knows(&self, rank: Rank, clock: u64) -> bool {
        self.causal.as_deref().is_some_and(|causal| causal.knows(rank, clock))
    }

    /// What was created and sent, in causal logging.
    pub(super) fn causal_counters(&self) -> Option<Counters> {
        self.causal.as_deref().map(Causal::counters)
    }
}

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    /// A message is about to be sent to a peer, or to be queued for it.
    #[inline(never)]
    pub(super) fn precede_message(&mut self, to: Rank) {
        let log = self.core.log();
        if to != log.me
            && let Some(causal) = &mut log.causal
        {
            causal.count_message();
            self.tx().send_determinants(to);
        }
    }

    /// Sends a short message to a rank of another set at once, behind what must go before it. `false` when
    /// something stands in its way, or nothing must go before messages.
    #[inline(never)]
    pub(super) fn send_short_behind(&mut self, to: &Dest, source: Source<'_>, len: usize) -> bool {
        let CoreParts { log, peers, .. } = self.core.parts();
        let is_held = peers[to.rank as usize].is_held() || !log.outbound.is_ready(to.rank);
        if !log.is_causal() || is_held || mutant!(DeterminantsBehind) {
            return false;
        }
        self.tx().send_determinants(to.rank);
        let Engine { fabric, core, .. } = self;
        let is_sent = core.send_short(fabric, to, source, len);
        if let (true, Some(causal)) = (is_sent, &mut core.log().causal) {
            causal.count_message();
        }
        is_sent
    }
}

impl<F: Fabric + SendMemory, P: Logged> Tx<'_, F, P> {
    /// Sends, or queues, what a peer must know before anything that is sent to it from now on.
    pub(super) fn send_determinants(&mut self, to: Rank) {
        if self.core.peers[to as usize].is_away() {
            // It is sent all of them when it is back, before anything that depends on them.
            return;
        }
        let most = self.sizes.fragment.max(DETERMINANT);
        let mut bytes = std::mem::take(&mut self.core.log().frame);
        while self.core.log().determinants_for(to, most, &mut bytes) {
            self.post_frame(to, Frame::Determinants, &bytes);
        }
        self.core.log().frame = bytes;
    }
}

impl<H: Host> Logging<H> {
    /// Determinants have come.
    ///
    /// # Errors
    /// When no peer that keeps the protocol sends these.
    pub(super) fn receive_determinants(
        &mut self,
        from: Rank,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let Some(causal) = &mut self.causal else { return Err(unexpected_determinants()) };
        let before = causal.learnt();
        let taken = body::read_determinants(causal, from, payload);
        // Before any message behind them is delivered.
        if let Some(held) = &mut self.held
            && causal.learnt() > before
            && !mutant!(HeldNotNoted)
            && let Err(error) =
                held.add(&causal.held_of_others(before), &|| causal.held_of_others(0))
        {
            H::end_process(&format!("what others depend on cannot be noted: {error}"));
        }
        taken
    }
}
