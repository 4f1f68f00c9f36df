//! What the receive path asks of message logging. It is compiled once for each implementation.

use super::Policy;
use crate::core::Core;
use crate::log::Logging;
use crate::request::Requests;
use taffrail_logging::{Admit, Expected, MsgId};

/// The receiving half of a message-logging policy.
pub(crate) trait RxPolicy<P: Policy>: Sized {
    /// Whether a peer that dies is restarted, so that requests to it wait.
    const LOGS: bool;

    /// The policy of this rank, and the requests beside it.
    fn of(core: &mut Core<P>) -> (&mut Self, &mut Requests);
    /// Judges a message that has come, before it is matched and once (*policy-judges-arrival*).
    #[inline]
    fn admit(&mut self, message: MsgId) -> Admit {
        match self.admit_next(message) {
            true => Admit::Match,
            false => self.admit_other(message),
        }
    }

    /// Admits a message that is simply to be matched, as most are. If it is not, nothing has changed, and this may be
    /// asked again.
    fn admit_next(&mut self, message: MsgId) -> bool;
    /// Judges a message that is not simply to be matched.
    fn admit_other(&mut self, message: MsgId) -> Admit;
    /// A posted receive has matched a message.
    fn matched(&mut self, requests: &mut Requests, request: u32, message: MsgId);
    /// A receive that was not posted has got a message.
    fn received_directly(&mut self, from_any: bool, message: MsgId);
}

/// Of a job that is not logged: every message has to be the next of its channel.
pub(crate) struct Unlogged {
    /// The next number of each channel that messages arrive in.
    pub(crate) expected: Expected,
}

impl Unlogged {
    /// Of a rank among so many.
    pub(crate) fn new(size: u32) -> Self {
        Unlogged { expected: Expected::new(size) }
    }
}

impl<P: Policy> RxPolicy<P> for Unlogged {
    const LOGS: bool = false;

    #[inline(always)]
    fn of(core: &mut Core<P>) -> (&mut Self, &mut Requests) {
        (&mut core.unlogged, &mut core.requests)
    }

    #[inline(always)]
    fn admit_next(&mut self, message: MsgId) -> bool {
        self.expected.count(message)
    }

    fn admit_other(&mut self, message: MsgId) -> Admit {
        Admit::OutOfOrder { expected: self.expected.next(message.source, message.context) }
    }

    #[inline(always)]
    fn matched(&mut self, _: &mut Requests, _: u32, _: MsgId) {}

    #[inline(always)]
    fn received_directly(&mut self, _: bool, _: MsgId) {}
}

impl<P: Policy> RxPolicy<P> for Logging<P::Host> {
    const LOGS: bool = true;

    #[expect(clippy::expect_used, reason = "called only where messages are logged")]
    #[inline(always)]
    fn of(core: &mut Core<P>) -> (&mut Self, &mut Requests) {
        let log = core.policy.log_mut().expect("only called when messages are logged");
        (log, &mut core.requests)
    }

    #[inline(always)]
    fn admit_next(&mut self, message: MsgId) -> bool {
        !self.replaying && self.inbound.expected.count(message)
    }

    fn admit_other(&mut self, message: MsgId) -> Admit {
        self.judge(message)
    }

    #[inline(always)]
    fn matched(&mut self, requests: &mut Requests, request: u32, message: MsgId) {
        self.record_match(&mut requests.get(request).record, message);
    }

    #[inline(always)]
    fn received_directly(&mut self, from_any: bool, message: MsgId) {
        self.record_direct(from_any, message);
    }
}
