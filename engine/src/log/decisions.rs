//! What a logged job decides ([`Policy`]), and how the functions of this directory get at the log.

use super::Logging;
use super::host::Host;
use super::leaving::LoggedSend;
use crate::frame::Frame;
use crate::peer::{Destination, Peer};
use crate::policy::{OnLoss, Policy, Route};
use crate::recv_record::{BY_CHANCE, MULTI, POSTED, RecvRecord};
use crate::request::Requests;
use crate::{EAGER_LOGGED, Error, Pattern, Rank};
use std::task::Poll;
use taffrail_fabric::{Fabric, Fault, Refused, SendMemory, Sent};
use taffrail_logging::causal::Counters;
use taffrail_logging::{MsgId, Ticket};
use taffrail_matching::MessageId;

/// A policy that has a log: where messages are logged, [`log`](super) works on it. The rest of the engine knows of
/// [`Policy`] alone.
pub trait Logged: Policy {
    /// The outside of the log.
    type Host: Host;

    /// The log.
    fn logging(&mut self) -> &mut Logging<Self::Host>;
}

impl<H: Host> Logged for Logging<H> {
    type Host = H;

    #[inline(always)]
    fn logging(&mut self) -> &mut Logging<H> {
        self
    }
}

impl<H: Host> Logged for Option<Box<Logging<H>>> {
    type Host = H;

    #[inline(always)]
    #[expect(clippy::expect_used, reason = "the policy of a job without a log is another")]
    fn logging(&mut self) -> &mut Logging<H> {
        self.as_mut().expect("messages are logged")
    }
}

impl<H: Host> Policy for Logging<H> {
    type First = Logging<H>;
    type Second = Logging<H>;

    #[inline(always)]
    fn is_second(&self) -> bool {
        false
    }

    #[inline]
    fn route(&self, to: Rank) -> Route {
        if self.is_same_set(to) { Route::Direct } else { Route::Kept }
    }

    #[inline(always)]
    fn is_behind(&self) -> bool {
        self.events.is_behind()
    }

    #[inline(always)]
    fn may_find_no_room(&self) -> bool {
        false
    }

    fn ticket(&mut self, peers: &mut [Peer], to: Rank) -> Ticket {
        self.control_ticket(peers, to)
    }

    fn is_open(&mut self, ticket: &Ticket) -> bool {
        self.events.is_open(ticket)
    }

    fn open_page(&mut self, memory: &mut impl SendMemory, peer: &mut Peer) -> Poll<bool> {
        self.replace_page(memory, peer)
    }

    fn send_more(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        requests: &Requests,
        to: Rank,
        leaving: &mut LoggedSend,
        fragment: usize,
    ) -> Option<Result<Sent, Refused>> {
        self.send_entry(fabric, requests, to, leaving, fragment)
    }

    fn send_rndv_data(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: Rank,
        frame: &Frame,
        place: u64,
        most: usize,
    ) -> Option<usize> {
        self.send_place(fabric, to, frame, place, most)
    }

    #[inline]
    fn piggybacks(&self) -> bool {
        self.is_causal()
    }

    /// A peer that has died is restarted; this rank with it, if it is of the same set. What was on a link that is lost is
    /// settled by a restart exchange when there is a link again, which nothing can within a set.
    fn on_loss(&self, peer: Rank, why: &Fault) -> OnLoss {
        match why {
            // Before the fabric has reported garbage, which ends this process, no call ends with it.
            Fault::Died | Fault::Protocol { .. } => OnLoss::Suspend,
            // A restarted peer connects by itself, from another address: that nobody answers at the former one is no verdict.
            Fault::Lost(_) | Fault::Unreachable { .. } if !self.is_same_set(peer) => {
                OnLoss::Suspend
            }
            _ => OnLoss::Fail,
        }
    }

    #[inline(always)]
    fn takes_kind(&self, _: u8) -> bool {
        true
    }

    #[inline]
    fn eager_limit(&self) -> usize {
        EAGER_LOGGED
    }

    /// One that was started again takes little in instead while much is unreceived, and all while it waits
    /// ([`takes_in`](crate::policy::rx::RxPolicy::takes_in)).
    #[inline]
    fn may_stop(&self, peer: Rank) -> bool {
        self.incarnation == 0 && self.inbound.missing(peer).next().is_none()
    }

    #[inline]
    fn is_replaying(&self) -> bool {
        self.replaying
    }

    #[inline]
    fn posted(&mut self, record: &mut RecvRecord, from: &Pattern) -> bool {
        record.post = self.recorder.post();
        let by_chance = from.source.is_none() || self.all_events;
        record.flags = if by_chance { POSTED | BY_CHANCE } else { POSTED };
        self.replaying
    }

    fn posted_multi(&mut self, record: &mut RecvRecord) -> bool {
        record.post = self.recorder.post();
        record.flags = POSTED | BY_CHANCE | MULTI;
        self.replaying
    }

    #[inline(always)]
    fn leaves_unposted(&self, has_handlers: bool) -> bool {
        !self.ends_turns && !has_handlers
    }

    #[inline]
    fn reports_in_order(&self) -> bool {
        true
    }

    fn reserved(&mut self, message: MsgId, id: MessageId) {
        self.reserved.insert(message, id);
    }

    fn partial(&mut self, message: MsgId) -> Option<&mut Destination> {
        self.partial.get_mut(&message)
    }

    fn take_partial(&mut self, message: MsgId) -> Option<Destination> {
        self.partial.remove(&message)
    }

    fn is_whole(&mut self, message: MsgId) {
        self.inbound.is_whole(message);
    }

    #[inline(always)]
    fn tests_are_free(&self) -> bool {
        false
    }

    #[inline(always)]
    fn ends_any_source_at_once(&self) -> bool {
        false
    }

    fn check_repeatable(&self, what: &'static str, remedy: &'static str) -> Result<(), Error> {
        Err(Error::NotLogged { what, remedy })
    }

    /// There is time to prepare the event that ends the wait.
    #[inline]
    fn waits(&mut self, turns: u32) -> bool {
        // The message that is waited for has not come yet, however many others have.
        self.resend_backlog_high = false;
        self.chooses_turns = self.held.is_some();
        if turns == 1 {
            self.prepare_event(0);
        }
        true
    }

    fn prepare(&self, memory: &mut impl SendMemory) {
        self.payload_log.prepare_in_advance(memory);
    }

    fn waits_for_log_memory(&self) -> bool {
        self.payload_log.waits()
    }

    fn abandon_kept(&mut self, memory: &mut impl SendMemory) {
        self.payload_log.abandon_long(memory);
    }

    fn waits_for_receivers(&self) -> bool {
        false
    }

    fn set(&self, rank: Rank) -> Option<u32> {
        Some(self.sets[rank as usize])
    }

    fn waiting(&self) -> Vec<String> {
        self.wait_reasons()
    }

    fn counters(&self) -> Option<Counters> {
        self.causal_counters()
    }

    fn take_restored(&mut self) -> Option<Vec<u8>> {
        self.restored.take()
    }
}
