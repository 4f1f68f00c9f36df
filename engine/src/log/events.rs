//! The events of this rank: which are written, and which are stable.
//!
//! **nothing-passes-an-event**: where the event logger is behind and its ring is full, events wait here, in the order of
//! their clocks. As long as any waits no frame leaves, not even within the set, nothing is taken in, and no call whose
//! outcome would be an event is decided. So what the rest of the world has seen of this rank never depends on an event
//! that only its own memory has.

use super::host::{EventSink, MemberEvents};
use crate::Rank;
use std::collections::VecDeque;
use taffrail_logging::causal::Counters;
use taffrail_logging::{Gate, LoggedEvent, Ticket, mutant};

/// The events of the set, and its gate.
#[repr(C)]
pub(crate) struct Events<S> {
    // First, and its beginning first of all: each event needs it.
    pub(super) sink: S,
    /// Whether events wait for room.
    is_behind: bool,
    /// Whether what is written is not stable at once.
    gated: bool,
    me: Rank,
    /// Where messages wait until what is written is stable. This rank is its first member, and the others follow in the
    /// order of [`EventSink::members`].
    gate: Gate,
    /// Events that there was no room for.
    waiting: VecDeque<LoggedEvent>,
}

impl<S: EventSink> Events<S> {
    pub(crate) fn new(sink: S, me: Rank, gated: bool) -> Self {
        let gate = Gate::new(sink.members().len() + 1);
        Events { sink, is_behind: false, gated, me, gate, waiting: VecDeque::new() }
    }

    /// Whether anything may have to wait for its events, and not only for room in the ring.
    pub(crate) fn has_gate(&self) -> bool {
        self.gated
    }

    /// Whether events wait for room in the ring.
    #[inline(always)]
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind && !mutant!(EventPassed)
    }

    /// Writes an event, or lets it wait for room while the event logger is behind: `false`.
    #[inline(always)]
    pub(crate) fn write(&mut self, event: LoggedEvent) -> bool {
        if !self.is_behind
            && let Ok(clock) = self.sink.push(&event.event)
        {
            debug_assert_eq!(clock, event.clock);
            return true;
        }
        self.write_later(event)
    }

    /// Gets ready for the event that is expected next, after `polls` empty polls, with these flags.
    #[inline]
    pub(crate) fn prepare(&mut self, polls: u32, flags: u8) {
        self.sink.prepare(polls, flags);
    }

    #[cold]
    fn write_later(&mut self, event: LoggedEvent) -> bool {
        self.waiting.push_back(event);
        self.is_behind = true;
        false
    }

    /// Writes the events that wait, as far as there is room. Whether none waits any more.
    pub(crate) fn catch_up(&mut self) -> bool {
        while let Some(event) = self.waiting.front()
            && let Ok(clock) = self.sink.push(&event.event)
        {
            debug_assert_eq!(clock, event.clock);
            self.waiting.pop_front();
        }
        self.is_behind = !self.waiting.is_empty();
        !self.is_behind()
    }

    /// Says that this rank is done with all others, at these incarnations, which are added up.
    pub(crate) fn leave(&mut self, incarnations: u64) {
        self.sink.leave(incarnations);
    }

    /// Publishes what was sent with the messages of this rank.
    pub(crate) fn publish(&mut self, sent: &Counters) {
        self.sink.publish(sent);
    }

    /// The clock of the last event, if it waits for room as well.
    pub(crate) fn written(&self) -> u64 {
        self.waiting.back().map_or_else(|| self.sink.written(), |event| event.clock)
    }

    /// The clock of the last event that is stable.
    pub(crate) fn stable(&self) -> u64 {
        self.sink.stable()
    }

    /// Whether all that this rank has written is stable.
    pub(crate) fn are_all_stable(&self) -> bool {
        let all = !self.is_behind && (!self.gated || self.stable() >= self.written());
        if !all {
            self.sink.wake_loggers();
        }
        all
    }

    /// Something waits for the event loggers.
    pub(crate) fn wake_loggers(&self) {
        self.sink.wake_loggers();
    }

    /// What a message that is sent now has to wait for.
    #[inline]
    pub(crate) fn ticket(&mut self) -> Ticket {
        match self.gated {
            false => Ticket::default(),
            true => self.look(),
        }
    }

    #[inline(never)]
    fn look(&mut self) -> Ticket {
        if !mutant!(TicketOutdated) {
            self.refresh();
        }
        self.gate.ticket()
    }

    /// Whether a message may leave (*stable-before-escape*).
    pub(crate) fn is_open(&mut self, ticket: &Ticket) -> bool {
        if ticket.is_free() || mutant!(GateIgnored) {
            return true;
        }
        self.refresh();
        let is_open = self.gate.is_open(ticket);
        if !is_open {
            self.sink.wake_loggers();
        }
        is_open
    }

    fn refresh(&mut self) {
        let written = self.written();
        let Events { sink, gate, .. } = self;
        gate.written(0, written);
        gate.stable(0, sink.stable());
        if mutant!(GateOfOwnEvents) {
            return;
        }
        for (member, same_set) in (1..).zip(sink.members()) {
            gate.written(member, same_set.written());
            gate.stable(member, same_set.stable());
        }
    }

    /// Up to which clock the event logger has the events of each member of the set, whatever they are
    /// to survive. This rank is the first.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (Rank, u64)> {
        let members = self.sink.members().iter();
        let members = members.map(|same_set| (same_set.rank(), same_set.acknowledged()));
        std::iter::once((self.me, self.sink.acknowledged())).chain(members)
    }

    /// No rank has more events than this that the event logger does not have.
    pub(crate) fn capacity(&self) -> u64 {
        self.sink.capacity()
    }
}
