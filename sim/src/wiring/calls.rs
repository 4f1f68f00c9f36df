//! The calls of the program.

use super::{Content, Request, State, Trouble, Wiring};
use crate::broken::Broken;
use crate::call::{Call, Message, Outcome, Req};
use taffrail_logging::{Answer, Entry, MsgId, Rank, RecvOutcome, Sending};
use taffrail_matching::{Posted, Posting};

impl Wiring {
    /// What a call comes to, or `None` while it waits: then it is to be made again when something
    /// has arrived. `chance` picks among several requests that are over.
    ///
    /// # Errors
    /// When the program does not do what its log says it did.
    pub fn call(&mut self, call: &Call, chance: usize) -> Result<Option<Outcome>, Trouble> {
        if self.waits_wrongly() {
            return Ok(None);
        }
        let outcome = self.outcome(call, chance)?;
        if let Some(outcome) = &outcome {
            self.count_handed(outcome);
        }
        Ok(outcome)
    }

    fn outcome(&mut self, call: &Call, chance: usize) -> Result<Option<Outcome>, Trouble> {
        let outcome = match call {
            Call::Compute => Outcome::Done,
            Call::Send { to, context, tag, body, sync } => {
                let content = Content { tag: *tag, body: *body, sync: *sync };
                Outcome::Sent { seq: self.send(*to, *context, content) }
            }
            Call::Matched { to, context, seq } => match self.waiting_send(*to, *context, *seq) {
                Some(_) => return Ok(None),
                None => Outcome::Done,
            },
            Call::Post(posting) => Outcome::Request(self.post(*posting)),
            Call::Wait(req) => match self.over(*req) {
                Some(message) => Outcome::Message(message),
                None => return Ok(None),
            },
            Call::Cancel(req) => Outcome::Cancelled(self.cancel(*req)),
            Call::Test(_) | Call::WaitAny(_) | Call::Probe(_) | Call::Claim(_) => {
                return self.poll(call, chance);
            }
            other => unreachable!("only jobs call {other:?}"),
        };
        Ok(Some(outcome))
    }

    fn send(&mut self, to: Rank, context: u16, content: Content) -> u32 {
        if !self.is(Broken::NothingNotLogged)
            && let Some(event) = self.recorder.before_send()
        {
            self.log(event);
        }
        let (seq, sending) = self.outbound.number(&mut self.numbers, to, context);
        if content.sync {
            self.note_sync(to, context, seq, content);
        }
        // Everything of the set falls back together, so what stays inside is not kept.
        let forgets = self.is(Broken::SuppressedNotLogged) && sending == Sending::Suppress;
        if !self.is_fellow(to) && !forgets {
            self.outbound.keep(to, Entry { context, seq, payload: content });
        }
        let holds = sending == Sending::Hold && !self.is(Broken::HeldIsSent);
        let sends_all = self.is(Broken::SuppressedIsSent) || self.is(Broken::DuplicatesDelivered);
        // Who waits to hear of a match asks, also whoever has the message.
        let asks = content.sync && !self.is(Broken::SynchronousSuppressed);
        let has = sending == Sending::Suppress && !sends_all && !asks;
        if !holds && !has {
            self.leave(to, context, seq, content);
        }
        seq
    }

    fn post(&mut self, posting: Posting) -> Req {
        let post = self.recorder.post();
        let req = self.requests.len();
        let by_chance = posting.source.is_none() || self.who.all_events;
        self.requests.push(Request {
            post: Some(post),
            by_chance,
            logged: false,
            state: State::Cancelled,
        });
        match self.replay.recv_outcome(post) {
            // Of the log: it gets this message, which is here or will come, and no other.
            RecvOutcome::Messages(messages) if !self.is(Broken::FateIgnored) => {
                self.requests[req].state = State::Has(messages[0]);
                self.requests[req].logged = true;
                self.answer_if_matched(messages[0]);
            }
            RecvOutcome::Cancelled => self.requests[req].logged = true,
            _ => match self.matcher.post(posting, req) {
                Posted::Queued(id) => self.requests[req].state = State::Waits(id),
                Posted::Matched(envelope, ()) => self.matched(req, super::arrival::name(&envelope)),
            },
        }
        req
    }

    /// A receive has got its message, in the order of the program and the channel, or by chance.
    pub(super) fn matched(&mut self, req: Req, name: MsgId) {
        self.requests[req].state = State::Has(name);
        if self.requests[req].by_chance && !self.is(Broken::MatchNotLogged) {
            self.log_match(req, name);
        }
        self.answer_if_matched(name);
    }

    fn log_match(&mut self, req: Req, name: MsgId) {
        let Some(post) = self.requests[req].post else { return };
        self.requests[req].logged = true;
        let event = self.recorder.matched(post, name);
        self.log(event);
    }

    /// Whether it was cancelled in time. If not, that the message came first is chance, also where
    /// it is determined which message that is.
    fn cancel(&mut self, req: Req) -> bool {
        let Request { post, logged, state, .. } = self.requests[req];
        match state {
            State::Cancelled => true,
            State::Has(name) => {
                if !logged && !self.is(Broken::LateCancelNotLogged) {
                    self.log_match(req, name);
                }
                false
            }
            State::Waits(id) => {
                let cancelled = self.matcher.cancel(id);
                debug_assert_eq!(cancelled, Some(req), "what is matched does not wait");
                self.requests[req].state = State::Cancelled;
                let post = post.expect("claims do not wait");
                let event = self.recorder.cancelled(post);
                self.log(event);
                true
            }
        }
    }

    /// A call whose outcome depends on when it is made: by the log, or else by what is here.
    fn poll(&mut self, call: &Call, chance: usize) -> Result<Option<Outcome>, Trouble> {
        let answer = match self.asked.take() {
            Some(answer) => answer,
            None if self.is(Broken::PollsNotReplayed) => Answer::Free,
            None => self.replay.poll(),
        };
        let outcome = match (answer, call) {
            (Answer::Free, Call::Probe(_) | Call::Claim(_)) if self.waits_to_look() => {
                return Ok(None);
            }
            (Answer::Free, _) => return Ok(self.free_poll(call, chance)),
            (Answer::Nothing, Call::Test(_) | Call::Probe(_) | Call::Claim(_)) => {
                return Ok(Some(Outcome::Nothing));
            }
            (Answer::Found(_), Call::Test(req)) => self.over(*req).map(Outcome::Message),
            (Answer::Found(index), Call::WaitAny(reqs)) if (index as usize) < reqs.len() => {
                let index = index as usize;
                self.over(reqs[index]).map(|message| Outcome::Any(index, message))
            }
            (Answer::Probed(name), Call::Probe(_)) => {
                self.stored.get(&name).map(|m| Outcome::Seen { name, tag: m.envelope.tag })
            }
            (Answer::Claimed(name), Call::Claim(_)) => {
                self.stored.contains_key(&name).then(|| Outcome::Request(self.claimed(name)))
            }
            (answer, call) => {
                return Err(Trouble::Diverged { answer, call: format!("{call:?}") });
            }
        };
        if outcome.is_none() {
            // What the log says is on its way: the same answer when we are called again.
            self.asked = Some(answer);
        }
        Ok(outcome)
    }

    fn free_poll(&mut self, call: &Call, chance: usize) -> Option<Outcome> {
        let found = match call {
            Call::Test(req) => self.over(*req).map(|message| {
                let event = self.recorder.found(0);
                self.log(event);
                Outcome::Message(message)
            }),
            Call::WaitAny(reqs) => {
                let places = (0..reqs.len()).map(|k| (k + chance) % reqs.len());
                let (index, message) =
                    places.into_iter().find_map(|k| Some((k, self.over(reqs[k])?)))?;
                if !self.is(Broken::WaitAnyNotLogged) {
                    let event = self.recorder.found(index as u32);
                    self.log(event);
                }
                Some(Outcome::Any(index, message))
            }
            Call::Probe(posting) => {
                let found = self.matcher.probe(posting).map(|(_, envelope, ())| *envelope);
                found.map(|envelope| {
                    let name = super::arrival::name(&envelope);
                    let event = self.recorder.probed(name);
                    self.log(event);
                    Outcome::Seen { name, tag: envelope.tag }
                })
            }
            Call::Claim(posting) => self.matcher.take(posting).map(|(envelope, ())| {
                let name = super::arrival::name(&envelope);
                let event = self.recorder.claimed(name);
                self.log(event);
                Outcome::Request(self.claimed(name))
            }),
            _ => None,
        };
        if found.is_none()
            && let Some(event) = self.recorder.found_nothing()
        {
            self.log(event);
        }
        Some(found.unwrap_or(Outcome::Nothing))
    }

    fn claimed(&mut self, name: MsgId) -> Req {
        let state = State::Has(name);
        self.requests.push(Request { post: None, by_chance: false, logged: true, state });
        self.answer_if_matched(name);
        self.requests.len() - 1
    }

    /// The message of a request, if it is there whole. Stays: a program looks once.
    fn over(&self, req: Req) -> Option<Message> {
        let State::Has(name) = self.requests[req].state else { return None };
        let stored = self.stored.get(&name).filter(|stored| stored.is_whole())?;
        Some(Message { name, tag: stored.envelope.tag, words: stored.words })
    }
}
