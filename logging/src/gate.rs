//! The gate of a correlated set: nothing leaves it that depends on an event which may be lost.
//!
//! Messages inside the set are not held back: everything of the set falls back together. So whatever
//! leaves the set may depend on the events of every member, through any chain of messages inside it.
//! It waits for all events that the members had written when it was sent, which are at least those it
//! depends on: an event is written before the message that follows it leaves the member, and a member
//! reads how much the others have written after that message has reached it.

use crate::mutant;

/// What a message waits for: how much each member had written when it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The clocks of the members that were not stable then, by their place in the set.
    waits: Vec<(usize, u64)>,
}

impl Ticket {
    /// Whether it waits for nothing.
    pub fn is_free(&self) -> bool {
        self.waits.is_empty()
    }
}

/// What is written and what is stable of each member of a set.
#[derive(Clone, Debug)]
pub struct Gate {
    members: Vec<Member>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    written: u64,
    stable: u64,
}

impl Gate {
    /// For a set of `members` ranks.
    pub fn new(members: usize) -> Self {
        Gate { members: vec![Member::default(); members] }
    }

    /// A member has written its events up to this clock.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn written(&mut self, member: usize, clock: u64) {
        let known = &mut self.members[member].written;
        *known = clock.max(*known);
    }

    /// The events of a member up to this clock survive what they are to survive.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn stable(&mut self, member: usize, clock: u64) {
        let member = &mut self.members[member];
        member.stable = clock.max(member.stable);
        // A report that events are stable reports that they are written.
        member.written = member.written.max(member.stable);
    }

    /// What a message that is sent now has to wait for.
    pub fn ticket(&self) -> Ticket {
        let waits = self.members.iter().enumerate().filter(|(_, m)| m.stable < m.written);
        Ticket { waits: waits.map(|(k, m)| (k, m.written)).collect() }
    }

    /// Whether everything that a message waits for is stable (*stable-before-escape*).
    pub fn is_open(&self, ticket: &Ticket) -> bool {
        let early = u64::from(mutant!(GateOpensEarly));
        ticket.waits.iter().all(|&(member, clock)| self.members[member].stable + early >= clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_waits_for_what_was_written_before_it_and_for_nothing_later() {
        let mut gate = Gate::new(3);
        assert!(gate.ticket().is_free());
        gate.written(0, 5);
        gate.written(2, 7);
        gate.stable(2, 6);
        let ticket = gate.ticket();
        assert!(!ticket.is_free() && !gate.is_open(&ticket));
        gate.written(1, 9);
        gate.stable(0, 5);
        assert!(!gate.is_open(&ticket), "member 2 has one event that is not stable");
        gate.stable(2, 7);
        assert!(gate.is_open(&ticket), "what member 1 wrote later does not matter");
        assert!(!gate.is_open(&gate.ticket()));
    }

    #[test]
    fn news_that_come_late_change_nothing() {
        let mut gate = Gate::new(1);
        gate.stable(0, 4);
        gate.written(0, 3);
        gate.stable(0, 2);
        assert!(gate.ticket().is_free());
    }
}
