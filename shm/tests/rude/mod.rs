//! A fabric that deals badly with the end of rank 1, on top of one that deals well with it.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use taffrail_fabric::{
    Arming, Caps, Cost, Denied, Fabric, Fault, Head, Keep, MemoryError, Payload, PeerId, Refused,
    RegionId, RemoteKey, SegmentId, Sink, Token,
};
use taffrail_shm::Line;

const VICTIM: PeerId = PeerId(1);
const BYSTANDER: PeerId = PeerId(2);
/// Silence after which an impatient fabric takes a peer for dead.
const PATIENCE: Duration = Duration::from_millis(5);

/// What it does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manners {
    /// Nothing.
    Good,
    /// Does not tell of the end.
    Silent,
    /// Tells of it twice.
    Twice,
    /// Tells of the end of another.
    WrongPeer,
    /// Takes a death for a good end, and a good end for a death.
    WrongFault,
    /// Takes a silent peer for a dead one.
    Impatient,
    /// Delivers the last message after it has told of the end.
    Haunt,
    /// Delivers the last message twice.
    Repeat,
    /// Delivers the last message with a byte too few, or too many.
    Tear,
    /// Does not deliver the last message.
    Forget,
    /// Does not tell of gets and puts that the end has ended.
    Abandon,
    /// Takes messages to the dead.
    Accept,
    /// Delivers nothing any more after an end.
    Stall,
    /// Does not give up memory that the dead could reach.
    Clutch,
}

/// The line, with bad manners.
pub struct Rude {
    line: Line,
    state: State,
}

struct State {
    manners: Manners,
    /// The last message of the victim, if it is kept back.
    kept: Option<(Head, Vec<u8>)>,
    /// When the victim was last heard of.
    heard: Option<Instant>,
    ended: bool,
    /// Calls of the sink.
    calls: usize,
}

impl Rude {
    pub fn new(line: Line, manners: Manners) -> Self {
        // Only the tester is rude.
        let manners = if line.me() == PeerId(0) { manners } else { Manners::Good };
        let state = State { manners, kept: None, heard: None, ended: false, calls: 0 };
        Rude { line, state }
    }

    fn spoil<S: Sink>(
        &mut self,
        sink: &mut S,
        call: impl FnOnce(&mut Line, &mut Spoilt<'_, S>) -> usize,
    ) -> usize {
        self.state.calls = 0;
        let mut sink = Spoilt { state: &mut self.state, sink };
        let events = call(&mut self.line, &mut sink);
        sink.lose_patience();
        events.max(self.state.calls)
    }
}

/// What it makes of what the line says.
struct Spoilt<'a, S> {
    state: &'a mut State,
    sink: &'a mut S,
}

impl<S: Sink> Spoilt<'_, S> {
    /// Hands on the message that was kept back.
    fn let_go(&mut self) {
        if let Some((head, bytes)) = self.state.kept.take() {
            self.hand_on(VICTIM, head, &bytes);
        }
    }

    fn hand_on(&mut self, from: PeerId, head: Head, bytes: &[u8]) {
        self.state.calls += 1;
        self.sink.message(from, head, Payload::of(bytes));
    }

    fn tell(&mut self, peer: PeerId, why: Fault) {
        self.state.calls += 1;
        self.sink.failed(peer, why);
    }

    fn lose_patience(&mut self) {
        let late = self.state.heard.is_some_and(|at| at.elapsed() > PATIENCE);
        if self.state.manners == Manners::Impatient && late && !self.state.ended {
            self.state.ended = true;
            self.tell(VICTIM, Fault::Died);
        }
    }

    /// The victim's last message, and the news of its end.
    fn end(&mut self, why: Fault) {
        match self.state.manners {
            Manners::Silent => {}
            Manners::Twice => {
                self.tell(VICTIM, why.clone());
                self.tell(VICTIM, why);
            }
            Manners::WrongPeer => self.tell(BYSTANDER, why),
            Manners::WrongFault if why == Fault::Died => self.tell(VICTIM, Fault::Closed),
            Manners::WrongFault => self.tell(VICTIM, Fault::Died),
            Manners::Haunt => {
                self.tell(VICTIM, why);
                self.let_go();
            }
            Manners::Repeat => {
                let last = self.state.kept.clone();
                self.let_go();
                self.state.kept = last;
                self.let_go();
                self.tell(VICTIM, why);
            }
            Manners::Tear => {
                if let Some((_, bytes)) = &mut self.state.kept
                    && bytes.pop().is_none()
                {
                    bytes.push(0);
                }
                self.let_go();
                self.tell(VICTIM, why);
            }
            _ => self.tell(VICTIM, why),
        }
    }
}

impl<S: Sink> Sink for Spoilt<'_, S> {
    fn message(&mut self, from: PeerId, head: Head, payload: Payload<'_>) {
        let keeps = matches!(
            self.state.manners,
            Manners::Haunt | Manners::Repeat | Manners::Tear | Manners::Forget
        );
        let bytes = payload.to_vec();
        if from != VICTIM {
            if self.state.manners != Manners::Stall || !self.state.ended {
                self.hand_on(from, head, &bytes);
            }
            return;
        }
        if self.state.manners == Manners::Impatient && self.state.ended {
            return;
        }
        self.state.heard = Some(Instant::now());
        self.let_go();
        match keeps {
            true => self.state.kept = Some((head, bytes)),
            false => self.hand_on(from, head, &bytes),
        }
    }

    fn completed(&mut self, token: Token, result: Result<(), Fault>) {
        if self.state.manners != Manners::Abandon || result.is_ok() {
            self.state.calls += 1;
            self.sink.completed(token, result);
        }
    }

    fn failed(&mut self, peer: PeerId, why: Fault) {
        if peer != VICTIM {
            self.tell(peer, why);
        } else if !std::mem::replace(&mut self.state.ended, true) {
            self.end(why);
        }
    }
}

impl Fabric for Rude {
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.spoil(sink, |line, sink| line.poll(sink))
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.spoil(sink, |line, sink| line.check(sink))
    }

    fn send(&mut self, to: PeerId, head: Head, payload: &[u8]) -> Result<(), Refused> {
        let accept = self.state.manners == Manners::Accept;
        match self.line.send(to, head, payload) {
            Err(Refused::Failed(_)) if accept => Ok(()),
            result => result,
        }
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        if self.state.manners == Manners::Clutch && self.state.ended {
            return Err(MemoryError::Unknown { region: region.0, offset: 0 });
        }
        self.line.deregister(region)
    }

    // All else is the line's.

    fn caps(&self) -> &Caps {
        self.line.caps()
    }

    fn me(&self) -> PeerId {
        self.line.me()
    }

    fn peers(&self) -> usize {
        self.line.peers()
    }

    fn send_gather(&mut self, to: PeerId, head: Head, parts: &[&[u8]]) -> Result<(), Refused> {
        self.line.send_gather(to, head, parts)
    }

    fn cut_off(&mut self, peer: PeerId, fault: Fault) {
        self.line.cut_off(peer, fault);
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        self.line.send_cost(to)
    }

    fn get_cost(&self, from: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        self.line.get_cost(from, key, len)
    }

    fn put_cost(&self, to: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        self.line.put_cost(to, key, len)
    }

    unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, MemoryError> {
        // SAFETY: the caller's promise.
        unsafe { self.line.register(at, len) }
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        self.line.alloc(len)
    }

    fn keep_segment(&mut self) -> Result<SegmentId, MemoryError> {
        self.line.keep_segment()
    }

    fn write_segment(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.line.write_segment(segment, at, bytes);
    }

    fn read_segment(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.line.read_segment(segment, at, len)
    }

    fn send_segment(
        &mut self,
        to: PeerId,
        head: Head,
        segment: SegmentId,
        at: usize,
        len: usize,
    ) -> Result<(), Refused> {
        self.line.send_segment(to, head, segment, at, len)
    }

    fn give_back_segment(&mut self, segment: SegmentId) {
        self.line.give_back_segment(segment);
    }

    fn remote_key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        self.line.remote_key(to, region, offset)
    }

    fn bare_key(&mut self, to: PeerId, at: *const u8, len: usize) -> Option<RemoteKey> {
        self.line.bare_key(to, at, len)
    }

    unsafe fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: *mut u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.line.get(from, key, offset, into, len, token) }
    }

    unsafe fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: *const u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.line.put(to, key, offset, source, len, token) }
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.line.map(from, key, len)
    }

    fn arm(&mut self) -> Arming {
        self.line.arm()
    }

    fn disarm(&mut self) {
        self.line.disarm();
    }

    fn sleep(&mut self, limit: Duration) {
        self.line.sleep(limit);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.line.fd()
    }
}
