//! Calls of the program whose outcome is not determined: the outcome is recorded as an event, and a replay answers with
//! the recorded one.

use super::Logging;
use super::decisions::Logged;
use super::host::Host;
use super::multi_replay::MultiStep;
use crate::Engine;
use crate::call::operation::{Operation, Outcome};
use crate::core::Core;
use crate::peer::Peer;
use crate::policy::calls::{Calls, Decision};
use crate::policy::protocol::Replays;
use crate::recv_record::{CANCELLED, LOGGED, MULTI, POSTED, RecvRecord, name};
use crate::request::{Requests, Slot, Stage};
use crate::{Pattern, Rank, Request};
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_logging::{Answer, MsgId, Numbers, RecvOutcome, mutant};
use taffrail_matching::{Envelope, MessageId};

/// The parts of the core that the log works on.
pub(crate) struct CoreParts<'a, H: Host> {
    pub(crate) log: &'a mut Logging<H>,
    pub(crate) requests: &'a mut Requests,
    pub(crate) peers: &'a mut [Peer],
    pub(crate) numbers: &'a mut Numbers,
}

/// How the replay has decided a receive.
enum PostDecision {
    /// It has not: the receive is posted like any other.
    Free,
    /// It gets this message, which is here.
    Has(MessageId),
    /// It gets a message that is not here yet, or none.
    Waits,
}

impl<H: Host> Logging<H> {
    /// A receive has got a message without being posted, by chance if it did not name its source.
    #[inline(always)]
    pub(crate) fn record_direct(&mut self, peers: &mut [Peer], from_any: bool, message: MsgId) {
        let post = self.recorder.post();
        if (from_any || self.all_events) && !mutant!(MatchNotLogged) {
            let MsgId { source, context, seq } = message;
            self.log_direct(peers, post, source, context, seq);
        }
    }

    /// Apart, so that messages that are not logged do not pay for it. Not given a name, which would go
    /// through memory: stored in parts, and read whole.
    #[inline(never)]
    fn log_direct(&mut self, peers: &mut [Peer], post: u32, source: Rank, context: u16, seq: u32) {
        let event = self.recorder.matched(post, MsgId { source, context, seq });
        self.write(peers, event);
    }

    fn decide_post(&mut self, request: u32, record: &mut RecvRecord) -> PostDecision {
        let decision = match self.replay.recv_outcome(record.post) {
            RecvOutcome::Messages(messages) if !mutant!(FateIgnored) => {
                record.set_name(messages[0].context, messages[0].seq);
                record.flags |= LOGGED;
                match self.reserved.remove(&messages[0]) {
                    Some(id) => PostDecision::Has(id),
                    None => {
                        self.awaited.insert(messages[0], request);
                        PostDecision::Waits
                    }
                }
            }
            RecvOutcome::Cancelled => {
                record.flags |= CANCELLED | LOGGED;
                PostDecision::Waits
            }
            RecvOutcome::Messages(_) | RecvOutcome::Free => PostDecision::Free,
        };
        self.look_at_replay();
        decision
    }

    /// A receive has got a message: an event, if chance has decided it.
    #[inline]
    pub(crate) fn record_match(
        &mut self,
        peers: &mut [Peer],
        record: &mut RecvRecord,
        message: MsgId,
    ) {
        record.set_name(message.context, message.seq);
        if record.is_to_be_logged() && !mutant!(MatchNotLogged) {
            self.log_match(peers, record, message);
        }
    }

    #[inline(never)]
    fn log_match(&mut self, peers: &mut [Peer], record: &mut RecvRecord, message: MsgId) {
        if !record.has(MULTI) {
            record.flags |= LOGGED;
        }
        let event = self.recorder.matched(record.post, message);
        self.write(peers, event);
    }

    /// How the replay has decided the next call whose outcome is an event.
    pub(crate) fn next_answer(&mut self) -> Decision {
        let answer = match self.pending_answer.take() {
            Some(answer) => answer,
            None if self.replaying && !mutant!(PollsNotReplayed) => self.replay.poll(),
            None => Answer::Free,
        };
        self.look_at_replay();
        match answer {
            Answer::Free => Decision::Free,
            answer => Decision::Replayed(answer),
        }
    }

    pub(crate) fn look_at_replay(&mut self) {
        if self.replaying && self.replay.is_over() {
            self.replaying = false;
            tracing::debug!("the replay is over");
        }
    }

    pub(crate) fn found_nothing(&mut self, peers: &mut [Peer]) {
        if let Some(event) = self.recorder.found_nothing() {
            self.write(peers, event);
        }
    }

    /// How the replay has decided the cancellation of a receive.
    fn ask_cancel(&mut self, request: Request, requests: &mut Requests) -> Decision {
        if self.multi_replays.contains_key(&request.index) {
            return Decision::Later;
        }
        let slot = requests.get(request.index);
        match slot.record.has(CANCELLED) && slot.stage == Stage::Posted {
            true => Decision::Replayed(Answer::Found(0)),
            false => Decision::Free,
        }
    }

    /// The outcome of a cancellation. Whether the message came first is not determined, also where it is determined
    /// which message that is.
    fn record_cancel(&mut self, peers: &mut [Peer], slot: &mut Slot, cancelled: bool) {
        if cancelled {
            let event = self.recorder.cancelled(slot.record.post);
            self.write(peers, event);
        } else if slot.record.has(POSTED) && !mutant!(LateCancelNotLogged) {
            // Of a multi-receive each is an event already.
            let is_event = slot.record.has(LOGGED) || slot.record.has(MULTI);
            if let Some(message) = slot.record.name(slot.status.source).filter(|_| !is_event) {
                self.log_match(peers, &mut slot.record, message);
            }
        }
    }

    /// Records the outcome of a call.
    fn record_outcome(&mut self, peers: &mut [Peer], outcome: &Outcome) {
        let event = match outcome {
            Outcome::Nothing => return self.found_nothing(peers),
            Outcome::Seen(_) if mutant!(ProbeNotLogged) => return,
            Outcome::Claimed(..) if mutant!(ClaimNotLogged) => return,
            Outcome::Completed((index, _)) => self.recorder.found(*index as u32),
            // That all peers have finished is determined, but not when that is found.
            Outcome::Gone(_) => self.recorder.found(0),
            Outcome::Seen(envelope) => self.recorder.probed(name(envelope)),
            Outcome::Claimed(_, envelope) => self.recorder.claimed(name(envelope)),
            _ => return,
        };
        self.write(peers, event);
    }
}

impl<P: Logged> Calls<P> for Logging<P::Host> {
    const POLLS_END_ANY_SOURCE: bool = true;
    const USES_EMPTY_POLLS: bool = true;

    #[inline(always)]
    fn ask(core: &mut Core<P>, call: &Operation<'_>) -> Decision {
        let CoreParts { log, requests, peers, .. } = core.parts();
        match *call {
            _ if mutant!(NoCallsBeforeAllIsHere) && !log.inbound.is_complete() => Decision::Later,
            // While events wait, a poll makes no progress.
            Operation::PollCompletion(turns) => log.ask_poll(turns, requests),
            _ if log.events.is_behind() && !log.catch_up(peers) => Decision::Later,
            Operation::Cancel(request) => log.ask_cancel(request, requests),
            Operation::Test(_) | Operation::WaitAny(_) => log.next_answer(),
            Operation::Probe(_) | Operation::Claim(_) => match log.next_answer() {
                // The program may have seen messages that were here when the checkpoint was taken. No other call waits
                // for them: they may depend on messages that the program is about to send again.
                Decision::Free if !log.inbound.is_complete() && !mutant!(ProbesBeforeAllIsHere) => {
                    Decision::Later
                }
                decision => decision,
            },
            _ => Decision::Free,
        }
    }

    #[inline(always)]
    fn record(core: &mut Core<P>, call: &Operation<'_>, outcome: &Outcome) {
        let CoreParts { log, requests, peers, .. } = core.parts();
        match (call, outcome) {
            (_, Outcome::Next(request)) => log.record_poll(peers, *request, requests),
            (Operation::WaitAny(_), Outcome::Completed(_)) if mutant!(WaitAnyNotLogged) => {}
            (Operation::PollCompletion(_), _) => log.record_empty_poll(peers),
            (Operation::Cancel(request), Outcome::Cancelled(cancelled)) => {
                log.record_cancel(peers, requests.get(request.index), *cancelled);
            }
            _ => log.record_outcome(peers, outcome),
        }
    }

    #[inline(always)]
    fn prepare(core: &mut Core<P>) {
        core.parts().log.prepare_poll();
    }
}

impl<P: Logged> Replays<P> for Logging<P::Host> {
    #[inline(never)]
    fn replay_post<F: Fabric + SendMemory>(engine: &mut Engine<F, P>, request: u32) -> bool {
        let CoreParts { log, requests, .. } = engine.core.parts();
        match log.decide_post(request, &mut requests.get(request).record) {
            PostDecision::Free => return false,
            PostDecision::Waits => {}
            PostDecision::Has(id) => engine.receive_reserved(request, id),
        }
        true
    }

    fn replay_multi<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        request: u32,
        from: &Pattern,
    ) -> bool {
        let CoreParts { log, requests, .. } = engine.core.parts();
        if !log.replay_multi(request, requests.get(request).record.post, from) {
            return false;
        }
        Self::continue_multi(engine, request);
        true
    }

    fn continue_multi<F: Fabric + SendMemory>(engine: &mut Engine<F, P>, request: u32) {
        loop {
            let CoreParts { log, requests, .. } = engine.core.parts();
            match log.next_of_multi(request, &mut requests.get(request).record) {
                MultiStep::Waits => return,
                MultiStep::IsFree(from) => return engine.post_multi(request, &from),
                MultiStep::Has(id) => engine.receive_reserved(request, id),
            }
        }
    }

    fn reserved_claim(core: &mut Core<P>, message: MsgId) -> Option<(MessageId, Envelope)> {
        let found = core.waiting_message(message)?;
        core.log().reserved.remove(&message);
        Some(found)
    }
}

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    /// Receives a message that was kept for this receive.
    fn receive_reserved(&mut self, request: u32, id: MessageId) {
        if let Some((env, found)) = self.core.matcher.take_message(id) {
            self.core.receive_unexpected(request, env, found);
            self.run_deferred();
        }
    }
}

impl<P: Logged> Core<P> {
    /// The log.
    #[inline(always)]
    pub(super) fn log(&mut self) -> &mut Logging<P::Host> {
        self.policy.logging()
    }

    /// The parts of the core that the log works on, apart.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> CoreParts<'_, P::Host> {
        let Core { policy, requests, peers, numbers, .. } = self;
        CoreParts { log: policy.logging(), requests, peers, numbers }
    }
}
