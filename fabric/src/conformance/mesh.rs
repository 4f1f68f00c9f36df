//! Some connected fabrics, stepped by one thread, and what each of them has seen.

use super::Bench;
pub(crate) use super::seen::{Seen, poll};
use crate::{
    Fabric, Fault, Head, Limits, PeerId, Refused, RemoteKey, SegmentId, SendMemory, Sent, Source,
    Token,
};
use std::time::{Duration, Instant};

/// When something is called stuck.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant, Duration);

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        Deadline(Instant::now() + patience, patience)
    }

    /// Panics when the time is over.
    pub(crate) fn check(&self, what: impl std::fmt::Display) {
        assert!(Instant::now() < self.0, "stuck for {:?}: {what}", self.1);
    }
}

/// Fabrics `0..n`, and what each has seen.
pub(crate) struct Mesh<F> {
    /// `None` once dropped.
    pub(crate) fabrics: Vec<Option<F>>,
    pub(crate) seen: Vec<Seen>,
    patience: Duration,
    tokens: u64,
}

impl<F: Fabric> Mesh<F> {
    pub(crate) fn new<B: Bench<Fabric = F>>(bench: &B, n: usize) -> Self {
        let fabrics = bench.mesh(n);
        assert_eq!(fabrics.len(), n, "the bench was asked for a mesh of {n}");
        Mesh {
            fabrics: fabrics.into_iter().map(Some).collect(),
            seen: (0..n).map(|_| Seen::default()).collect(),
            patience: bench.patience(),
            tokens: 0,
        }
    }

    pub(crate) fn at(&mut self, rank: usize) -> &mut F {
        self.fabrics[rank].as_mut().expect("this rank was not dropped")
    }

    /// Polls one rank.
    pub(crate) fn poll(&mut self, rank: usize) -> usize {
        match &mut self.fabrics[rank] {
            Some(fabric) => poll(fabric, &mut self.seen[rank]),
            None => 0,
        }
    }

    /// Polls every rank once.
    pub(crate) fn step(&mut self) -> usize {
        (0..self.fabrics.len()).map(|rank| self.poll(rank)).sum()
    }

    /// Steps until `done`.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Deadline::after(self.patience);
        while !done(self) {
            if self.step() == 0 {
                deadline.check(what);
            }
        }
    }

    /// One rank leaves, once nothing of it would be lost.
    pub(crate) fn leave(&mut self, rank: usize) {
        let peers = self.fabrics.len();
        self.until("everything sent to be out of a leaver's hands", |mesh| {
            (0..peers).all(|to| mesh.at(rank).flushed(peer(to)))
        });
        self.fabrics[rank] = None;
    }

    /// Steps until nothing has happened for a while.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 200 {
            quiet = if self.step() == 0 { quiet + 1 } else { 0 };
        }
    }

    /// Sends, stepping everyone as long as there is no room.
    pub(crate) fn send(&mut self, from: usize, to: usize, head: Head, payload: &[u8]) {
        self.started("room for a message", |mesh| {
            mesh.at(from)
                .send(peer(to), head, Source::Bytes(payload))
                .map(|sent| assert_eq!(sent, Sent::Now))
        })
        .unwrap_or_else(|refused| panic!("send of {} bytes: {refused}", payload.len()));
    }

    /// Steps until a message has come to `rank`, and takes it out.
    pub(crate) fn receive(&mut self, rank: usize) -> (PeerId, Head, Vec<u8>) {
        self.until("a message that was sent", |mesh| !mesh.seen[rank].messages.is_empty());
        self.seen[rank].messages.remove(0)
    }

    /// Hands a key over as users do, in a message, so that it can be resolved on arrival.
    pub(crate) fn hand_over(&mut self, owner: usize, to: usize, key: RemoteKey) -> RemoteKey {
        self.send(owner, to, Head::default(), key.as_bytes());
        let (from, _, bytes) = self.receive(to);
        assert_eq!(from, peer(owner));
        RemoteKey::from_bytes(&bytes).expect("a key of a length that keys have")
    }

    /// A token that was not used before: first the extremes, then one after the other.
    pub(crate) fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(match self.tokens {
            1 => u64::MAX,
            2 => 1 << 63,
            n => n - 3,
        })
    }

    /// Starts something, stepping everyone as long as there is no room.
    pub(crate) fn started<T: PartialEq>(
        &mut self,
        what: &str,
        mut start: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut result = Err(Refused::Busy);
        self.until(what, |mesh| {
            result = start(mesh);
            result != Err(Refused::Busy)
        });
        result
    }

    /// Steps until there is a segment, and takes it.
    pub(crate) fn segment(&mut self, rank: usize) -> SegmentId
    where
        F: SendMemory,
    {
        let mut taken = None;
        self.until("a segment", |mesh| {
            taken = mesh.at(rank).take().expect("a segment, now or later");
            taken.is_some()
        });
        taken.expect("the loop ends with one")
    }

    /// Steps until `token` has ended at `rank`, and takes its result out.
    pub(crate) fn completion(&mut self, rank: usize, token: Token) -> Result<(), Fault> {
        let mut result = None;
        self.until("the end of a get or put", |mesh| {
            let completed = &mut mesh.seen[rank].completed;
            let at = completed.iter().position(|&(ended, _)| ended == token);
            result = at.map(|at| completed.remove(at).1);
            result.is_some()
        });
        result.expect("the loop ends with a result")
    }

    /// Panics if anything is left that no test has taken: duplicates, that is.
    pub(crate) fn assert_nothing_more(&mut self) {
        self.settle();
        for (rank, seen) in self.seen.iter().enumerate() {
            assert!(
                seen.messages.is_empty(),
                "{rank} got {} messages more than were sent",
                seen.messages.len()
            );
            assert!(seen.completed.is_empty(), "{rank} got {:?} once more", seen.completed);
            assert!(
                seen.sent.is_empty(),
                "{rank} got the end of a send once more: {:?}",
                seen.sent
            );
        }
    }
}

/// Sends where there is room, without polling: it is tried some times, for a fabric may refuse without a reason.
pub(crate) fn accepted<F: Fabric>(
    fabric: &mut F,
    to: PeerId,
    head: Head,
    source: Source<'_>,
) -> Result<Sent, Refused> {
    let mut tries = (0..64).map(|_| fabric.send(to, head, source));
    tries.find(|result| *result != Err(Refused::Busy)).unwrap_or(Err(Refused::Busy))
}

/// The peer of a rank.
pub(crate) fn peer(rank: usize) -> PeerId {
    PeerId(u32::try_from(rank).expect("few ranks"))
}

/// What a fabric can do for itself as a peer: the same as for all others.
pub(crate) fn limits(fabric: &impl Fabric) -> &Limits {
    fabric.limits(fabric.me())
}
