//! State of the processes of a job: the one source of verdicts (*one-verdict*).

use crate::PeerId;

/// Which start of a rank: 0 at first, one more with every restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u32);

/// A verdict on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The process of this incarnation has ended, and has not finished. Of later incarnations it says nothing.
    Dead(Incarnation),
    /// It runs again, as this incarnation: all earlier ones are dead.
    Restarted(Incarnation),
    /// It has closed its endpoint in good order.
    Finished,
    /// The program of this incarnation has completed, its messages have left, and its events are stable. It answers its peers until all programs have
    /// completed.
    Finalizing(Incarnation),
}

/// Reports which peers are dead, were restarted or have finished. A fabric only reports links: a link may break between two living
/// processes, and a node that is cut off is not dead. Only [`Fault::Died`](crate::Fault::Died) says more: the kernel that
/// both processes share has seen the end of one.
///
/// It is asked a few hundred times a second, so that it is no type parameter of the engine.
pub trait Membership: Send {
    /// Hands over the verdicts since the last call, those on one peer in the order in which they were given.
    fn poll(&mut self, verdict: &mut dyn FnMut(PeerId, Life));

    /// Publishes that the program of this process has completed ([`Life::Finalizing`]). Does nothing where links are the only source of
    /// verdicts.
    fn finalizing(&mut self) {}

    /// Whether no verdict has been given since the last call of [`poll`](Self::poll), as far as can be seen at once.
    fn is_settled(&self) -> bool {
        true
    }
}

/// Membership within one node, where links say all: a link is a connection of two processes that the kernel closes with
/// either, and comes up only with a new one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByLink;

impl Membership for ByLink {
    fn poll(&mut self, _: &mut dyn FnMut(PeerId, Life)) {}
}
