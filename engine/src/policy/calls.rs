//! Calls whose outcome the program does not determine: the policy is asked before, and the outcome reported to it.

use crate::call::operation::{Operation, Outcome};
use crate::core::state::Core;
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
pub trait Calls<P> {
    /// Whether a completion poll ends receives from any source that nobody is left to send to
    /// ([`Policy::ends_any_source_at_once`](super::Policy::ends_any_source_at_once)).
    const POLLS_END_ANY_SOURCE: bool;
    /// Whether completion polls that find nothing are used as waits are ([`Policy::waits`](super::Policy::waits)).
    const USES_EMPTY_POLLS: bool;

    /// Decides of a call, once unless the answer is [`Decision::Later`].
    fn ask(core: &mut Core<P>, call: &Operation<'_>) -> Decision;

    /// Reports the outcome of a call of which nothing was decided.
    fn record(core: &mut Core<P>, call: &Operation<'_>, outcome: &Outcome);

    /// A completion poll has made progress in vain: the time until something comes is free.
    fn prepare(core: &mut Core<P>);
}
