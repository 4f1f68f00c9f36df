//! The calls of a program: sends, receives, and what becomes of them.

#![allow(unsafe_code)] // The engine's calls name memory: that of the requests in `Process`, which outlives the engine.

use super::super::paths::Path;
use super::message::{data, decode, encode, encode_key};
use super::{OnFailure, Process, Sent, Started, What};
use crate::call::{Body, Call as Asked, KEYS, Message, Outcome, Req};
use taffrail_engine::call::{Operation, Outcome as Found};
use taffrail_engine::request::{ANY, Completion};
use taffrail_engine::{Data, Dest, Error, NotNow, Over, Pattern, Rank, Request, Status};
use taffrail_fabric::Fault;
use taffrail_logging::MsgId;
use taffrail_matching::{Envelope, Posting};

/// Bytes that a receive has room for.
const ROOM: usize = 1024;
/// The handler of active messages.
const HANDLER: u16 = 5;
/// A receive of many messages ends when fewer bytes are free: as many as the longest has.
const LEAST: usize = 700;

impl<const S: bool, const L: bool> Process<S, L> {
    /// Makes a call. `None`: it has to wait.
    pub(super) fn make(&mut self, call: &Asked) -> Result<Option<Outcome>, Error> {
        match call {
            Asked::Compute => Ok(Some(Outcome::Done)),
            Asked::Send { to, context, tag, body, sync } => {
                let sent = self.send((*to, *context, *tag), body, *sync)?;
                let Some((seq, (request, bytes))) = sent else { return Ok(None) };
                match sync {
                    true => _ = self.syncs.insert((*to, *context, seq), (request, bytes)),
                    false => self.sends.push((request, bytes)),
                }
                Ok(Some(Outcome::Sent { seq }))
            }
            Asked::Begin { to, context, tag, body, sync } => {
                let sent = self.send((*to, *context, *tag), body, *sync)?;
                Ok(sent.map(|(_, (request, bytes))| self.started(What::Send, request, bytes)))
            }
            Asked::Matched { to, context, seq } => self.matched((*to, *context, *seq)),
            Asked::Post(posting) => {
                let mut bytes = vec![0; ROOM].into_boxed_slice();
                // SAFETY: the bytes are kept as long as the engine.
                let request = unsafe {
                    self.engine.start_recv(pattern(posting), bytes.as_mut_ptr(), bytes.len())?
                };
                Ok(Some(self.started(What::Receive, request, bytes)))
            }
            Asked::PostMany(posting, room) => {
                let mut bytes = vec![0; *room].into_boxed_slice();
                let (at, len) = (bytes.as_mut_ptr(), bytes.len());
                // SAFETY: as above.
                let request = unsafe { self.engine.start_multi(pattern(posting), at, len, LEAST)? };
                Ok(Some(self.started(What::Many, request, bytes)))
            }
            Asked::Wait(req) => self.wait(*req),
            Asked::Test(req) => self.test(*req),
            Asked::WaitAny(reqs) => self.wait_any(reqs),
            Asked::Probe(posting) => {
                Ok(match self.advance(Operation::Probe(&pattern(posting)))? {
                    None => None,
                    Some(Found::Seen(Envelope { source, context, seq, tag, .. })) => {
                        let whole = self.on_failure != OnFailure::Refuse
                            && !self.engine.core.peers[source as usize].has_partial();
                        Some(Outcome::Seen { name: MsgId { source, context, seq }, tag, whole })
                    }
                    Some(_) => Some(Outcome::Nothing),
                })
            }
            Asked::Claim(posting) => self.claim(posting),
            Asked::Cancel(req) => self.cancel(*req),
            Asked::Landed(req) => self.landed(*req).map(Some),
            Asked::Report(req) => {
                let request = self.handle(*req);
                self.engine.core.requests.track(request.index() as u32);
                Ok(Some(Outcome::Done))
            }
            Asked::Activate { to, header, words } => self.activate(*to, *header, *words),
            Asked::NextActive => Ok(Some(self.next_active())),
            Asked::NextEnded { more } => self.next_ended(if *more { 0 } else { 2 }),
            Asked::Lend { to, context, tag, body } => self.lend((*to, *context, *tag), body),
            other => self.reach(other).map(Some),
        }
    }

    /// Starts to send: the number of the message, and its request and bytes. `None`: it has to wait for the disk.
    fn send(
        &mut self,
        to: (Rank, u16, u64),
        body: &Body,
        sync: bool,
    ) -> Result<Option<(u32, Sent)>, Error> {
        let (rank, context, tag) = to;
        let seq = self.number(rank, context);
        let bytes = match context {
            KEYS => encode_key(body.words, (context, seq), &self.key(rank)?),
            _ => encode(body, (context, seq)),
        };
        let to = Dest { rank, context, tag, data: data(body.words, context) };
        // SAFETY: the bytes are kept until the request has ended, or the engine is gone.
        match unsafe { self.engine.start_send(to, bytes.as_ptr(), bytes.len(), sync) } {
            Ok(request) => Ok(Some((seq, (request, bytes)))),
            Err(NotNow::Failed(error)) => Err(error),
            Err(NotNow::Waits) => {
                self.waits_for_disk(seq);
                Ok(None)
            }
        }
    }

    /// The message with this number cannot be logged yet.
    pub(super) fn waits_for_disk(&mut self, seq: u32) {
        self.waiting = Some(seq);
        self.outside.borrow_mut().oracle.paths.reach(Path::SendWaited);
    }

    /// The number of a message that is about to be sent.
    pub(super) fn number(&mut self, to: Rank, context: u16) -> u32 {
        if let Some(seq) = self.waiting.take() {
            return seq;
        }
        let number = self.mark.numbers.entry((to, context)).or_default();
        *number += 1;
        let (me, seq) = (self.engine.rank(), *number - 1);
        self.outside.borrow_mut().oracle.sends(me, to, (context, seq));
        seq
    }

    fn activate(
        &mut self,
        to: Rank,
        header: u64,
        words: [u64; 3],
    ) -> Result<Option<Outcome>, Error> {
        let payload = &encode(&Body { words, pieces: 1 }, (0, 0));
        let sent = self.advance(Operation::SendActive { to, handler: HANDLER, header, payload })?;
        Ok(sent.map(|_| Outcome::Done))
    }

    fn next_active(&mut self) -> Outcome {
        let Some((source, handler, tag, payload)) = self.engine.next_active() else {
            return Outcome::Nothing;
        };
        assert_eq!(handler, HANDLER, "the handler that was named");
        let status = Status { source, tag, len: payload.len(), data: Data::NONE };
        Outcome::Message(decode(&payload, status).0)
    }

    fn matched(&mut self, message: (Rank, u16, u32)) -> Result<Option<Outcome>, Error> {
        let request = self.syncs[&message].0;
        if !self.engine.core.requests.get(request).stage.is_over() {
            return Ok(None);
        }
        self.engine.core.requests.finish(request)?;
        self.syncs.remove(&message);
        Ok(Some(Outcome::Done))
    }

    fn wait(&mut self, req: Req) -> Result<Option<Outcome>, Error> {
        let request = self.handle(req);
        let requests = &mut self.engine.core.requests;
        let slot = requests.look(request)?;
        if !slot.stage.is_over() {
            return Ok(None);
        }
        let from_any = slot.peer == ANY;
        let view = match self.started[req].what {
            What::View => slot.extra().view.take(),
            _ => None,
        };
        let result = requests.finish(request.index() as u32);
        if from_any && result.is_err() && self.on_failure != OnFailure::Refuse {
            let me = self.engine.rank();
            self.outside.borrow_mut().oracle.any_source_fails(me);
        }
        if let (Some(buffer), Ok(status)) = (view, &result) {
            return Ok(Some(self.viewed(req, buffer, *status)));
        }
        self.ended(req, result).map(Some)
    }

    fn test(&mut self, req: Req) -> Result<Option<Outcome>, Error> {
        let requests = [self.handle(req)];
        Ok(match self.advance(Operation::Test(&requests))? {
            None => None,
            Some(Found::Completed((_, result))) => Some(self.ended(req, result)?),
            Some(_) => Some(Outcome::Nothing),
        })
    }

    fn wait_any(&mut self, reqs: &[Req]) -> Result<Option<Outcome>, Error> {
        let requests: Vec<Request> = reqs.iter().map(|&req| self.handle(req)).collect();
        match self.advance(Operation::WaitAny(&requests))? {
            Some(Found::Completed((at, status))) => {
                Ok(Some(Outcome::Any(at, self.message(reqs[at], status?))))
            }
            _ => Ok(None),
        }
    }

    fn claim(&mut self, posting: &Posting) -> Result<Option<Outcome>, Error> {
        match self.advance(Operation::Claim(&pattern(posting)))? {
            None => Ok(None),
            Some(Found::Claimed(id, envelope)) => {
                let claimed = self.engine.claimed(id, &envelope);
                let mut bytes = vec![0; ROOM].into_boxed_slice();
                // SAFETY: the bytes are kept as long as the engine.
                let request = unsafe {
                    self.engine.receive_claimed(claimed, bytes.as_mut_ptr(), bytes.len())?
                };
                Ok(Some(self.started(What::Receive, request, bytes)))
            }
            Some(_) => Ok(Some(Outcome::Nothing)),
        }
    }

    fn cancel(&mut self, req: Req) -> Result<Option<Outcome>, Error> {
        let request = self.handle(req);
        self.outside.borrow_mut().oracle.cancels = true;
        let found = self.advance(Operation::Cancel(request));
        self.outside.borrow_mut().oracle.cancels = false;
        match found? {
            None => Ok(None),
            Some(Found::Cancelled(is_in_time)) => {
                // That of many messages is over when those are here that it has matched; its end is reported.
                if is_in_time && self.started[req].what != What::Many {
                    // Over with an error that says so, which the program does not look at.
                    let _ = self.engine.core.requests.finish(request.index() as u32);
                    self.started[req].request = None;
                }
                Ok(Some(Outcome::Cancelled(is_in_time)))
            }
            Some(_) => Ok(Some(Outcome::Cancelled(false))),
        }
    }

    fn landed(&mut self, req: Req) -> Result<Outcome, Error> {
        let request = self.handle(req);
        Ok(match self.engine.next_landed(request) {
            Ok(Some(landed)) => Outcome::Landed(req, self.part(req, landed.offset, landed.status)),
            // It had told of all when its result was taken.
            Ok(None) | Err(Error::StaleRequest(_)) => {
                self.started[req].request = None;
                Outcome::Nothing
            }
            Err(error) => return Err(error),
        })
    }

    fn next_ended(&mut self, turns: u32) -> Result<Option<Outcome>, Error> {
        let over = match self.decided {
            Some(_) => None,
            None => match self.engine.poll_at_once(turns) {
                Ok(over) => Some(over),
                Err(decision) => {
                    self.decided = Some(decision);
                    None
                }
            },
        };
        let over = match over {
            Some(over) => over,
            None => match self.advance(Operation::PollCompletion(turns))? {
                None => return Ok(None),
                Some(Found::Next(_)) => Over::Next,
                Some(Found::This(request)) => Over::This(request),
                Some(_) => Over::Nothing,
            },
        };
        let requests = &mut self.engine.core.requests;
        let told = match over {
            Over::Nothing => None,
            Over::Next => requests.take_next(),
            Over::This(request) => Some((request, requests.take_completion(request))),
        };
        let Some((request, completion)) = told else { return Ok(Some(Outcome::Nothing)) };
        let is_it = |one: &Started| one.request == Some(request);
        let req = self.started.iter().position(is_it).expect("it was started");
        Ok(Some(match completion {
            Completion::Landed(landed) => {
                let landed = landed?;
                Outcome::Landed(req, self.part(req, landed.offset, landed.status))
            }
            Completion::Ended(result) => {
                let outcome = self.ended(req, result)?;
                self.started[req].request = None;
                match outcome {
                    Outcome::Message(message) => Outcome::Ended(req, Some(message)),
                    _ => Outcome::Ended(req, None),
                }
            }
        }))
    }

    pub(super) fn handle(&self, req: Req) -> Request {
        self.started[req].request.expect("a program asks for requests that are not over")
    }

    /// Something is started, with this memory.
    pub(super) fn started(&mut self, what: What, request: u32, bytes: Box<[u8]>) -> Outcome {
        let request = Some(self.engine.handle(request));
        self.started.push(Started { what, request, bytes, view: None });
        Outcome::Request(self.started.len() - 1)
    }

    /// A request is over.
    fn ended(&mut self, req: Req, result: Result<Status, Error>) -> Result<Outcome, Error> {
        let one = &mut self.started[req];
        match (one.what, result) {
            (What::Receive, Ok(status)) => Ok(Outcome::Message(self.message(req, status))),
            // Its messages may still have to be told.
            (What::Many, Ok(_)) => Ok(Outcome::Done),
            (What::Many, Err(Error::Cancelled)) => Ok(Outcome::Cancelled(true)),
            (What::Send, Err(Error::PeerFailed { fault: Fault::Closed, .. })) => {
                one.request = None;
                Ok(Outcome::Unreceived)
            }
            // The memory of a rank that was killed is gone with it: that is the failure of a peer.
            (What::Get, Err(Error::PeerFailed { rank, fault: Fault::NoSuchMemory(_) }))
                if !self.outside.borrow().oracle.has_died(rank) =>
            {
                one.request = None;
                Ok(Outcome::Refused)
            }
            (What::Get, Ok(_)) => {
                one.request = None;
                Ok(Outcome::Words(super::memory::words(&one.bytes)))
            }
            (_, Ok(_)) => {
                one.request = None;
                Ok(Outcome::Done)
            }
            (_, Err(error)) => Err(error),
        }
    }

    fn message(&mut self, req: Req, status: Status) -> Message {
        self.started[req].request = None;
        self.part(req, 0, status)
    }

    /// A message that was received into the memory of a request.
    fn part(&mut self, req: Req, offset: usize, status: Status) -> Message {
        let (message, key) = decode(&self.started[req].bytes[offset..][..status.len], status);
        if let Some(key) = key {
            self.keys.insert(status.source, key);
        }
        self.outside.borrow_mut().oracle.received(&message);
        message
    }
}

pub(super) fn pattern(posting: &Posting) -> Pattern {
    let Posting { source, context, tag, ignore, .. } = *posting;
    Pattern { source, context, tag, ignore }
}
