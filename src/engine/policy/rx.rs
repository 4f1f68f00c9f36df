//! What the receive path asks of message logging. It is compiled once for each implementation.

use super::{NoLogging, Policy};
use crate::engine::core::Core;
use crate::engine::log::{Log, RecvRecord};
use crate::engine::request::Requests;
use taffrail_logging::Name;

/// The receiving half of a message-logging policy.
pub(crate) trait RxPolicy: Sized {
    /// Whether a peer that dies is restarted, so that requests to it wait.
    const LOGS: bool;

    /// The policy of this rank. `None` at compile time where nothing is logged.
    fn of<P: Policy>(core: &mut Core<P>) -> Option<(&mut Self, &mut Requests)>;
    /// Whether a replay decides what arriving messages match.
    fn is_replaying(&self) -> bool;
    /// A posted receive has matched a message.
    fn matched(&mut self, record: &mut RecvRecord, message: Name);
    /// A receive that was not posted has got a message.
    fn received_directly(&mut self, from_any: bool, message: Name);
}

/// Nobody has this policy at hand, so the compiler removes every question to it.
impl RxPolicy for NoLogging {
    const LOGS: bool = false;

    #[inline(always)]
    fn of<P: Policy>(_: &mut Core<P>) -> Option<(&mut Self, &mut Requests)> {
        None
    }

    #[inline(always)]
    fn is_replaying(&self) -> bool {
        false
    }

    #[inline(always)]
    fn matched(&mut self, _: &mut RecvRecord, _: Name) {}

    #[inline(always)]
    fn received_directly(&mut self, _: bool, _: Name) {}
}

impl RxPolicy for Log {
    const LOGS: bool = true;

    #[inline(always)]
    fn of<P: Policy>(core: &mut Core<P>) -> Option<(&mut Self, &mut Requests)> {
        Some((core.policy.log_mut()?, &mut core.requests))
    }

    #[inline(always)]
    fn is_replaying(&self) -> bool {
        self.replaying
    }

    #[inline(always)]
    fn matched(&mut self, record: &mut RecvRecord, message: Name) {
        self.record_match(record, message);
    }

    #[inline(always)]
    fn received_directly(&mut self, from_any: bool, message: Name) {
        self.record_direct(from_any, message);
    }
}
