//! What the two fabrics report, under the ranks of the job.

use crate::leases::{Leases, Side};
use crate::mutant::Mutant;
use crate::routes::{Route, Routes, first_of_row};
use rustc_hash::FxHashSet;
use std::marker::PhantomData;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Take, Token};

/// What sinks need to know of a composite.
pub(crate) struct Names {
    /// The ranks of this node, by the numbers of the near fabric; empty where they follow each other.
    node: Box<[PeerId]>,
    /// The rank that the near fabric numbers 0, if they do.
    first: u32,
    pub(crate) routes: Routes,
    pub(crate) leases: Leases,
    /// Ranks of this node with a link that has ended, as was reported to the sink.
    pub(crate) ended: FxHashSet<PeerId>,
    /// Peers that a fabric connects to, and the route leads over the other one.
    pub(crate) strangers: Vec<(Side, PeerId)>,
    /// A far link has changed.
    pub(crate) has_changed: bool,
}

impl Names {
    pub(crate) fn new(node: &[PeerId], routes: Routes) -> Names {
        let first = first_of_row(node);
        Names {
            node: if first.is_some() { [].into() } else { node.into() },
            first: first.map_or(0, |rank| rank.0),
            routes,
            leases: Leases::default(),
            ended: FxHashSet::default(),
            strangers: Vec::new(),
            has_changed: false,
        }
    }

    /// The rank that the near fabric gives this number.
    #[inline(always)]
    pub(crate) fn rank(&self, number: PeerId) -> PeerId {
        match self.node.get(number.index()) {
            None => PeerId(self.first + number.0),
            Some(rank) => *rank,
        }
    }
}

/// Whether both fabrics have receive buffers that can be kept.
const fn both_lease<Near: Fabric, Far: Fabric>() -> bool {
    Near::LEASES && Far::LEASES
}

/// The sink of the near fabric.
pub(crate) struct NearSink<'a, S, Near, Far> {
    sink: &'a mut S,
    names: &'a mut Names,
    fabrics: PhantomData<fn() -> (Near, Far)>,
}

impl<'a, S, Near, Far> NearSink<'a, S, Near, Far> {
    #[inline(always)]
    pub(crate) fn new(sink: &'a mut S, names: &'a mut Names) -> Self {
        NearSink { sink, names, fabrics: PhantomData }
    }
}

impl<S: Sink, Near: Fabric, Far: Fabric> Sink for NearSink<'_, S, Near, Far> {
    #[inline(always)]
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        let rank = self.names.rank(from);
        let rank = if Mutant::NearNumbers.lives() { from } else { rank };
        match both_lease::<Near, Far>() {
            false => self.sink.message(rank, head, body),
            true => self.names.leases.hand(Side::Near, self.sink, (rank, head), body),
        }
    }

    #[inline]
    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        self.sink.sent(token, result);
    }

    #[inline]
    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.sink.moved(token, result);
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        let rank = self.names.rank(peer);
        let is_up = matches!(event, LinkEvent::Up(_));
        if self.names.routes.of(rank) != Route::Near(peer) {
            if is_up {
                self.names.strangers.push((Side::Near, peer));
            }
            return;
        }
        match is_up {
            true => self.names.ended.remove(&rank),
            false => self.names.ended.insert(rank),
        };
        self.sink.link(rank, event);
    }
}

/// The sink of the far fabric.
pub(crate) struct FarSink<'a, S, Near, Far> {
    sink: &'a mut S,
    names: &'a mut Names,
    fabrics: PhantomData<fn() -> (Near, Far)>,
}

impl<'a, S, Near, Far> FarSink<'a, S, Near, Far> {
    pub(crate) fn new(sink: &'a mut S, names: &'a mut Names) -> Self {
        FarSink { sink, names, fabrics: PhantomData }
    }
}

impl<S: Sink, Near: Fabric, Far: Fabric> Sink for FarSink<'_, S, Near, Far> {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        if !self.names.routes.is_far(from) && !Mutant::StrangerHeard.lives() {
            self.names.strangers.push((Side::Far, from));
            return Take::Done;
        }
        match both_lease::<Near, Far>() {
            false => self.sink.message(from, head, body),
            true => self.names.leases.hand(Side::Far, self.sink, (from, head), body),
        }
    }

    fn sent(&mut self, Token(token): Token, result: Result<(), Fault>) {
        if Mutant::SentAsMoved.lives() {
            return self.sink.moved(Token(token), result);
        }
        self.sink.sent(Token(token ^ u64::from(Mutant::TokenOfOther.lives())), result);
    }

    fn moved(&mut self, Token(token): Token, result: Result<(), Fault>) {
        self.sink.moved(Token(token ^ u64::from(Mutant::TokenOfOther.lives())), result);
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        self.names.has_changed = true;
        if self.names.routes.is_far(peer) {
            self.sink.link(peer, event);
        } else if matches!(event, LinkEvent::Up(_)) {
            self.names.strangers.push((Side::Far, peer));
        }
    }
}
