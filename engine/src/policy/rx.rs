//! What the receive path asks of message logging. It is compiled once for each implementation.

use crate::core::state::Core;
use taffrail_logging::{Admit, MsgId, Reserved};

/// The receiving half of a message-logging policy.
pub trait RxPolicy<P> {
    /// Whether anything may be taken in on this turn.
    #[inline(always)]
    fn takes_in(_: &mut Core<P>, _turn: u32) -> bool {
        true
    }

    /// A poll has taken in `things` messages and reports.
    #[inline(always)]
    fn taken_in(_: &mut Core<P>, _things: usize) {}

    /// Judges a message that has come, before it is matched and once (*policy-judges-arrival*).
    #[inline]
    fn admit(core: &mut Core<P>, message: MsgId) -> Admit {
        match Self::admit_next(core, message) {
            true => Admit::Match,
            false => Self::admit_other(core, message),
        }
    }

    /// Admits a message that is simply to be matched, as most are. If it is not, nothing has changed, and this may be
    /// asked again.
    fn admit_next(core: &mut Core<P>, message: MsgId) -> bool;
    /// Judges a message that is not simply to be matched.
    fn admit_other(core: &mut Core<P>, message: MsgId) -> Admit;
    /// A message has come that is reserved for a receive or claim. Returns the receive, if it is posted.
    #[inline(always)]
    fn take_reserved(_: &mut Core<P>, _whom: Reserved, _message: MsgId) -> Option<u32> {
        None
    }

    /// A posted receive has matched a message.
    fn matched(core: &mut Core<P>, request: u32, message: MsgId);
    /// A receive that was not posted has got a message.
    fn received_directly(core: &mut Core<P>, from_any: bool, message: MsgId);
}
