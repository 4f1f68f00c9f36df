//! Arriving messages: which of them are taken in, and what becomes of those that are not simply to be matched.

use super::Logging;
use super::decisions::Logged;
use super::host::Host;
use super::nondeterminism::CoreParts;
use crate::core::{Core, Deferred};
use crate::policy::rx::RxPolicy;
use taffrail_logging::{Admit, MsgId, Numbers, Reserved, mutant};

/// Turns between two in which a restarted rank takes messages in while its resend backlog is high. Peers resend faster
/// than it replays, so without a limit all messages that they ever sent to it would be in its memory.
const AHEAD_EVERY: u32 = 256;
/// Bytes of unreceived messages, overheads included, above which the resend backlog is high.
const RESEND_BACKLOG_MAX: usize = 256 << 10;

impl<H: Host> Logging<H> {
    /// Judges a message that is not simply to be matched: not the next of its channel, or in a replay.
    pub(crate) fn judge(&mut self, numbers: &mut Numbers, message: MsgId) -> Admit {
        match self.replaying {
            true => self.inbound.admit_in_replay(numbers, message, &mut self.replay),
            false => self.inbound.admit(numbers, message),
        }
    }

    #[inline(never)]
    fn end_turn(&mut self, things: usize, unreceived: usize) {
        if self.incarnation > 0 && (things > 0 || self.resend_backlog_high) {
            self.resend_backlog_high = unreceived > RESEND_BACKLOG_MAX;
        }
        self.chooses_turns = self.resend_backlog_high;
        if let Some(held) = &self.held {
            held.end_turn();
            self.chooses_turns = true;
        }
    }

    /// Nothing is taken in from the dead whose events are asked for (*closed-door*).
    #[inline(never)]
    fn takes_in_this<P: Logged<Host = H>>(core: &mut Core<P>, turn: u32) -> bool {
        let log = core.log();
        if log.resend_backlog_high && !turn.is_multiple_of(AHEAD_EVERY) {
            return false;
        }
        let Some(held) = &log.held else { return true };
        held.begin_turn();
        let is_settled = core.membership.is_settled() || mutant!(DoorOpen);
        if !is_settled && let Some(held) = &core.log().held {
            held.end_turn();
        }
        is_settled
    }
}

impl<P: Logged> RxPolicy<P> for Logging<P::Host> {
    /// Nothing while events wait for room (*nothing-passes-an-event*), and little while more was sent again than this
    /// rank needs now.
    #[inline(always)]
    fn takes_in(core: &mut Core<P>, turn: u32) -> bool {
        let CoreParts { log, peers, .. } = core.parts();
        (!log.events.is_behind() || log.catch_up(peers))
            && (!log.chooses_turns || Self::takes_in_this(core, turn))
    }

    #[inline(always)]
    fn taken_in(core: &mut Core<P>, things: usize) {
        let unreceived = core.flow.memory();
        let log = core.log();
        if log.ends_turns {
            log.end_turn(things, unreceived);
        }
    }

    #[inline(always)]
    fn admit_next(core: &mut Core<P>, message: MsgId) -> bool {
        let CoreParts { log, numbers, .. } = core.parts();
        !log.replaying && numbers.count(message)
    }

    fn admit_other(core: &mut Core<P>, message: MsgId) -> Admit {
        let CoreParts { log, numbers, .. } = core.parts();
        log.judge(numbers, message)
    }

    #[inline(never)]
    fn take_reserved(core: &mut Core<P>, whom: Reserved, message: MsgId) -> Option<u32> {
        let log = core.log();
        let awaited = match whom {
            Reserved::Post(_) => log.awaited.remove(&message),
            Reserved::Claim => None,
        };
        let goes_on = awaited.is_some_and(|request| log.got_one(request));
        log.look_at_replay();
        if goes_on {
            core.deferred.extend(awaited.map(|request| Deferred::Advance { request }));
        }
        awaited
    }

    #[inline(always)]
    fn matched(core: &mut Core<P>, request: u32, message: MsgId) {
        let CoreParts { log, requests, peers, .. } = core.parts();
        log.record_match(peers, &mut requests.get(request).record, message);
    }

    #[inline(always)]
    fn received_directly(core: &mut Core<P>, from_any: bool, message: MsgId) {
        let CoreParts { log, peers, .. } = core.parts();
        log.record_direct(peers, from_any, message);
    }
}
