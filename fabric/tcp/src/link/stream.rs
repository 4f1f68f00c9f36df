//! What two processes agree upon of a stream that outlives its connections.

use crate::handshake::Standing;

/// One side's view of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// The name that this side has given to it, not 0.
    session: u64,
    /// The name that the other side has given to it; 0 until it is known.
    peer_session: u64,
    /// Bytes received, over all connections.
    pub(super) received: u64,
    /// How many of them were acknowledged to the peer.
    pub(super) acknowledged: u64,
    /// Connections of the peer that this side has accepted.
    accepted: u32,
    /// How many of this side's the peer had accepted, as it said with the last one.
    peer_accepted: u32,
    /// Whether this side has made the last connection.
    is_mine: bool,
}

/// How the other side's view fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is the same stream.
    Same,
    /// The peer has begun another one.
    Anew,
    /// The peer means one that has ended here.
    Ended,
}

impl Stream {
    pub(crate) fn new(session: u64) -> Stream {
        Stream {
            session,
            peer_session: 0,
            received: 0,
            acknowledged: 0,
            accepted: 0,
            peer_accepted: 0,
            is_mine: false,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing {
            session: self.session,
            peer_session: self.peer_session,
            received: self.received,
            accepted: self.accepted,
        }
    }

    pub(crate) fn fit(&self, theirs: &Standing) -> Fit {
        if theirs.peer_session != 0 && theirs.peer_session != self.session {
            Fit::Ended
        } else if self.peer_session != 0 && self.peer_session != theirs.session {
            Fit::Anew
        } else {
            Fit::Same
        }
    }

    /// Whether the peer called before it had the connection that is up, so that this is not lost.
    pub(crate) fn is_late(&self, theirs: &Standing) -> bool {
        self.is_mine && theirs.accepted < self.peer_accepted
    }

    /// A connection of the peer is accepted.
    pub(crate) fn accept(&mut self, theirs: &Standing) {
        self.peer_session = theirs.session;
        self.accepted += 1;
        self.is_mine = false;
    }

    /// A connection of this side was accepted.
    pub(crate) fn accepted_by(&mut self, theirs: &Standing) {
        self.peer_session = theirs.session;
        self.peer_accepted = theirs.accepted;
        self.is_mine = true;
    }
}
