//! Calls whose outcome the program does not determine: the policy is asked before, and the outcome reported to it.

use super::{NoLogging, Policy};
use crate::call::{Operation, Outcome};
use crate::core::Core;
use crate::request::Requests;
use taffrail_logging::Answer;

/// What the policy decides of a call before it looks for anything.
#[derive(Clone, Copy)]
pub enum Decision {
    /// It finds what there is, and its outcome is reported.
    Free,
    /// It finds nothing, and makes no progress.
    Skip,
    /// Its outcome is the recorded one.
    Replayed(Answer),
    /// The policy is asked again after progress.
    Later,
}

/// The part of a policy that decides of calls.
pub(crate) trait Calls<P: Policy> {
    /// Whether anything is logged.
    const LOGS: bool;

    /// The policy, and the requests beside it.
    fn of(core: &mut Core<P>) -> (&mut Self, &mut Requests);

    /// Decides of a call, once unless the answer is [`Decision::Later`].
    fn ask(&mut self, call: &Operation<'_>, requests: &mut Requests) -> Decision;

    /// Reports the outcome of a call of which nothing was decided.
    fn tell(&mut self, call: &Operation<'_>, outcome: &Outcome, requests: &mut Requests);

    /// A completion poll has made progress in vain: the time until something comes is free.
    fn prepare(&mut self);
}

/// Every call is free.
impl<P: Policy> Calls<P> for NoLogging {
    const LOGS: bool = false;

    #[inline(always)]
    fn of(core: &mut Core<P>) -> (&mut Self, &mut Requests) {
        (&mut core.no_logging, &mut core.requests)
    }

    #[inline(always)]
    fn ask(&mut self, _: &Operation<'_>, _: &mut Requests) -> Decision {
        Decision::Free
    }

    #[inline(always)]
    fn tell(&mut self, _: &Operation<'_>, _: &Outcome, _: &mut Requests) {}

    #[inline(always)]
    fn prepare(&mut self) {}
}
