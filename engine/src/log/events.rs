//! The events of this rank: which are written, and which are stable.

use super::host::{EventSink, FellowEvents};
use crate::Rank;
use taffrail_logging::causal::Counters;
use taffrail_logging::{Gate, LoggedEvent, Ticket, mutant};

/// The events of the set, and its gate.
#[repr(C)]
pub(crate) struct Events<S> {
    // First, and its beginning first of all: each event needs it.
    sink: S,
    me: Rank,
    /// Where messages wait until what is written is stable, and it is not at once. This rank is its first member, and
    /// the others follow in the order of [`EventSink::fellows`].
    gate: Option<Gate>,
}

impl<S: EventSink> Events<S> {
    pub(crate) fn new(sink: S, me: Rank, gated: bool) -> Self {
        let gate = gated.then(|| Gate::new(1 + sink.fellows().len()));
        Events { sink, me, gate }
    }

    /// Where events go.
    #[cfg(test)]
    pub(crate) fn sink(&self) -> &S {
        &self.sink
    }

    /// Whether anything may have to wait for its events.
    pub(crate) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Writes an event. Waits while the event logger is behind.
    #[inline(always)]
    pub(crate) fn write(&mut self, event: LoggedEvent) {
        if let Ok(clock) = self.sink.push(&event.event) {
            debug_assert_eq!(clock, event.clock);
            return;
        }
        self.write_slowly(event);
    }

    /// Gets ready for the event that is expected next, after so many polls, with these flags.
    #[inline]
    pub(crate) fn prepare(&mut self, polls: u32, flags: u8) {
        self.sink.prepare(polls, flags);
    }

    #[cold]
    fn write_slowly(&mut self, event: LoggedEvent) {
        while self.sink.push(&event.event).is_err() {
            self.sink.wait_for_room();
        }
    }

    /// Says that this rank is done with all others, at these incarnations, which are added up.
    pub(crate) fn leave(&mut self, incarnations: u64) {
        self.sink.leave(incarnations);
    }

    /// Tells what was sent with the messages of this rank.
    pub(crate) fn tell(&mut self, sent: &Counters) {
        self.sink.tell(sent);
    }

    /// The clock of the last event.
    pub(crate) fn written(&self) -> u64 {
        self.sink.written()
    }

    /// The clock of the last event that is stable.
    pub(crate) fn stable(&self) -> u64 {
        self.sink.stable()
    }

    /// Whether all that this rank has written is stable.
    pub(crate) fn are_all_stable(&self) -> bool {
        self.gate.is_none() || self.stable() >= self.written()
    }

    /// What a message that is sent now has to wait for.
    #[inline]
    pub(crate) fn ticket(&mut self) -> Ticket {
        match self.gate {
            None => Ticket::default(),
            Some(_) => self.look(),
        }
    }

    #[inline(never)]
    fn look(&mut self) -> Ticket {
        if !mutant!(TicketOutdated) {
            self.refresh();
        }
        self.gate.as_ref().map_or_else(Ticket::default, Gate::ticket)
    }

    /// Whether a message may leave (*stable-before-escape*).
    pub(crate) fn is_open(&mut self, ticket: &Ticket) -> bool {
        if ticket.is_free() || mutant!(GateIgnored) {
            return true;
        }
        self.refresh();
        self.gate.as_ref().is_none_or(|gate| gate.is_open(ticket))
    }

    fn refresh(&mut self) {
        let Events { sink, gate: Some(gate), .. } = self else { return };
        gate.written(0, sink.written());
        gate.stable(0, sink.stable());
        if mutant!(GateOfOwnEvents) {
            return;
        }
        for (member, same_set) in (1..).zip(sink.fellows()) {
            gate.written(member, same_set.written());
            gate.stable(member, same_set.stable());
        }
    }

    /// Up to which clock the event logger has the events of each member of the set, whatever they are
    /// to survive. This rank is the first.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (Rank, u64)> {
        let fellows = self.sink.fellows().iter();
        let fellows = fellows.map(|same_set| (same_set.rank(), same_set.acknowledged()));
        std::iter::once((self.me, self.sink.acknowledged())).chain(fellows)
    }

    /// No rank has more events than this that the event logger does not have.
    pub(crate) fn capacity(&self) -> u64 {
        self.sink.capacity()
    }
}
