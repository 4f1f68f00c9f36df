//! Calls that may have to wait: a state machine each. [`advance`](Engine::advance) takes one as far as it gets, and
//! never waits; `src/wait.rs` makes progress between its steps.

pub(crate) mod operation;

pub use operation::{Ended, Operation, Outcome, Over};

use super::policy::calls::{Calls, Decision};
use super::policy::protocol::{Protocol, Replays};
use super::receive::posting;
use super::request::Stage;
use crate::Engine;
use crate::policy::{Policy, by_policy};
use crate::{Error, Request, Status};
use std::task::Poll::{self, Pending, Ready};
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_logging::Answer;

/// Turns without success between two looks at what the log will need next.
const PREPARE_EVERY: u32 = 8;

/// A call under way.
pub struct Call<'a> {
    operation: Operation<'a>,
    /// What the policy has decided of it.
    decided: Option<Decision>,
}

impl<'a> Call<'a> {
    /// A call that begins.
    pub fn new(operation: Operation<'a>) -> Self {
        Call { operation, decided: None }
    }

    /// What was decided of it, if it has to wait.
    pub fn decision(&self) -> Option<Decision> {
        self.decided
    }

    /// A call of which this was decided.
    pub fn decided(operation: Operation<'a>, decision: Decision) -> Self {
        Call { operation, decided: Some(decision) }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Takes a call as far as it gets. After [`Pending`] it is to be advanced again when progress was made.
    ///
    /// # Errors
    /// Those of the call, and [`Error::Diverged`].
    #[inline]
    pub fn advance(&mut self, call: &mut Call<'_>) -> Poll<Result<Outcome, Error>> {
        by_policy!(self.core.policy, self.advance_by(call))
    }

    /// A completion poll that need not wait: all but those that a replay decides, of which this is the decision.
    #[inline(always)]
    pub fn poll_at_once(&mut self, turns: u32) -> Result<Over, Decision> {
        match self.core.policy.is_second() {
            true => self.poll_by_second(turns),
            false => self.poll_by::<P::First>(turns),
        }
    }

    /// Apart, so that the first one stays small.
    #[inline(never)]
    fn poll_by_second(&mut self, turns: u32) -> Result<Over, Decision> {
        self.poll_by::<P::Second>(turns)
    }

    #[inline(always)]
    fn poll_by<C: Calls<P>>(&mut self, turns: u32) -> Result<Over, Decision> {
        let operation = Operation::PollCompletion(turns);
        match C::ask(&mut self.core, &operation) {
            Decision::Free => {}
            Decision::Skip => return Ok(Over::Nothing),
            decision => return Err(decision),
        }
        let next = self.poll_freely::<C>(turns);
        match next {
            Some(request) => {
                C::record(&mut self.core, &operation, &Outcome::Next(request));
                Ok(Over::Next)
            }
            None => {
                C::record(&mut self.core, &operation, &Outcome::Nothing);
                Ok(Over::Nothing)
            }
        }
    }

    /// A test of one operation that no policy has to be asked about: as [`advance`](Self::advance), without a call that would
    /// take half as long as the message. `None`: a policy is to be asked.
    #[inline(always)]
    pub fn test_at_once(&mut self, request: Request) -> Option<Result<Option<Status>, Error>> {
        if !self.core.policy.tests_are_free() {
            return None;
        }
        let mut result = self.try_finish(request);
        if let Ok(None) = result {
            self.progress();
            result = self.try_finish(request);
        }
        Some(result)
    }

    /// The result of an operation, if it has completed.
    #[inline]
    fn try_finish(&mut self, request: Request) -> Result<Option<Status>, Error> {
        let slot = self.core.requests.look(request)?;
        match slot.stage {
            Stage::Done | Stage::Failed if slot.has_more_to_report() => Ok(None),
            Stage::Done | Stage::Failed => self.core.requests.finish(request.index).map(Some),
            _ => Ok(None),
        }
    }

    fn advance_by<C: Protocol<P>>(&mut self, call: &mut Call<'_>) -> Poll<Result<Outcome, Error>> {
        let Call { operation, decided } = call;
        let decision = match decided.take() {
            Some(decision) => decision,
            None => C::ask(&mut self.core, operation),
        };
        let outcome = match decision {
            Decision::Free => self.find::<C>(operation),
            Decision::Skip => Ready(Ok(Outcome::Nothing)),
            Decision::Later => return Pending,
            Decision::Replayed(answer) => self.find_again(operation, answer),
        };
        match outcome {
            Pending => {
                *decided = Some(decision);
                Pending
            }
            Ready(Ok(outcome)) => {
                if let Decision::Free = decision {
                    C::record(&mut self.core, operation, &outcome);
                }
                Ready(match outcome {
                    Outcome::Gone(error) => Err(error),
                    outcome => Ok(outcome),
                })
            }
            failed => failed,
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// A step of an operation that finds what there is.
    fn find<C: Protocol<P>>(&mut self, operation: &Operation<'_>) -> Poll<Result<Outcome, Error>> {
        let outcome = match *operation {
            Operation::Test(requests) => {
                let mut ended = self.first_completed(requests, false)?;
                if ended.is_none() {
                    self.progress();
                    self.end_of_any_source();
                    ended = self.first_completed(requests, false)?;
                }
                ended.map_or(Outcome::Nothing, Outcome::Completed)
            }
            Operation::WaitAny(requests) => match self.first_completed(requests, true)? {
                Some(ended) => Outcome::Completed(ended),
                None => return Pending,
            },
            Operation::Probe(from) => match self.look_for(from) {
                Ok(found) => found.map_or(Outcome::Nothing, Outcome::Seen),
                Err(error) => Outcome::Gone(error),
            },
            Operation::Claim(from) => match self.look_for(from) {
                Ok(_) => match self.core.matcher.claim(&posting(from)) {
                    Some((id, envelope)) => Outcome::Claimed(id, envelope),
                    None => Outcome::Nothing,
                },
                Err(error) => Outcome::Gone(error),
            },
            Operation::Cancel(request) => Outcome::Cancelled(self.cancel_posted(request)?),
            Operation::PollCompletion(turns) => {
                self.poll_freely::<C>(turns).map_or(Outcome::Nothing, Outcome::Next)
            }
            Operation::SendActive { to, handler, header, payload } => {
                match self.try_send_active(to, handler, header, payload)? {
                    true => Outcome::Done,
                    false => return Pending,
                }
            }
            Operation::Checkpoint(state) => match C::checkpoint(self, state)? {
                true => Outcome::Done,
                false => return Pending,
            },
            Operation::Leave => match C::have_all_left(self) {
                true => Outcome::Done,
                false => return Pending,
            },
            Operation::Finalize => match self.is_finalized() {
                true => Outcome::Done,
                false => return Pending,
            },
        };
        Ready(Ok(outcome))
    }

    /// A step of an operation whose outcome is recorded.
    fn find_again(
        &mut self,
        operation: &Operation<'_>,
        answer: Answer,
    ) -> Poll<Result<Outcome, Error>> {
        let outcome = match (*operation, answer) {
            (Operation::Cancel(request), Answer::Found(_)) => {
                self.core.fail(request.index, Error::Cancelled);
                Outcome::Cancelled(true)
            }
            (Operation::Test(_) | Operation::Probe(_) | Operation::Claim(_), Answer::Nothing) => {
                self.progress();
                Outcome::Nothing
            }
            (Operation::Test(requests) | Operation::WaitAny(requests), Answer::Found(index))
                if (index as usize) < requests.len() =>
            {
                let request = requests[index as usize];
                if !self.core.requests.look(request)?.stage.is_over() {
                    return Pending;
                }
                let result = self.core.requests.finish(request.index);
                Outcome::Completed((index as usize, result))
            }
            (Operation::Probe(from) | Operation::Claim(from), Answer::Found(_)) => {
                match self.gone(from) {
                    Some(error) => Outcome::Gone(error),
                    None => return Pending,
                }
            }
            (Operation::PollCompletion(turns), Answer::Nothing) => {
                if turns > 0 {
                    self.progress();
                }
                Outcome::Nothing
            }
            (Operation::PollCompletion(_), Answer::Found(serial)) => {
                match self.core.requests.completed_with(serial) {
                    Some(request) => Outcome::This(request),
                    None => return Pending,
                }
            }
            (Operation::Probe(_), Answer::Probed(name)) => match self.core.waiting_message(name) {
                Some((_, envelope)) => Outcome::Seen(envelope),
                None => return Pending,
            },
            (Operation::Claim(_), Answer::Claimed(name)) => {
                match by_policy!(self.core.policy, reserved_claim(&mut self.core, name)) {
                    Some((id, envelope)) => Outcome::Claimed(id, envelope),
                    None => return Pending,
                }
            }
            (operation, other) => return Ready(Err(diverged(other, operation.name()))),
        };
        Ready(Ok(outcome))
    }

    /// A completion poll that finds what there is.
    #[inline(always)]
    fn poll_freely<C: Calls<P>>(&mut self, turns: u32) -> Option<Request> {
        let (mut left, mut idle) = (turns, false);
        loop {
            if let Some(request) = self.core.requests.next_completed() {
                return Some(request);
            }
            if left == 0 {
                break;
            }
            if left < turns {
                // The other rank may run on the other half of this core.
                std::hint::spin_loop();
            }
            idle = self.progress() == 0;
            left -= 1;
            if C::POLLS_END_ANY_SOURCE && self.core.last_finished.is_some() {
                self.end_of_any_source();
            }
            if idle {
                C::prepare(&mut self.core);
            }
        }
        if C::USES_EMPTY_POLLS {
            self.polled_in_vain(idle);
        }
        None
    }

    /// A program whose polls find nothing waits, and has time.
    #[inline(never)]
    fn polled_in_vain(&mut self, idle: bool) {
        if self.core.policy.waits(0) && idle && self.turns.is_multiple_of(PREPARE_EVERY) {
            self.core.policy.prepare(&mut self.fabric);
        }
    }

    /// A wait has had `turns` empty turns in a row.
    #[inline]
    pub fn waits(&mut self, turns: u32) {
        if self.core.policy.waits(turns) && turns.is_multiple_of(PREPARE_EVERY) {
            self.core.policy.prepare(&mut self.fabric);
        }
    }

    /// The first of several operations that has completed, and how. A multi-receive has when its messages are
    /// taken, or if it is waited for.
    fn first_completed(
        &mut self,
        requests: &[Request],
        waits: bool,
    ) -> Result<Option<Ended>, Error> {
        for (index, &request) in requests.iter().enumerate() {
            let slot = self.core.requests.look(request)?;
            if slot.stage.is_over() && (waits || !slot.has_more_to_report()) {
                return Ok(Some((index, self.core.requests.finish(request.index))));
            }
        }
        Ok(None)
    }
}

/// The error of a program that does not do again what it did.
fn diverged(answer: Answer, call: &'static str) -> Error {
    Error::Diverged { call, log: answer.to_string() }
}

#[cfg(test)]
mod tests;
