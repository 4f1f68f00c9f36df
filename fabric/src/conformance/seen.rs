//! The sink of the suite.

use super::ram::Ram;
use crate::{
    Body, Fabric, Fault, Head, Lease, LinkEvent, Payload, PeerId, Sink, Take, Token, UserBuf,
};
use std::sync::{Mutex, PoisonError};

/// Receive buffers that it keeps at a time.
const KEPT_MAX: usize = 8;
/// Bytes behind the memory for a rest that stay as they are.
const GUARD: usize = 16;
/// Tokens of rests begin here.
const RESTS: u64 = 1 << 62;

/// Memory for rests that have not ended: a fabric that outlives its sink may still write there.
static UNENDED: Mutex<Vec<Ram>> = Mutex::new(Vec::new());

/// What a fabric handed to its sink and nobody has taken yet.
pub(crate) struct Seen {
    pub(crate) messages: Vec<(PeerId, Head, Vec<u8>)>,
    pub(crate) sent: Vec<(Token, Result<(), Fault>)>,
    pub(crate) completed: Vec<(Token, Result<(), Fault>)>,
    pub(crate) failed: Vec<(PeerId, Fault)>,
    /// It takes a part of some streams only.
    pub(crate) is_picky: bool,
    /// Bytes of streams that it did not want.
    pub(crate) unwanted: usize,
    /// Rests that are under way.
    pub(crate) rests: Vec<Rest>,
    /// Receive buffers that it keeps.
    pub(crate) kept: Vec<HeldLease>,
    /// It returns receive buffers now and then.
    pub(crate) returns: bool,
    last_rest: u64,
    random: fastrand::Rng,
    calls: usize,
}

/// The rest of a message that is under way.
pub(crate) struct Rest {
    from: PeerId,
    head: Head,
    here: Vec<u8>,
    into: Ram,
    token: Token,
}

/// A leased receive buffer, and a copy of its bytes at arrival.
pub(crate) struct HeldLease {
    payload: Payload<'static>,
    bytes: Vec<u8>,
    lease: Lease,
}

// SAFETY: the buffer is only read, on the thread that has its fabric.
unsafe impl Send for HeldLease {}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            messages: Vec::new(),
            sent: Vec::new(),
            completed: Vec::new(),
            failed: Vec::new(),
            is_picky: false,
            unwanted: 0,
            rests: Vec::new(),
            kept: Vec::new(),
            returns: true,
            last_rest: RESTS,
            random: fastrand::Rng::with_seed(1),
            calls: 0,
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut unended = UNENDED.lock().unwrap_or_else(PoisonError::into_inner);
        unended.extend(self.rests.drain(..).map(|rest| rest.into));
    }
}

impl Sink for Seen {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        assert!(
            self.failed.iter().all(|&(peer, _)| peer != from),
            "a message of {from} after the end of its link was reported"
        );
        self.assert_no_rest(from, "a message");
        self.calls += 1;
        match body {
            Body::Whole(payload) => {
                self.messages.push((from, head, payload.to_vec()));
                Take::Done
            }
            Body::Leased(payload, Lease(lease)) => {
                self.messages.push((from, head, payload.to_vec()));
                if self.kept.len() == KEPT_MAX || self.random.bool() {
                    return Take::Done;
                }
                // SAFETY: the lease is held, and the buffer is not read after its return.
                let kept = unsafe { payload.kept() };
                let bytes = payload.to_vec();
                self.kept.push(HeldLease { payload: kept, bytes, lease: Lease(lease) });
                Take::Keep(Lease(lease))
            }
            Body::Stream { here, left } => self.stream(from, head, here.to_vec(), left),
        }
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        self.sent.push((token, result));
        self.calls += 1;
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.calls += 1;
        let Some(at) = self.rests.iter().position(|rest| rest.token == token) else {
            assert!(token.0 & RESTS == 0 || token.0 >> 63 == 1, "a rest has ended twice");
            return self.completed.push((token, result));
        };
        let Rest { from, head, mut here, into, token: Token(guard) } = self.rests.swap_remove(at);
        let mut rest = into.read();
        let room = rest.len() - GUARD;
        assert!(
            rest[room..].iter().all(|&byte| byte == guard as u8),
            "the rest of a message of {from} was written beyond the {room} bytes for it"
        );
        rest.truncate(room);
        // A message that does not become whole does not arrive.
        if result.is_ok() {
            here.extend(rest);
            self.messages.push((from, head, here));
        }
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        let why = match event {
            LinkEvent::Closed => Fault::Closed,
            LinkEvent::Broken(why) => why,
            LinkEvent::Up(incarnation) => panic!("{peer} is connected once more: {incarnation:?}"),
        };
        assert!(
            self.failed.iter().all(|&(before, _)| before != peer),
            "the end of the link with {peer} was reported twice: the second time because {why}"
        );
        self.assert_no_rest(peer, "the end of the link");
        self.failed.push((peer, why));
        self.calls += 1;
    }
}

impl Seen {
    fn assert_no_rest(&self, from: PeerId, what: &str) {
        let waits = self.rests.iter().any(|rest| rest.from == from);
        assert!(!waits, "{what} of {from} before the rest of its last message");
    }

    /// Takes as much of a stream as it likes.
    fn stream(&mut self, from: PeerId, head: Head, here: Vec<u8>, left: usize) -> Take {
        let room = match self.random.u8(..4) {
            0 if self.is_picky => {
                self.unwanted += left;
                self.messages.push((from, head, here));
                return Take::Done;
            }
            1 if self.is_picky => self.random.usize(..=left),
            _ => left,
        };
        self.unwanted += left - room;
        self.last_rest += 1;
        let into = Ram::new(room + GUARD);
        let token = Token(self.last_rest);
        into.write(0, &vec![token.0 as u8; room + GUARD]);
        // SAFETY: the memory stays until the rest has ended, or nobody polls any more.
        let memory = unsafe { UserBuf::new(into.at(), room) };
        self.rests.push(Rest { from, head, here, into, token });
        Take::Rest(memory, token)
    }

    /// Returns all receive buffers that it keeps, or some. They are as they were.
    pub(crate) fn return_leases<F: Fabric>(&mut self, fabric: &mut F, all: bool) {
        for at in (0..self.kept.len()).rev() {
            if all || self.random.u8(..4) == 0 {
                let HeldLease { payload, bytes, lease } = self.kept.swap_remove(at);
                assert!(
                    payload.to_vec() == bytes,
                    "a receive buffer was written while it was kept"
                );
                fabric.return_lease(lease);
            }
        }
    }
}

/// Polls and checks once. The number returned counts everything that the sink was given, and may count internal
/// progress of the fabric, too.
pub(crate) fn poll<F: Fabric>(fabric: &mut F, seen: &mut Seen) -> usize {
    seen.calls = 0;
    let polled = fabric.poll(seen);
    assert!(polled >= seen.calls, "poll returned {polled} and handed over {}", seen.calls);
    seen.calls = 0;
    let checked = fabric.check(seen);
    assert!(checked >= seen.calls, "check returned {checked} and handed over {}", seen.calls);
    if seen.returns {
        seen.return_leases(fabric, false);
    }
    polled + checked
}
