//! Who of the job lives: the one source of verdicts (*one-verdict*).

use crate::{Fault, LinkEvent, PeerId};

/// Which start of a rank: 0 at first, one more with every restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u32);

/// A verdict on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process has ended, and has not finished.
    Dead,
    /// It runs again, as this incarnation.
    Restarted(Incarnation),
    /// It has closed its endpoint in good order.
    Finished,
}

/// Says who is dead, was restarted or has finished. A fabric only reports links: a link may break between two living
/// processes, and a node that is cut off is not dead.
pub trait Membership {
    /// The fabric reports this of the link with a peer. The verdict, if that is enough for one.
    fn link(&mut self, peer: PeerId, event: &LinkEvent) -> Option<Life>;

    /// Hands over the verdicts since the last call.
    fn poll(&mut self, verdict: impl FnMut(PeerId, Life));
}

/// Membership within one node, where a link is a connection of two processes that the kernel closes with either: it
/// breaks with [`Fault::Died`] only when the peer's process has ended, and comes up only with a new one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByLink;

impl Membership for ByLink {
    #[inline]
    fn link(&mut self, _: PeerId, event: &LinkEvent) -> Option<Life> {
        match event {
            LinkEvent::Up(incarnation) => Some(Life::Restarted(*incarnation)),
            LinkEvent::Closed => Some(Life::Finished),
            LinkEvent::Broken(Fault::Died) => Some(Life::Dead),
            LinkEvent::Broken(_) => None,
        }
    }

    fn poll(&mut self, _: impl FnMut(PeerId, Life)) {}
}
