//! Progress: poll the fabric, do what follows, send what waits.

use super::Engine;
use super::core::Deferred;
use super::peer::Stream;
use super::request::Stage;
use super::sink::Rx;
use crate::policy::protocol::{Checkpoints, Recovery, Replays};
use crate::policy::rx::RxPolicy;
use crate::policy::{Policy, by_policy};
use std::time::Duration;
use taffrail_fabric::{Fabric, Fault, PeerId, SendMemory};
use taffrail_logging::mutant;

/// Turns between two looks at the clock.
const LOOK_EVERY: u32 = 64;
/// Time between two looks at whether the peers are alive.
const CHECK_EVERY: Duration = Duration::from_millis(2);

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// One turn. Returns how many things happened.
    ///
    /// What arrives is compiled into one function for each of the policies that there may be.
    #[inline(always)]
    pub fn progress(&mut self) -> usize {
        by_policy!(self.core.policy, self.progress_by())
    }

    #[inline(never)]
    fn progress_by<R: RxPolicy<P>>(&mut self) -> usize {
        if !R::takes_in(&mut self.core, self.turns) {
            return self.after_poll(0);
        }
        if self.fabric.polls_apart() {
            return self.progress_apart::<R>();
        }
        let events = self.fabric.poll(&mut Rx::<P, R, false>::new(&mut self.core));
        R::taken_in(&mut self.core, events);
        self.after_poll(events)
    }

    #[cold]
    #[inline(never)]
    fn progress_apart<R: RxPolicy<P>>(&mut self) -> usize {
        let events = self.fabric.poll_apart(&mut Rx::<P, R, false>::new(&mut self.core));
        R::taken_in(&mut self.core, events);
        self.after_poll(events)
    }

    /// Does what follows from what has arrived.
    #[inline(always)]
    pub(crate) fn after_poll(&mut self, mut events: usize) -> usize {
        if F::LEASES {
            self.core.unexpected.returns().for_each(|lease| self.fabric.return_lease(lease));
        }
        if !self.core.deferred.is_empty() {
            self.run_deferred();
        }
        if self.tx.has_backlog() {
            events += self.tx().flush();
        }
        // What comes back to peers can wait until there is time.
        if self.lending.has_returns() && (events == 0 || self.turns.is_multiple_of(LOOK_EVERY)) {
            self.drain_returns();
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(LOOK_EVERY) {
            events += self.check_in_time();
        }
        self.happened = self.happened.wrapping_add(events as u64);
        events
    }

    /// Looks after the peers now and then, however busy others keep this rank.
    #[cold]
    #[inline(never)]
    fn check_in_time(&mut self) -> usize {
        if self.core.clock.now() - self.checked < CHECK_EVERY { 0 } else { self.check() }
    }

    /// Looks whether the peers are alive, and whatever else takes a system call.
    #[cold]
    pub fn check(&mut self) -> usize {
        self.checked = self.core.clock.now();
        let events = by_policy!(self.core.policy, self.check_by());
        self.poll_membership();
        self.run_deferred();
        self.report_departure();
        self.reclaim_loans();
        events
    }

    fn check_by<R: RxPolicy<P>>(&mut self) -> usize {
        self.fabric.check(&mut Rx::<P, R, false>::new(&mut self.core))
    }

    /// Does what the last poll has left to do.
    #[inline(never)]
    pub(crate) fn run_deferred(&mut self) {
        while let Some(action) = self.core.deferred.pop() {
            match action {
                Deferred::Answer { to, frame } => self.tx().post_frame(to, frame, &[]),
                Deferred::Fetch { request, from, rts } => {
                    self.tx().start_rendezvous(request, from, rts);
                }
                Deferred::Stream { request, want, to, non_temporal } => {
                    let slot = self.core.requests.get(request);
                    let peer = slot.peer;
                    let waits = slot.is_lent() && !mutant!(FormerFragmentBelieved);
                    if slot.stage != Stage::Streaming {
                        // The peer has failed meanwhile.
                    } else if waits {
                        // Fragments of a former link end first; their results do not count for the new link.
                        self.core.deferred.retry(action);
                    } else {
                        let stream = Stream { request, want, to, non_temporal };
                        self.tx().start_stream(peer, stream);
                    }
                }
                Deferred::Borrow { request, from, offer } => self.tx().borrow(request, from, offer),
                Deferred::Read { token, result } => self.tx().rendezvous_done(token, result),
                Deferred::OneSided { from, frame, body } => {
                    self.serving().serve(from, frame, &body)
                }
                Deferred::Returned { loan, from } => self.lending.returned(loan, from),
                Deferred::Failed { rank } => self.after_peer_failed(rank),
                Deferred::Connected { rank } => {
                    by_policy!(self.core.policy, reconnected(self, rank));
                }
                Deferred::Resumed { rank } => self.tx.mark_backlog(rank),
                Deferred::Advance { request } => {
                    by_policy!(self.core.policy, continue_multi(self, request));
                }
                Deferred::Collect { rank } => {
                    by_policy!(self.core.policy, collect_more(self, rank));
                }
                Deferred::Announce => by_policy!(self.core.policy, announce(self)),
                Deferred::PeerState { from, restart } => {
                    by_policy!(self.core.policy, peer_state_received(self, from, restart));
                }
            }
        }
        // What there was no room for is for the next turn.
        self.core.deferred.end_turn();
    }

    /// Ends what the core could not end by itself when `rank` failed.
    fn after_peer_failed(&mut self, rank: u32) {
        self.tx.forget(rank);
        // A failure found above the fabric has to be reported to the fabric.
        let fault = self.core.peers[rank as usize].fault().cloned();
        if let Some(fault) = fault {
            self.fabric.disconnect(PeerId(rank), fault);
        }
        // A process that has ended reads nothing any more, once the fabric says so. One that has only closed its
        // endpoint may keep its views, and what it has not returned is reclaimed when it drops them.
        self.reclaim_loans();
        for request in self.core.requests.detached_of(rank) {
            let _ = self.core.requests.finish(request);
        }
        if self.core.policy.ends_any_source_at_once() {
            self.end_of_any_source();
        }
        self.core.departures.gone(rank);
        self.report_departure();
    }

    /// Ends the receives from any source if nobody is left to send anything.
    pub fn end_of_any_source(&mut self) {
        let Some(rank) = self.core.last_finished.filter(|_| !self.core.accepts_new_peers) else {
            return;
        };
        let ends_early = || {
            mutant!(AnySourceEndsEarly)
                && self.core.peers[rank as usize].fault() == Some(&Fault::Died)
        };
        if self.core.all_finished(self.rank()) || ends_early() {
            for request in self.core.requests.any_source_receives() {
                self.core.cancel_post(request);
                let error = self.core.finished_error(rank);
                self.core.fail(request, error);
            }
        }
    }
}
