//! Completion polls: which completions a program finds (`docs/logging.md`, section 11).
//!
//! Which one is returned is an event, and the polls before it that found nothing are counted with it. A poll right
//! after one that has drained the queue is not counted if it finds nothing: Open MPI ends each round with one, and it
//! would be an event before each message that it sends. In a replay such a poll finds something only if the next
//! event says so. So whether it polls at all is free, too.

use super::Logging;
use super::host::Host;
use super::poll_state::PollState;
use crate::Request;
use crate::peer::Peer;
use crate::policy::calls::Decision;
use crate::request::{MAX_SERIAL, Requests};
use taffrail_logging::{Answer, mutant};

/// Set in the number of an operation that was the last in the queue.
const LAST: u32 = MAX_SERIAL + 1;
/// Set in the number of an operation that was found by a poll right after the queue was drained.
const AT_ONCE: u32 = LAST << 1;
/// The bit that these flags begin with.
const FLAG: u32 = LAST.trailing_zeros();

impl<H: Host> Logging<H> {
    /// What is decided of a completion poll: what it finds is an event, which names the operation by its number
    /// among those that are reported, and says whether it was the last that was over then. Of an operation that
    /// the replay names, the number is the answer.
    #[inline(always)]
    pub(crate) fn ask_poll(&mut self, turns: u32, requests: &Requests) -> Decision {
        // Further entries of a poll that has shown all there was.
        if turns == 0 && !self.poll_state.is_partial() {
            return Decision::Skip;
        }
        // While no operation is tracked, polls mean nothing: an MPI polls for as long
        // as its launcher takes to start the others.
        if !requests.has_any_reported() {
            return self.finds_nothing(Decision::Replayed(Answer::Nothing));
        }
        if self.poll_state == PollState::Drained && !self.recheck.decide() {
            return self.finds_nothing(Decision::Skip);
        }
        if self.replaying
            || self.pending_answer.is_some()
            || self.poll_state == PollState::ReplayDrained
        {
            return self.ask_replay(requests);
        }
        Decision::Free
    }

    /// What the replay says of a completion poll.
    #[inline(never)]
    fn ask_replay(&mut self, requests: &Requests) -> Decision {
        let decision = match self.poll_state {
            PollState::ReplayDrained => {
                let answer = self.replay.poll_for(|index| index & AT_ONCE != 0);
                self.look_at_replay();
                Decision::Replayed(answer)
            }
            _ => self.next_answer(),
        };
        match decision {
            // It polls more often than it did, again for as long as something else takes.
            Decision::Replayed(early @ Answer::Found(word))
                if !requests.has_reported(word & MAX_SERIAL) =>
            {
                self.pending_answer = Some(early);
                self.finds_nothing(Decision::Replayed(Answer::Nothing))
            }
            Decision::Replayed(Answer::Found(word)) => {
                self.showed(word & LAST != 0, PollState::ReplayDrained);
                Decision::Replayed(Answer::Found(word & MAX_SERIAL))
            }
            Decision::Replayed(Answer::Nothing) => self.finds_nothing(decision),
            other => other,
        }
    }

    fn finds_nothing(&mut self, decision: Decision) -> Decision {
        self.poll_state = PollState::Empty;
        decision
    }

    /// A poll has shown an operation, perhaps the last that was over.
    #[inline(always)]
    fn showed(&mut self, last: bool, all: PollState) {
        self.poll_state = if last { all } else { PollState::Partial };
    }

    /// A completion poll has found this operation.
    #[inline(always)]
    pub(crate) fn record_poll(
        &mut self,
        peers: &mut [Peer],
        ended: Request,
        requests: &mut Requests,
    ) {
        let at_once = self.poll_state == PollState::Drained;
        let serial = requests.get(ended.index).serial;
        let last = requests.only_one_is_completed();
        let flags = if last { LAST } else { 0 } | if at_once { AT_ONCE } else { 0 };
        if at_once {
            self.recheck.observe(true);
        }
        if !mutant!(CompletionNotLogged) {
            let event = self.recorder.found(serial | flags);
            self.write(peers, event);
        }
        self.showed(last, PollState::Drained);
    }

    /// A completion poll has found nothing.
    #[inline(never)]
    pub(crate) fn record_empty_poll(&mut self, peers: &mut [Peer]) {
        match self.poll_state == PollState::Drained {
            true => self.recheck.observe(false),
            false => self.found_nothing(peers),
        }
        self.poll_state = PollState::Empty;
    }

    /// Gets ready for the event of a poll that finds the only operation that is over.
    #[inline(always)]
    pub(crate) fn prepare_poll(&mut self) {
        let flags = if self.poll_state == PollState::Drained { LAST | AT_ONCE } else { LAST };
        self.prepare_event((flags >> FLAG) as u8);
    }
}
