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
}

impl Lively {
    /// The peer that alone is read in this poll; `None` if all are looked at.
    #[inline]
    pub(crate) fn only(&mut self) -> Option<PeerId> {
        let peer = self.peer?;
        self.polls += 1;
        self.quiet += 1;
        if self.quiet > MAX_QUIET {
            self.peer = None;
        }
        (!self.polls.is_multiple_of(ONE_IN)).then_some(peer)
    }

    /// A peer was read, and something has come of it or not.
    #[inline]
    pub(crate) fn after(&mut self, peer: PeerId, found: bool) {
        if found {
            self.peer = Some(peer);
            self.quiet = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lively_peer_is_read_alone_but_for_every_fourth_poll_and_until_it_is_quiet() {
        let (mut lively, peer) = (Lively::default(), PeerId(3));
        assert_eq!(lively.only(), None);
        lively.after(peer, false);
        assert_eq!(lively.only(), None);
        lively.after(peer, true);
        for round in 1..=MAX_QUIET {
            let expected = (round % ONE_IN != 0).then_some(peer);
            assert_eq!(lively.only(), expected, "poll {round}");
        }
        lively.only();
        assert_eq!((0..100).find_map(|_| lively.only()), None, "it is quiet");
    }
}
