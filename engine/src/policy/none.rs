//! The policy of a job that is not logged.

use super::Policy;
use super::calls::{Calls, Decision};
use super::protocol::{Checkpoints, Recovery, Replays, Sends};
use super::rx::RxPolicy;
use crate::call::operation::{Operation, Outcome};
use crate::core::state::Core;
use taffrail_logging::{Admit, MsgId};

/// The policy of a job that is not logged.
#[derive(Default)]
pub struct NoLogging;

impl Policy for NoLogging {
    type First = NoLogging;
    type Second = NoLogging;

    #[inline(always)]
    fn is_second(&self) -> bool {
        false
    }
}

/// Every call is free.
impl<P: Policy> Calls<P> for NoLogging {
    const POLLS_END_ANY_SOURCE: bool = false;
    const USES_EMPTY_POLLS: bool = false;

    #[inline(always)]
    fn ask(_: &mut Core<P>, _: &Operation<'_>) -> Decision {
        Decision::Free
    }

    #[inline(always)]
    fn record(_: &mut Core<P>, _: &Operation<'_>, _: &Outcome) {}

    #[inline(always)]
    fn prepare(_: &mut Core<P>) {}
}

/// Every message has to be the next of its channel.
impl<P: Policy> RxPolicy<P> for NoLogging {
    #[inline(always)]
    fn admit_next(core: &mut Core<P>, message: MsgId) -> bool {
        core.numbers.count(message)
    }

    fn admit_other(core: &mut Core<P>, message: MsgId) -> Admit {
        let expected = core.numbers.of(message.source).expected.next(message.context);
        Admit::OutOfOrder { expected }
    }

    #[inline(always)]
    fn matched(_: &mut Core<P>, _: u32, _: MsgId) {}

    #[inline(always)]
    fn received_directly(_: &mut Core<P>, _: bool, _: MsgId) {}
}

impl<P: Policy> Sends<P> for NoLogging {}
impl<P: Policy> Replays<P> for NoLogging {}
impl<P: Policy> Recovery<P> for NoLogging {}
impl<P: Policy> Checkpoints<P> for NoLogging {}
