//! What message logging decides of a message that leaves at once: its number, and whether its bytes are kept.
//!
//! A message within the set, or of a job that is not logged, leaves under [`Direct`]; one that leaves the
//! set under the [`Logging`](crate::log::Logging). [`send_numbered`] is compiled once for each.

use super::Policy;
use crate::frame::{Frame, MsgHead};
use crate::immediate::Immediate;
use crate::tx::transmit;
use crate::{Dest, Rank};
use taffrail_fabric::{Fabric, Refused, SendMemory, Source};
use taffrail_logging::{Next, Numbers};

/// The sending half of a policy.
pub(crate) trait TxPolicy {
    /// The next number of a channel; `None` when a message may not leave under it at once.
    fn next<'a>(&'a mut self, numbers: &'a mut Numbers, to: Rank, context: u16)
    -> Option<Next<'a>>;

    /// Keeps a short message that has left so (*logged-before-visible*: there is room for it).
    fn keep_sent(
        &mut self,
        memory: &mut impl SendMemory,
        to: &Dest,
        msg: MsgHead,
        source: Source<'_>,
    );
}

/// Nothing is kept.
pub(crate) struct Direct<'a, P>(pub &'a mut P);

impl<P: Policy> TxPolicy for Direct<'_, P> {
    #[inline(always)]
    fn next<'a>(
        &'a mut self,
        numbers: &'a mut Numbers,
        to: Rank,
        context: u16,
    ) -> Option<Next<'a>> {
        Some(self.0.number(numbers, to, context))
    }

    #[inline(always)]
    fn keep_sent(&mut self, _: &mut impl SendMemory, _: &Dest, _: MsgHead, _: Source<'_>) {}
}

/// Hands a whole message, or the first fragment of one, to the fabric under the next number of its channel, which
/// is used up if it leaves. How it is called; `None` when it leaves otherwise.
#[inline(always)]
pub(crate) fn send_numbered(
    fabric: &mut (impl Fabric + SendMemory),
    policy: &mut impl TxPolicy,
    numbers: &mut Numbers,
    immediate: Immediate,
    to: &Dest,
    frame: impl FnOnce(MsgHead) -> Frame,
    source: Source<'_>,
) -> Result<Option<MsgHead>, Refused> {
    let Some(context) = immediate.word(to.context, to.data) else { return Ok(None) };
    let Some(next) = policy.next(numbers, to.rank, to.context) else { return Ok(None) };
    let msg = MsgHead { context, seq: next.peek(), tag: to.tag };
    transmit(fabric, to.rank, &frame(msg), source)?;
    next.commit();
    policy.keep_sent(fabric, to, msg, source);
    Ok(Some(msg))
}
