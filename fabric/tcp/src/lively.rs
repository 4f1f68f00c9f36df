//! The peer that answers: its connection is read at once, without asking first which ones are ready.

use taffrail_fabric::PeerId;

/// One in this many polls reads all connections.
const ONE_IN: u32 = 4;
/// Polls without anything from a peer after which it is like all others.
const MAX_QUIET: u32 = 64;

/// The peer of the last message.
#[derive(Default)]
pub(crate) struct Lively {
    peer: Option<PeerId>,
    polls: u32,
    quiet: u32,
    /// It was the lively one, and nobody is.
    former: Option<PeerId>,
}

impl Lively {
    /// The peer that alone is read in this poll; `None` if all are looked at.
    #[inline]
    pub(crate) fn only(&mut self) -> Option<PeerId> {
        let peer = self.peer?;
        self.polls += 1;
        self.quiet += 1;
        if self.quiet > MAX_QUIET {
            self.former = self.peer.take();
        }
        (!self.polls.is_multiple_of(ONE_IN)).then_some(peer)
    }

    /// The peer that has become quiet, once.
    #[inline]
    pub(crate) fn take_former(&mut self) -> Option<PeerId> {
        self.former.take()
    }

    /// Something has come of a peer that was read. The one that it takes the place of, if it is another one.
    #[inline]
    pub(crate) fn found(&mut self, peer: PeerId) -> Option<PeerId> {
        self.quiet = 0;
        self.peer.replace(peer).filter(|former| *former != peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lively_peer_is_read_alone_but_for_every_fourth_poll_and_until_it_is_quiet() {
        let (mut lively, peer) = (Lively::default(), PeerId(3));
        assert_eq!(lively.only(), None);
        assert_eq!(lively.found(PeerId(2)), None);
        assert_eq!(lively.found(peer), Some(PeerId(2)));
        assert_eq!(lively.found(peer), None);
        for round in 1..=MAX_QUIET {
            let expected = (round % ONE_IN != 0).then_some(peer);
            assert_eq!(lively.only(), expected, "poll {round}");
        }
        assert_eq!(lively.take_former(), None);
        lively.only();
        assert_eq!((lively.take_former(), lively.take_former()), (Some(peer), None));
        assert_eq!((0..100).find_map(|_| lively.only()), None, "it is quiet");
    }
}
