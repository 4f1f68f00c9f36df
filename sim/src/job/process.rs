//! A process: the product's engine over the simulated network, and a program that calls it.

mod calls;
mod memory;
mod message;

pub(super) use memory::drop_view;

use super::host::{Outside, SimHost};
use super::paths::Path;
use crate::call::{Call as Asked, Next, Outcome, Program};
use crate::case::Case;
use crate::fabric::SimFabric;
use memory::Window;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::Poll;
use taffrail_engine::call::{Call, Operation, Outcome as Found};
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::vectors::SpillMap;
use taffrail_engine::one_sided::RemoteMemory;
use taffrail_engine::policy::Policy;
use taffrail_engine::policy::calls::Decision;
use taffrail_engine::view::View;
use taffrail_engine::{Engine, Error, Rank, Request};
use taffrail_fabric::Fault;

/// The engine of a simulated process: as in the product, whether messages are logged is known when the job starts.
pub(super) type Simulated<const S: bool, const L: bool> =
    Engine<SimFabric<true, S, L>, Option<Box<Logging<SimHost>>>>;

/// A process that lives.
pub(super) struct Process<const S: bool, const L: bool> {
    // First, so that it is dropped before the memory that it was told of.
    pub(super) engine: Simulated<S, L>,
    program: Program,
    /// The call that is to be made; none: the program has ended.
    call: Option<Asked>,
    /// What was decided of it, if it was made and has to wait.
    decided: Option<Decision>,
    /// The number of the message of a send that waits for the disk.
    waiting: Option<u32>,
    pub(super) result: Option<u64>,
    /// Where its program is.
    mark: Mark,
    /// It has called since its last checkpoint.
    has_called: bool,
    /// It writes a checkpoint, as soon as all events are stable.
    saves: bool,
    /// How far its end is.
    end: End,
    pub(super) on_failure: OnFailure,
    outside: Rc<RefCell<Outside>>,
    pub(super) spill: Rc<RefCell<SpillMap>>,
    incarnation: u32,
    /// What the program has started, by the numbers of its requests.
    started: Vec<Started>,
    sends: Vec<Sent>,
    /// The sends that the program waits for: by receiver, context and number.
    syncs: HashMap<(Rank, u16, u32), Sent>,
    /// The memory that others reach, and how this rank reaches that of others.
    window: Option<Window>,
    keys: HashMap<Rank, RemoteMemory>,
}

/// What a program does when a call of it fails with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFailure {
    /// None must fail.
    Refuse,
    /// It is handed the error, and continues.
    Continue,
    /// It ends, and its process with it.
    Die,
}

impl OnFailure {
    pub(super) fn of(case: &Case) -> Self {
        match case.deaths {
            false => OnFailure::Refuse,
            true if case.workload.tolerates_failures() => OnFailure::Continue,
            true => OnFailure::Die,
        }
    }
}

/// How far a process is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Runs,
    /// It waits until the programs of all others have ended.
    Leaves,
    /// It waits until nothing is under way: messages are not logged.
    Finalizes,
    HasLeft,
    /// A peer has died.
    Failed,
}

/// Where a program is: what it was told is its state. The rest is what a process knows of its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark {
    told: Vec<Outcome>,
    started: usize,
    /// Messages sent so far, by receiver and context.
    numbers: HashMap<(Rank, u16), u32>,
}

/// The request of a send, and its bytes.
type Sent = (u32, Box<[u8]>);

/// Something that the program has a request of.
struct Started {
    what: What,
    request: Option<Request>,
    /// The memory that it names.
    bytes: Box<[u8]>,
    /// What it has received in place.
    view: Option<View>,
}

/// What a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Receive,
    View,
    Many,
    Send,
    Get,
    Put,
    /// Of a process before this one.
    Former,
}

impl<const S: bool, const L: bool> Process<S, L> {
    /// A process whose program goes on from where this mark is.
    pub(super) fn new(
        engine: Simulated<S, L>,
        mut program: Program,
        (mark, incarnation): (Mark, u32),
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
            waiting: None,
            result,
            incarnation,
            started: (0..mark.started)
                .map(|_| Started {
                    what: What::Former,
                    request: None,
                    bytes: Box::default(),
                    view: None,
                })
                .collect(),
            mark,
            has_called: true,
            saves: false,
            end: End::Runs,
            on_failure: OnFailure::Refuse,
            outside,
            spill,
            sends: Vec::new(),
            syncs: HashMap::new(),
            window: None,
            keys: HashMap::new(),
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
        let outcome = match self.make(&call) {
            Err(error) if self.on_failure != OnFailure::Refuse => Some(self.failed(&call, error)?),
            outcome => outcome?,
        };
        let Some(outcome) = outcome else {
            self.call = Some(call);
            return Ok(None);
        };
        self.has_called = true;
        let me = self.engine.rank();
        self.outside.borrow_mut().oracle.called(me, &call, &outcome);
        self.mark.told.push(outcome.clone());
        if matches!(outcome, Outcome::Failed(_)) && self.on_failure == OnFailure::Die {
            self.end = End::Failed;
            return Ok(Some(outcome));
        }
        match self.program.go_on(Some(outcome.clone())) {
            Next::Call(next) => self.call = Some(next),
            Next::End(result) => self.result = Some(result),
        }
        Ok(Some(outcome))
    }

    /// A call has failed, or a request that it asks for: with a peer that is gone.
    fn failed(&mut self, call: &Asked, error: Error) -> Result<Outcome, Error> {
        let me = self.engine.rank();
        let failed = self.outside.borrow_mut().oracle.fails(me, &error).ok_or(error)?;
        if let Asked::Wait(req) | Asked::Test(req) = call {
            self.started[*req].request = None;
        }
        Ok(Outcome::Failed(failed))
    }

    /// Whether its program has ended with a peer that is gone.
    pub(super) fn ends_with_peer(&self) -> bool {
        self.end == End::Failed
    }

    /// Whether there is something that it wants to do.
    pub(super) fn has_turn(&self) -> bool {
        self.end != End::HasLeft
    }

    /// Whether its program and those of all others have ended, as it sees it.
    pub(super) fn has_left(&self) -> bool {
        self.end == End::HasLeft
    }

    /// Says that the program has ended, and waits until all have; or, if messages are not logged, until nothing is under way.
    fn leave(&mut self) -> Result<(), Error> {
        let me = self.engine.rank();
        if self.end == End::Runs {
            self.outside.borrow_mut().oracle.ends(me, self.incarnation);
            self.engine.give_all_back();
            self.end = match self.engine.begin_to_leave() {
                true => End::Leaves,
                false => End::Finalizes,
            };
            self.engine.begin_to_finalize();
        }
        let operation = match self.end {
            End::Leaves => Operation::Leave,
            _ => Operation::Finalize,
        };
        if let Some(Found::Done) = self.advance(operation)? {
            if self.end == End::Leaves {
                let log = self.engine.core.policy.as_ref();
                let known: Vec<u32> = log.into_iter().flat_map(|log| log.incarnations()).collect();
                self.outside.borrow_mut().oracle.goes(me, &known);
                self.engine.leave();
            }
            self.end = End::HasLeft;
        }
        Ok(())
    }

    /// Closes the endpoint. Views live on.
    pub(super) fn close(self) -> Vec<View> {
        self.started.into_iter().filter_map(|one| one.view).collect()
    }

    /// Whether a checkpoint can be begun: the program is between two calls, and was not there at the last one. It is not tried
    /// in vain: a program that tries does so in each execution, and this one does not ask for it.
    pub(super) fn may_save(&self) -> bool {
        let is_between = self.decided.is_none() && self.waiting.is_none() && self.call.is_some();
        let is_idle = self.started.iter().all(|one| one.request.is_none())
            && self.sends.is_empty()
            && self.syncs.is_empty();
        self.has_called
            && !self.saves
            && is_between
            && is_idle
            && !self.engine.core.policy.is_replaying()
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
        self.mark.started = self.started.len();
        let state = (self.mark.told.len() as u64).to_le_bytes();
        let state = [IoSlice::new(&state)];
        if let Some(Found::Done) = self.advance(Operation::Checkpoint(&state))? {
            (self.saves, self.has_called) = (false, false);
            let me = self.engine.rank() as usize;
            self.outside.borrow_mut().marks[me] = self.mark.clone();
        }
        Ok(())
    }

    /// Which paths the frames that could not leave are on.
    fn look_at_queues(&self) {
        for peer in self.engine.core.peers.iter().filter(|peer| peer.backlog_len() > 0) {
            let paths = &mut self.outside.borrow_mut().oracle.paths;
            if peer.waits_at_gate() {
                paths.reach(Path::FrameAtGate);
            }
            if peer.has_withheld() {
                paths.reach(Path::SenderStopped);
            }
            if peer.has_pages() {
                paths.reach(Path::PageSent);
            }
        }
    }

    /// Makes progress, and gives back the memory of sends that have ended.
    pub(super) fn progress(&mut self, looks: bool) -> Result<usize, Error> {
        let mut events = self.engine.progress();
        self.look_at_queues();
        if looks {
            events += self.engine.check();
            self.engine.end_of_any_source();
        }
        let me = self.engine.rank();
        let requests = &mut self.engine.core.requests;
        let over: Vec<u32> = self
            .sends
            .iter()
            .map(|(request, _)| *request)
            .filter(|request| requests.get(*request).stage.is_over())
            .collect();
        self.sends.retain(|(request, _)| !over.contains(request));
        for request in over {
            match requests.finish(request) {
                // It closes in good order, and had got the message or did not want it; the end of the send came too late.
                Ok(_) | Err(Error::PeerFailed { fault: Fault::Closed, .. }) => {}
                // Nobody waits for it.
                Err(error) if self.on_failure != OnFailure::Refuse => {
                    self.outside.borrow_mut().oracle.fails(me, &error).ok_or(error)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(events)
    }

    fn advance(&mut self, operation: Operation<'_>) -> Result<Option<Found>, Error> {
        // Of this operation alone: a checkpoint leaves nothing behind for the call after it.
        let mut call = match self.decided.take() {
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
}
