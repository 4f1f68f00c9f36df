//! The trait that receives what a fabric finds.

use crate::memory::UserBuf;
use crate::{Fault, Head, Incarnation, Payload, PeerId, Token};

/// Names a receive buffer of a fabric.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease(pub u64);

/// The payload of a message that has arrived, as far as it is here.
#[derive(Debug)]
pub enum Body<'a> {
    /// All of it, valid during the call only.
    Whole(Payload<'a>),
    /// All of it, in a receive buffer of the fabric. Valid during the call, and until
    /// [`Fabric::return_lease`](crate::Fabric::return_lease) if the sink answers [`Take::Keep`].
    Leased(Payload<'a>, Lease),
    /// The beginning of it, valid during the call only; `left` more bytes are still to come. Nothing else of this
    /// peer is handed over before them, the end of its link included: a rest that cannot come
    /// any more [ends](Sink::moved) in an error first.
    Stream {
        /// The bytes that are here.
        here: Payload<'a>,
        /// Length of the rest in bytes, above 0.
        left: usize,
    },
}

impl<'a> Body<'a> {
    /// The bytes that are here.
    #[inline]
    pub fn here(&self) -> &Payload<'a> {
        match self {
            Body::Whole(payload) | Body::Leased(payload, _) => payload,
            Body::Stream { here, .. } => here,
        }
    }

    /// Length of the whole payload in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Whole(payload) | Body::Leased(payload, _) => payload.len(),
            Body::Stream { here, left } => here.len() + left,
        }
    }

    /// Whether the message has no payload.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a sink does with the payload of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Take {
    /// It has what it wants. The fabric drops the rest of a [`Body::Stream`], and a [`Body::Leased`] buffer is the
    /// fabric's again.
    Done,
    /// Of [`Body::Leased`]: the sink holds the buffer until [`Fabric::return_lease`](crate::Fabric::return_lease).
    Keep(Lease),
    /// Of [`Body::Stream`]: the rest goes into this memory, and [`Sink::moved`] with this token reports that it is
    /// there. Of a rest that is longer than the memory the fabric drops what does not fit.
    Rest(UserBuf, Token),
}

/// A change of the link with a peer. This is no verdict on the peer ([`Membership`](crate::Membership)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// There is a link, with this incarnation of the peer. Nothing of an earlier incarnation comes afterwards.
    /// Not reported for links that are there when the fabric opens.
    Up(Incarnation),
    /// The peer has closed the link in good order, after its last message.
    Closed,
    /// The link has ended otherwise, after every message that had arrived whole.
    Broken(Fault),
}

/// Receives what [`Fabric::poll`](crate::Fabric::poll) finds.
pub trait Sink {
    /// A message has arrived. Its payload may lie in memory that the peer can still write: it is copied first and
    /// believed afterwards.
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take;

    /// The source of a send that was to end [later](crate::Sent::Later) may be reused. An error means that the
    /// message may not have arrived.
    fn sent(&mut self, token: Token, result: Result<(), Fault>);

    /// A get, a put or the [rest](Take::Rest) of a message is complete.
    fn moved(&mut self, token: Token, result: Result<(), Fault>);

    /// The link with a peer has changed.
    fn link(&mut self, peer: PeerId, event: LinkEvent);
}
