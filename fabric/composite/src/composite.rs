//! The two fabrics, and what concerns the links.

mod fabric;

use crate::leases::Side;
use crate::mutant::Mutant;
use crate::regions::Regions;
use crate::routes::{Route, RouteError, Routes, SetupError};
use crate::segments::Segments;
use crate::side::{FarSink, Names};
use crate::turns::Turns;
use crate::wait::Watch;
use taffrail_fabric::{
    Denied, Fabric, Fault, Head, PeerId, Refused, RemoteKey, Sent, Sink, Source, Wait,
};

/// The rail of the near fabric in keys. Those of the far fabric follow.
const NEAR_RAIL: u8 = 0;
const FAR_RAIL: u8 = 1;

/// A near fabric for the ranks of this node, and a far one for all others.
///
/// The near fabric knows the ranks of its node only, by numbers of its own. The far one knows all ranks of the job by
/// their ranks, and is used for those that the near one does not lead to. What concerns near peers takes one
/// comparison more than over the near fabric alone; while there is no far link the far fabric is not polled.
///
/// Each rank has one route. It is fixed as long as the incarnation of the rank is: a rank that is started again on
/// another node [leaves this one](Self::leave_node) before the far fabric connects with it.
pub struct Composite<Near, Far> {
    /// Dropped before the near fabric, which has the memory that it sends from.
    pub(crate) far: Far,
    pub(crate) near: Near,
    pub(crate) me: PeerId,
    pub(crate) names: Names,
    /// There is a far link, or something else to poll for.
    pub(crate) is_far_active: bool,
    pub(crate) turns: Turns,
    pub(crate) regions: Regions,
    pub(crate) segments: Segments,
    pub(crate) watch: Watch,
}

impl<Near: Fabric + Wait, Far: Fabric + Wait> Composite<Near, Far> {
    /// The fabric of a rank of a job with `ranks` ranks. `node` is the ranks that `near` connects, in the order of the
    /// numbers that it gives them; `far` gives every rank its rank.
    ///
    /// # Errors
    /// [`SetupError`], if the two are not fabrics of one rank, `node` names no ranks of the job or one of them twice, or
    /// the operating system refuses what a wait for both needs.
    pub fn new(near: Near, far: Far, ranks: u32, node: &[PeerId]) -> Result<Self, SetupError> {
        let routes = Routes::new(ranks, node)?;
        let me = far.me();
        match node.get(near.me().index()) {
            Some(rank) if *rank == me => {}
            other => {
                let near = match other {
                    Some(rank) => format!("rank {rank}"),
                    None => format!("number {}, which has no rank", near.me()),
                };
                return Err(SetupError::Different { near, far: me.0 });
            }
        }
        let watch = Watch::default();
        if routes.leave_node() {
            watch.both(&near, &far)?;
        }
        let names = Names::new(node, routes);
        Ok(Composite {
            is_far_active: far.is_active(),
            far,
            near,
            me,
            names,
            turns: Turns::new(),
            regions: Regions::default(),
            segments: Segments::default(),
            watch,
        })
    }

    /// From now on the far fabric leads to a rank of this node: it is started again on another one. This comes before
    /// the far fabric connects with the new incarnation.
    ///
    /// # Errors
    /// [`RouteError::NotDrained`] until the end of its link was handed over and nothing of it can write here any more.
    pub fn leave_node(&mut self, rank: PeerId) -> Result<(), RouteError> {
        let Route::Near(number) = self.names.routes.of(rank) else { return Ok(()) };
        if rank == self.me {
            return Err(RouteError::Myself(rank.0));
        }
        let has_ended = self.names.ended.contains(&rank)
            && self.near.drained(number, self.near.incarnation(number));
        if !has_ended && !Mutant::MovedAtOnce.lives() {
            return Err(RouteError::NotDrained(rank.0));
        }
        self.watch.both(&self.near, &self.far)?;
        self.names.ended.remove(&rank);
        self.names.routes.make_far(rank, number);
        Ok(())
    }
}

impl<Near: Fabric, Far: Fabric> Composite<Near, Far> {
    /// The fabric of the ranks of this node.
    pub fn near(&self) -> &Near {
        &self.near
    }

    /// The fabric of all other ranks.
    pub fn far(&self) -> &Far {
        &self.far
    }

    /// The same, to be changed: for a new connection, say, which the next poll finds.
    pub fn far_mut(&mut self) -> &mut Far {
        self.far_has_something();
        &mut self.far
    }

    #[inline(never)]
    fn send_far(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        let result = self.far.send(to, head, source);
        // It may have begun to connect.
        self.is_far_active = self.is_far_active || self.far.is_active();
        result
    }

    /// Polls the far fabric, if it is its turn.
    #[inline(never)]
    fn poll_far<S: Sink>(&mut self, near_events: usize, sink: &mut S) -> usize {
        if !self.turns.is_due(near_events) {
            return 0;
        }
        let events = self.with_far(sink, |far, sink| far.poll(sink));
        self.segments.is_polled = true;
        self.turns.polled(events > 0);
        events
    }

    /// Calls the far fabric with a sink, and ends links that are not on the route of their peer.
    pub(super) fn with_far<S: Sink>(
        &mut self,
        sink: &mut S,
        call: impl FnOnce(&mut Far, &mut FarSink<'_, S, Near, Far>) -> usize,
    ) -> usize {
        let events = call(&mut self.far, &mut FarSink::new(sink, &mut self.names));
        if !self.names.strangers.is_empty() {
            self.refuse_strangers();
        }
        if std::mem::take(&mut self.names.has_changed) {
            self.is_far_active = self.far.is_active();
        }
        events
    }

    #[cold]
    fn refuse_strangers(&mut self) {
        for (side, peer) in std::mem::take(&mut self.names.strangers) {
            let (rank, of) = match side {
                Side::Near => (self.names.rank(peer), "another node"),
                Side::Far => (peer, "this node"),
            };
            let why = Fault::Protocol {
                place: "route",
                expected: "the link of a rank over the fabric of its node".into(),
                got: format!("rank {rank}, which is of {of}"),
            };
            match side {
                Side::Near => self.near.disconnect(peer, why),
                Side::Far => self.far.disconnect(peer, why),
            }
        }
    }

    /// The fabric's own form of a key, and whether that is the near fabric.
    ///
    /// # Errors
    /// [`Denied`], if the key is not of the rail that leads to the peer.
    fn resolve(&self, peer: PeerId, key: &RemoteKey) -> Result<(Route, RemoteKey), Denied> {
        let route = self.names.routes.of(peer);
        match (route, key.rail().checked_sub(FAR_RAIL)) {
            (Route::Near(_), None) => Ok((route, *key)),
            (Route::Far, Some(rail)) => Ok((route, key.on_rail(rail))),
            (_, rail) if Mutant::RailUnchecked.lives() => {
                Ok((route, key.on_rail(rail.unwrap_or_default())))
            }
            _ => Err(Denied {
                what: "memory behind this key",
                why: format!("rail {} does not lead to rank {peer}", key.rail()),
                remedy: "ask the peer for a new key",
            }),
        }
    }
}
