//! The policy of a job that says when it starts whether messages are logged.

use super::Logging;
use super::host::Host;
use super::leaving::LoggedSend;
use crate::frame::Frame;
use crate::peer::{Destination, Peer};
use crate::policy::{NoLogging, OnLoss, Policy, Route};
use crate::recv_record::RecvRecord;
use crate::request::Requests;
use crate::{Error, Pattern, Rank};
use std::task::Poll;
use taffrail_fabric::{Fabric, Fault, Refused, SendMemory, Sent};
use taffrail_logging::causal::Counters;
use taffrail_logging::{MsgId, Next, Numbers, Ticket};
use taffrail_matching::MessageId;

/// Hands decisions on to the policy that there is, or to [`NoLogging`].
macro_rules! hand_on {
    ($( fn $name:ident ($($this:tt)+) $({ $($argument:ident: $type:ty),* })? $(-> $result:ty)?; )*) => {$(
        hand_on!(@ $name ($($this)+) ($($($argument: $type),*)?) ($($result)?));
    )*};
    (@ $name:ident (&self) ($($argument:ident: $type:ty),*) ($($result:ty)?)) => {
        #[inline(always)]
        fn $name(&self, $($argument: $type),*) $(-> $result)? {
            match self {
                None => NoLogging.$name($($argument),*),
                Some(policy) => policy.$name($($argument),*),
            }
        }
    };
    (@ $name:ident (&mut self) ($($argument:ident: $type:ty),*) ($($result:ty)?)) => {
        #[inline(always)]
        fn $name(&mut self, $($argument: $type),*) $(-> $result)? {
            match self {
                None => NoLogging.$name($($argument),*),
                Some(policy) => policy.$name($($argument),*),
            }
        }
    };
}

/// Whether messages are logged is known when a job starts.
impl<H: Host> Policy for Option<Box<Logging<H>>> {
    type First = NoLogging;
    type Second = Logging<H>;

    #[inline(always)]
    fn is_second(&self) -> bool {
        self.is_some()
    }

    #[inline(always)]
    fn number<'a>(&'a mut self, numbers: &'a mut Numbers, to: Rank, context: u16) -> Next<'a> {
        match self {
            None => numbers.next(to, context),
            Some(policy) => policy.number(numbers, to, context),
        }
    }

    #[inline(always)]
    fn partial(&mut self, message: MsgId) -> Option<&mut Destination> {
        self.as_mut().and_then(|policy| policy.partial(message))
    }

    hand_on! {
        fn route(&self) { to: Rank } -> Route;
        fn is_behind(&self) -> bool;
        fn may_find_no_room(&self) -> bool;
        fn ticket(&mut self) { peers: &mut [Peer], to: Rank } -> Ticket;
        fn is_open(&mut self) { ticket: &Ticket } -> bool;
        fn open_page(&mut self) { memory: &mut impl SendMemory, peer: &mut Peer } -> Poll<bool>;
        fn send_more(&mut self) {
            fabric: &mut (impl Fabric + SendMemory),
            requests: &Requests,
            to: Rank,
            leaving: &mut LoggedSend,
            fragment: usize
        } -> Option<Result<Sent, Refused>>;
        fn send_rndv_data(&mut self) {
            fabric: &mut (impl Fabric + SendMemory),
            to: Rank,
            frame: &Frame,
            place: u64,
            most: usize
        } -> Option<usize>;
        fn piggybacks(&self) -> bool;
        fn on_loss(&self) { peer: Rank, why: &Fault } -> OnLoss;
        fn takes_kind(&self) { kind: u8 } -> bool;
        fn eager_limit(&self) -> usize;
        fn may_stop(&self) { peer: Rank } -> bool;
        fn is_replaying(&self) -> bool;
        fn posted(&mut self) { record: &mut RecvRecord, from: &Pattern } -> bool;
        fn posted_multi(&mut self) { record: &mut RecvRecord } -> bool;
        fn leaves_unposted(&self) { has_handlers: bool } -> bool;
        fn reports_in_order(&self) -> bool;
        fn reserved(&mut self) { message: MsgId, id: MessageId };
        fn take_partial(&mut self) { message: MsgId } -> Option<Destination>;
        fn is_whole(&mut self) { message: MsgId };
        fn tests_are_free(&self) -> bool;
        fn ends_any_source_at_once(&self) -> bool;
        fn check_repeatable(&self) { what: &'static str, remedy: &'static str } -> Result<(), Error>;
        fn waits(&mut self) { turns: u32 } -> bool;
        fn prepare(&self) { memory: &mut impl SendMemory };
        fn waits_for_log_memory(&self) -> bool;
        fn abandon_kept(&mut self) { memory: &mut impl SendMemory };
        fn waits_for_receivers(&self) -> bool;
        fn set(&self) { rank: Rank } -> Option<u32>;
        fn waiting(&self) -> Vec<String>;
        fn counters(&self) -> Option<Counters>;
        fn take_restored(&mut self) -> Option<Vec<u8>>;
    }
}
