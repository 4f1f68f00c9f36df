//! A process: the product's engine over the simulated network, and a program that calls it.

#![allow(unsafe_code)] // The engine's calls name memory: that of the requests in `Process`, which outlives the engine.

use super::host::{Outside, SimHost};
use crate::call::{Body, Call as Asked, Message, Next, Outcome, Program, Req};
use crate::fabric::SimFabric;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::Poll;
use taffrail_engine::call::{Call, Operation, Outcome as Found};
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::vectors::SpillMap;
use taffrail_engine::policy::calls::Decision;
use taffrail_engine::{Data, Dest, Engine, Error, Pattern, Rank, Request, Status};
use taffrail_logging::MsgId;
use taffrail_matching::{Envelope, Posting};

/// The engine of a simulated process.
pub(super) type Simulated<const S: bool, const L: bool> =
    Engine<SimFabric<true, S, L>, Logging<SimHost>>;

/// Bytes that a receive has room for.
const ROOM: usize = 1024;
/// Bytes of a message by the pieces that the program asks for: in one, in several, and announced.
const LENS: [usize; 3] = [32, 120, 700];

/// A process that lives.
pub(super) struct Process<const S: bool, const L: bool> {
    // First, so that it is dropped before the memory that it was told of.
    pub(super) engine: Simulated<S, L>,
    program: Program,
    /// The call that is to be made; none: the program has ended.
    call: Option<Asked>,
    /// What was decided of it, if it was made and has to wait.
    decided: Option<Decision>,
    pub(super) result: Option<u64>,
    /// Where its program is.
    mark: Mark,
    /// It has called since its last checkpoint.
    has_called: bool,
    /// It writes a checkpoint, as soon as all events are stable.
    saves: bool,
    /// How far its end is.
    end: End,
    outside: Rc<RefCell<Outside>>,
    pub(super) spill: Rc<RefCell<SpillMap>>,
    receives: Vec<Receive>,
    sends: Vec<Sent>,
    /// The sends that the program waits for: by receiver, context and number.
    syncs: HashMap<(Rank, u16, u32), Sent>,
}

/// How far a process is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Runs,
    /// It waits until the programs of all others have ended.
    Leaves,
    HasLeft,
}

/// Where a program is: what it was told is its state. The rest is what a process knows of its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark {
    told: Vec<Outcome>,
    receives: usize,
    /// Messages sent so far, by receiver and context.
    numbers: HashMap<(Rank, u16), u32>,
}

/// The request of a send, and its bytes.
type Sent = (u32, Box<[u8]>);

struct Receive {
    request: Option<Request>,
    bytes: Box<[u8]>,
}

impl<const S: bool, const L: bool> Process<S, L> {
    /// A process whose program goes on from where this mark is.
    pub(super) fn new(
        engine: Simulated<S, L>,
        mut program: Program,
        mark: Mark,
        (outside, spill): (Rc<RefCell<Outside>>, Rc<RefCell<SpillMap>>),
    ) -> Self {
        let (call, result) = match program.go_on_from(&mark.told) {
            Next::Call(call) => (Some(call), None),
            Next::End(result) => (None, Some(result)),
        };
        Process {
            engine,
            program,
            call,
            decided: None,
            result,
            receives: (0..mark.receives)
                .map(|_| Receive { request: None, bytes: Box::default() })
                .collect(),
            mark,
            has_called: true,
            saves: false,
            end: End::Runs,
            outside,
            spill,
            sends: Vec::new(),
            syncs: HashMap::new(),
        }
    }

    /// The call that is to be made.
    pub(super) fn call(&self) -> Option<&Asked> {
        self.call.as_ref()
    }

    /// Takes the call of the program as far as it gets. What it has come to, if it is over.
    pub(super) fn run(&mut self) -> Result<Option<Outcome>, Error> {
        if self.saves {
            return self.save().map(|()| None);
        }
        let Some(call) = self.call.take() else { return self.leave().map(|()| None) };
        let outcome = self.make(&call)?;
        let Some(outcome) = outcome else {
            self.call = Some(call);
            return Ok(None);
        };
        (self.decided, self.has_called) = (None, true);
        let me = self.engine.rank();
        self.outside.borrow_mut().oracle.called(me, &call, &outcome);
        self.mark.told.push(outcome.clone());
        match self.program.go_on(Some(outcome.clone())) {
            Next::Call(next) => self.call = Some(next),
            Next::End(result) => self.result = Some(result),
        }
        Ok(Some(outcome))
    }

    /// Whether there is something that it wants to do.
    pub(super) fn has_turn(&self) -> bool {
        self.end != End::HasLeft
    }

    /// Whether its program and those of all others have ended, as it sees it.
    pub(super) fn has_left(&self) -> bool {
        self.end == End::HasLeft
    }

    /// Says that the program has ended, and waits until all have.
    fn leave(&mut self) -> Result<(), Error> {
        if self.end == End::Runs {
            let me = self.engine.rank();
            self.outside.borrow_mut().oracle.ends(me);
            self.engine.begin_to_leave();
            self.end = End::Leaves;
        }
        if let Some(Found::Done) = self.advance(Operation::Leave)? {
            self.engine.leave();
            self.end = End::HasLeft;
        }
        Ok(())
    }

    /// Whether a checkpoint can be begun: the program is between two calls, and was not there at the last one.
    pub(super) fn may_save(&self) -> bool {
        self.has_called && !self.saves && self.decided.is_none() && self.call.is_some()
    }

    /// Begins a checkpoint, unless something is under way.
    pub(super) fn begin_to_save(&mut self) -> Result<bool, Error> {
        self.saves = match self.engine.begin_checkpoint() {
            Ok(begun) => begun,
            Err(Error::Pending { .. }) => false,
            Err(error) => return Err(error),
        };
        Ok(self.saves)
    }

    /// Writes a checkpoint that was begun, if all events are stable.
    fn save(&mut self) -> Result<(), Error> {
        self.mark.receives = self.receives.len();
        let state = (self.mark.told.len() as u64).to_le_bytes();
        let state = [IoSlice::new(&state)];
        if let Some(Found::Done) = self.advance(Operation::Checkpoint(&state))? {
            (self.saves, self.has_called) = (false, false);
            let me = self.engine.rank() as usize;
            self.outside.borrow_mut().marks[me] = self.mark.clone();
        }
        Ok(())
    }

    /// Makes progress, and gives back the memory of sends that have ended.
    pub(super) fn progress(&mut self, looks: bool) -> Result<usize, Error> {
        let mut events = self.engine.progress();
        if looks {
            events += self.engine.check();
            self.engine.end_of_any_source();
        }
        let requests = &mut self.engine.core.requests;
        let over: Vec<u32> = self
            .sends
            .iter()
            .map(|(request, _)| *request)
            .filter(|request| requests.get(*request).stage.is_over())
            .collect();
        self.sends.retain(|(request, _)| !over.contains(request));
        over.into_iter().try_for_each(|request| requests.finish(request).map(drop))?;
        Ok(events)
    }

    /// Makes a call. `None`: it has to wait.
    fn make(&mut self, call: &Asked) -> Result<Option<Outcome>, Error> {
        match call {
            Asked::Compute => Ok(Some(Outcome::Done)),
            Asked::Send { to, context, tag, body, sync } => {
                let to = Dest { rank: *to, context: *context, tag: *tag, data: Data::NONE };
                self.send(to, body, *sync).map(Some)
            }
            Asked::Matched { to, context, seq } => self.matched((*to, *context, *seq)),
            Asked::Post(posting) => {
                let mut bytes = vec![0; ROOM].into_boxed_slice();
                // SAFETY: the bytes are kept as long as the engine.
                let request = unsafe {
                    self.engine.start_recv(pattern(posting), bytes.as_mut_ptr(), bytes.len())?
                };
                Ok(Some(self.received(request, bytes)))
            }
            Asked::Wait(req) => self.wait(*req),
            Asked::Test(req) => {
                let requests = [self.handle(*req)];
                Ok(match self.advance(Operation::Test(&requests))? {
                    None => None,
                    Some(Found::Completed((_, status))) => {
                        Some(Outcome::Message(self.message(*req, status?)))
                    }
                    Some(_) => Some(Outcome::Nothing),
                })
            }
            Asked::WaitAny(reqs) => {
                let requests: Vec<Request> = reqs.iter().map(|&req| self.handle(req)).collect();
                Ok(match self.advance(Operation::WaitAny(&requests))? {
                    Some(Found::Completed((at, status))) => {
                        Some(Outcome::Any(at, self.message(reqs[at], status?)))
                    }
                    _ => None,
                })
            }
            Asked::Probe(posting) => {
                Ok(match self.advance(Operation::Probe(&pattern(posting)))? {
                    None => None,
                    Some(Found::Seen(Envelope { source, context, seq, tag, .. })) => {
                        Some(Outcome::Seen { name: MsgId { source, context, seq }, tag })
                    }
                    Some(_) => Some(Outcome::Nothing),
                })
            }
            Asked::Claim(posting) => self.claim(posting),
            Asked::Cancel(req) => self.cancel(*req),
        }
    }

    fn send(&mut self, to: Dest, body: &Body, sync: bool) -> Result<Outcome, Error> {
        let number = self.mark.numbers.entry((to.rank, to.context)).or_default();
        let (seq, len) = (*number, LENS[usize::from(body.pieces - 1)]);
        *number += 1;
        let me = self.engine.rank();
        self.outside.borrow_mut().oracle.sends(me, to.rank, (to.context, seq));
        let bytes = encode(body.words, (to.context, seq), len);
        // SAFETY: the bytes are kept until the request has ended, or the engine is gone.
        let request = unsafe { self.engine.start_send(to, bytes.as_ptr(), bytes.len(), sync)? };
        match sync {
            true => _ = self.syncs.insert((to.rank, to.context, seq), (request, bytes)),
            false => self.sends.push((request, bytes)),
        }
        Ok(Outcome::Sent { seq })
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
        if !requests.look(request)?.stage.is_over() {
            return Ok(None);
        }
        let status = requests.finish(request.index() as u32)?;
        Ok(Some(Outcome::Message(self.message(req, status))))
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
                Ok(Some(self.received(request, bytes)))
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
            Some(Found::Cancelled(true)) => {
                // Over with an error that says so, which the program does not look at.
                let _ = self.engine.core.requests.finish(request.index() as u32);
                self.receives[req].request = None;
                Ok(Some(Outcome::Cancelled(true)))
            }
            Some(_) => Ok(Some(Outcome::Cancelled(false))),
        }
    }

    fn advance(&mut self, operation: Operation<'_>) -> Result<Option<Found>, Error> {
        let mut call = match self.decided {
            Some(decision) => Call::decided(operation, decision),
            None => Call::new(operation),
        };
        match self.engine.advance(&mut call) {
            Poll::Ready(found) => found.map(Some),
            Poll::Pending => {
                self.decided = call.decision();
                Ok(None)
            }
        }
    }

    fn handle(&self, req: Req) -> Request {
        self.receives[req].request.expect("a program asks for receives that are not over")
    }

    fn received(&mut self, request: u32, bytes: Box<[u8]>) -> Outcome {
        let request = Some(self.engine.handle(request));
        self.receives.push(Receive { request, bytes });
        Outcome::Request(self.receives.len() - 1)
    }

    fn message(&mut self, req: Req, status: Status) -> Message {
        let receive = &mut self.receives[req];
        receive.request = None;
        let (words, (context, seq)) = decode(&receive.bytes[..status.len]);
        Message { name: MsgId { source: status.source, context, seq }, tag: status.tag, words }
    }
}

fn pattern(posting: &Posting) -> Pattern {
    let Posting { source, context, tag, ignore, .. } = *posting;
    Pattern { source, context, tag, ignore }
}

/// The bytes of a message: its words, which one it is, and as many more as make it so long, all of which follow from
/// the words.
fn encode(words: [u64; 3], (context, seq): (u16, u32), len: usize) -> Box<[u8]> {
    let name = u64::from(context) << 32 | u64::from(seq);
    let mut bytes: Vec<u8> =
        words.iter().chain([&name]).flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend((bytes.len()..len).map(|at| fill(words[0], at)));
    bytes.into()
}

fn decode(bytes: &[u8]) -> ([u64; 3], (u16, u32)) {
    let word = |k: usize| u64::from_le_bytes(bytes[8 * k..][..8].try_into().expect("8 bytes"));
    let (words, name) = ([word(0), word(1), word(2)], word(3));
    let whole = (32..bytes.len()).all(|at| bytes[at] == fill(words[0], at));
    assert!(whole, "whole-message: bytes of another message, or none, behind the words {words:x?}");
    (words, ((name >> 32) as u16, name as u32))
}

fn fill(word: u64, at: usize) -> u8 {
    (word as u8).wrapping_mul(31).wrapping_add(at as u8)
}
