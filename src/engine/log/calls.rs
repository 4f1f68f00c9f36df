//! The calls of the program: what chance decides of them is an event, or, in a replay, what the log
//! says.

use super::Log;
use super::notes::{BY_CHANCE, CANCELLED, LOGGED, Note, POSTED, SEVERAL};
use crate::engine::claim::Claimed;
use crate::engine::core::Core;
use crate::engine::receive::{posting, status};
use crate::engine::request::Stage;
use crate::engine::wait::Ended;
use crate::{Endpoint, Error, Pattern, Rank, Request, Status};
use taffrail_logging::{Answer, Fate, Name};
use taffrail_matching::{Envelope, MessageId};

#[inline]
pub(crate) fn name(envelope: &Envelope) -> Name {
    Name { source: envelope.source, context: envelope.context, seq: envelope.seq }
}

/// What the replay says of a receive.
enum Told {
    /// Nothing: it is posted like any other.
    Free,
    /// It has this message, which is here.
    Has(MessageId),
    /// It is to get a message that is not here yet, or none.
    Waits,
}

impl Log {
    /// A receive is posted: its note begins. Whether the replay is to be asked about it.
    #[inline]
    pub(crate) fn posted(&mut self, note: &mut Note, from: &Pattern) -> bool {
        note.post = self.recorder.post();
        let by_chance = from.source.is_none() || self.all_events;
        note.flags = if by_chance { POSTED | BY_CHANCE } else { POSTED };
        self.replaying
    }

    /// A receive has got a message without being posted, by chance if it did not name its source.
    #[inline(always)]
    pub(crate) fn record_direct(&mut self, from_any: bool, message: Name) {
        let post = self.recorder.post();
        if from_any || self.all_events {
            let Name { source, context, seq } = message;
            self.log_direct(post, source, context, seq);
        }
    }

    /// Apart, so that messages that are not logged do not pay for it. Not given a name, which would go
    /// through memory: stored in parts, and read whole.
    #[inline(never)]
    fn log_direct(&mut self, post: u32, source: Rank, context: u16, seq: u32) {
        let event = self.recorder.matched(post, Name { source, context, seq });
        self.write(event);
    }

    fn fate(&mut self, request: u32, note: &mut Note) -> Told {
        let told = match self.replay.fate(note.post) {
            Fate::Messages(messages) => {
                note.set_name(messages[0].context, messages[0].seq);
                note.flags |= LOGGED;
                match self.reserved.remove(&messages[0]) {
                    Some(id) => Told::Has(id),
                    None => {
                        self.awaited.insert(messages[0], request);
                        Told::Waits
                    }
                }
            }
            Fate::Cancelled => {
                note.flags |= CANCELLED | LOGGED;
                Told::Waits
            }
            Fate::Free => Told::Free,
        };
        self.look_at_replay();
        told
    }

    /// A receive has got a message: an event, if chance has decided it.
    #[inline]
    pub(crate) fn record_match(&mut self, note: &mut Note, message: Name) {
        note.set_name(message.context, message.seq);
        if note.is_to_be_logged() {
            self.log_match(note, message);
        }
    }

    #[inline(never)]
    fn log_match(&mut self, note: &mut Note, message: Name) {
        if !note.has(SEVERAL) {
            note.flags |= LOGGED;
        }
        let event = self.recorder.matched(note.post, message);
        self.write(event);
    }

    /// What becomes of a poll.
    pub(super) fn ask(&mut self) -> Answer {
        if let Some(answer) = self.asked.take() {
            return answer;
        }
        let answer = if self.replaying { self.replay.poll() } else { Answer::Free };
        self.look_at_replay();
        answer
    }

    pub(super) fn look_at_replay(&mut self) {
        if self.replaying && self.replay.is_over() {
            self.replaying = false;
            tracing::debug!("the replay is over");
        }
    }

    #[inline(always)]
    pub(super) fn found(&mut self, index: usize) {
        let event = self.recorder.found(index as u32);
        self.write(event);
    }

    pub(super) fn found_nothing(&mut self) {
        if let Some(event) = self.recorder.found_nothing() {
            self.write(event);
        }
    }
}

/// The error of a program that does not do again what it did.
pub(super) fn diverged(answer: Answer, call: &'static str) -> Error {
    Error::Diverged { call, log: answer.to_string() }
}

impl Endpoint {
    #[inline]
    #[expect(clippy::expect_used, reason = "called only where messages are logged")]
    pub(super) fn log(&mut self) -> &mut Log {
        self.core.log.as_mut().expect("only called when messages are logged")
    }

    /// Posts a receive that the replay may know of. `false`: it does not.
    #[inline(never)]
    pub(crate) fn post_replayed(&mut self, request: u32) -> bool {
        let Core { log: Some(log), requests, .. } = &mut self.core else { return false };
        match log.fate(request, &mut requests.get(request).note) {
            Told::Free => return false,
            Told::Waits => {}
            Told::Has(id) => self.receive_reserved(request, id),
        }
        true
    }

    /// Receives a message that was kept for this receive.
    pub(super) fn receive_reserved(&mut self, request: u32, id: MessageId) {
        if let Some((env, found)) = self.core.matcher.take_message(id) {
            self.core.receive_unexpected(request, env, found);
            self.act();
        }
    }

    /// As [`test`](Self::test).
    pub(crate) fn test_logged(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.core.requests.look(request)?;
        match self.log().ask() {
            Answer::Free => {
                let mut ended = self.try_finish(request).transpose();
                if ended.is_none() {
                    self.turn();
                    self.end_of_any_source();
                    ended = self.try_finish(request).transpose();
                }
                match &ended {
                    Some(_) => self.log().found(0),
                    None => self.log().found_nothing(),
                }
                ended.transpose()
            }
            Answer::Nothing => {
                self.turn();
                Ok(None)
            }
            Answer::Found(_) => self.wait_for(request.index).map(Some),
            other => Err(diverged(other, "a test of a request")),
        }
    }

    /// As [`wait_any`](Self::wait_any).
    pub(crate) fn wait_any_logged(&mut self, requests: &[Request]) -> Result<Ended, Error> {
        match self.log().ask() {
            Answer::Free => {
                let ended = self.wait_first(requests)?;
                self.log().found(ended.0);
                Ok(ended)
            }
            Answer::Found(index) if (index as usize) < requests.len() => {
                self.wait_found(requests, index as usize)
            }
            other => Err(diverged(other, "a wait for one of several requests")),
        }
    }

    /// As [`test_any`](Self::test_any).
    pub(crate) fn test_any_logged(&mut self, requests: &[Request]) -> Result<Option<Ended>, Error> {
        match self.log().ask() {
            Answer::Free => {
                let mut ended = self.test_first(requests)?;
                if ended.is_none() {
                    self.turn();
                    self.end_of_any_source();
                    ended = self.test_first(requests)?;
                }
                match &ended {
                    Some((index, _)) => self.log().found(*index),
                    None => self.log().found_nothing(),
                }
                Ok(ended)
            }
            Answer::Nothing => {
                self.turn();
                Ok(None)
            }
            Answer::Found(index) if (index as usize) < requests.len() => {
                self.wait_found(requests, index as usize).map(Some)
            }
            other => Err(diverged(other, "a test of several requests")),
        }
    }

    /// Waits for the request that, by the replay, is over first.
    fn wait_found(&mut self, requests: &[Request], index: usize) -> Result<Ended, Error> {
        self.core.requests.look(requests[index])?;
        Ok((index, self.wait_for(requests[index].index)))
    }

    /// As [`probe`](Self::probe).
    pub(crate) fn probe_logged(&mut self, from: &Pattern) -> Result<Option<Status>, Error> {
        match self.log().ask() {
            Answer::Free => {
                self.await_what_lies_ahead();
                let found = self.look_logged(from)?;
                let found = found.map(|envelope| (name(&envelope), status(&envelope)));
                Ok(self.saw(found, |log, name| log.recorder.probed(name)))
            }
            Answer::Found(_) => Err(self.wait_for_silence(from)),
            Answer::Nothing => {
                self.turn();
                Ok(None)
            }
            Answer::Probed(name) => {
                self.wait_for_message(name);
                Ok(self.core.waiting_message(name).map(|(_, envelope)| status(&envelope)))
            }
            other => Err(diverged(other, "a probe")),
        }
    }

    /// As [`claim`](Self::claim).
    pub(crate) fn claim_logged(&mut self, from: &Pattern) -> Result<Option<Claimed>, Error> {
        match self.log().ask() {
            Answer::Free => {
                self.await_what_lies_ahead();
                self.look_logged(from)?;
                let claimed = self.core.matcher.claim(&posting(from));
                let found = claimed.map(|(id, envelope)| (name(&envelope), (id, envelope)));
                let claimed = self.saw(found, |log, name| log.recorder.claimed(name));
                Ok(claimed.map(|(id, envelope)| self.claimed(id, &envelope)))
            }
            Answer::Found(_) => Err(self.wait_for_silence(from)),
            Answer::Nothing => {
                self.turn();
                Ok(None)
            }
            Answer::Claimed(name) => {
                self.wait_for_message(name);
                self.log().reserved.remove(&name);
                let found = self.core.waiting_message(name);
                Ok(found.map(|(id, envelope)| self.claimed(id, &envelope)))
            }
            other => Err(diverged(other, "a claim")),
        }
    }

    /// As [`look_for`](Self::look_for). That nobody is left to send such a message is determined, but
    /// when that is found is not.
    fn look_logged(&mut self, from: &Pattern) -> Result<Option<Envelope>, Error> {
        let found = self.look_for(from);
        if let Err(Error::PeerFailed { .. }) = found {
            self.log().found(0);
        }
        found
    }

    /// Makes progress until nobody is left to send such a message: the error of that.
    #[expect(clippy::expect_used, reason = "the wait ends only when there is such an error")]
    fn wait_for_silence(&mut self, from: &Pattern) -> Error {
        self.wait_until(|endpoint| endpoint.gone(from).is_some());
        self.gone(from).expect("the wait has ended")
    }

    /// Logs what a look for a message has found.
    fn saw<T>(
        &mut self,
        found: Option<(Name, T)>,
        event: impl FnOnce(&mut Log, Name) -> taffrail_logging::Clocked,
    ) -> Option<T> {
        let log = self.log();
        match found {
            Some((name, found)) => {
                let event = event(log, name);
                log.write(event);
                Some(found)
            }
            None => {
                log.found_nothing();
                None
            }
        }
    }

    /// Makes progress until a message is there that, by the replay, nobody has received yet.
    fn wait_for_message(&mut self, name: Name) {
        self.wait_until(|endpoint| endpoint.core.waiting_message(name).is_some());
    }

    /// As [`cancel`](Self::cancel), of a receive. That the message came first is chance, also where it
    /// is determined which message that is.
    pub(crate) fn cancel_logged(&mut self, request: Request) -> Result<bool, Error> {
        self.core.requests.look(request)?;
        self.finish_several(request.index);
        let slot = self.core.requests.look(request)?;
        let (stage, note, source) = (slot.stage, slot.note, slot.status.source);
        let post = slot.post.take();
        if !note.has(POSTED) {
            return Ok(false);
        }
        if let Some(post) = post.filter(|_| stage == Stage::Posted) {
            self.core.matcher.cancel(post);
            let event = self.log().recorder.cancelled(note.post);
            self.log().write(event);
        } else if !note.has(CANCELLED) || stage != Stage::Posted {
            // Of a multi-receive each is an event already.
            let is_event = note.has(LOGGED) || note.has(SEVERAL);
            if let Some(message) = note.name(source).filter(|_| !is_event) {
                let Core { log: Some(log), requests, .. } = &mut self.core else {
                    return Ok(false);
                };
                log.log_match(&mut requests.get(request.index).note, message);
            }
            return Ok(false);
        }
        self.core.fail(request.index, Error::Cancelled);
        Ok(true)
    }
}

impl Core {
    /// A message that was claimed is being received.
    pub(crate) fn receives(&mut self, request: u32, envelope: &Envelope) {
        self.requests.get(request).note.set_name(envelope.context, envelope.seq);
    }

    /// A message that no receive has got, and its handle.
    pub(super) fn waiting_message(&self, name: Name) -> Option<(MessageId, Envelope)> {
        let mut all = self.matcher.unexpected_from(name.source).chain(self.matcher.claimed());
        let this = |(id, envelope, _): (MessageId, &Envelope, _)| {
            (super::calls::name(envelope) == name).then_some((id, *envelope))
        };
        all.find_map(this)
    }
}
