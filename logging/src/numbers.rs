//! The numbers of messages: one table for those that are sent and those that arrive.

use crate::{MsgId, Rank};
use std::collections::BTreeMap;

/// The next numbers of all channels of a rank, by the peer at their other end. Every channel begins with 0.
///
/// # Panics
/// Its functions, if there is no such rank.
#[derive(Clone, Debug)]
pub struct Numbers {
    peers: Vec<PeerNumbers>,
}

/// The next numbers of the channels with one peer.
#[derive(Clone, Debug, Default)]
pub struct PeerNumbers {
    /// Of messages to it: the number that the next one gets.
    pub sent: ChannelNumbers,
    /// Of messages from it: the number that the next one must have.
    pub expected: ChannelNumbers,
}

/// The next numbers of the channels to a peer, or from it, by their contexts.
#[derive(Clone, Debug, Default)]
pub struct ChannelNumbers {
    /// The context of the last message, and the next number there: messages of a channel come in bursts.
    context: u16,
    next: u32,
    /// The next numbers of the other contexts. What is here of the [`context`](Self::context) is out of date.
    #[expect(
        clippy::box_collection,
        reason = "an empty map takes 24 bytes, in each of many peers"
    )]
    others: Option<Box<BTreeMap<u16, u32>>>,
}

/// The next number of a channel. It is used up only when its message has left, or is certain to leave.
#[derive(Debug)]
pub struct Next<'a>(&'a mut u32);

impl Numbers {
    /// For a job of `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Numbers { peers: vec![PeerNumbers::default(); ranks as usize] }
    }

    /// Those of the channels with a peer.
    pub fn of(&self, peer: Rank) -> &PeerNumbers {
        &self.peers[peer as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, peer: Rank) -> &mut PeerNumbers {
        &mut self.peers[peer as usize]
    }

    /// The number of the next message to `to`.
    #[inline(always)]
    pub fn next(&mut self, to: Rank, context: u16) -> Next<'_> {
        let sent = &mut self.peers[to as usize].sent;
        if sent.context != context {
            sent.turn_to(context);
        }
        Next(&mut sent.next)
    }

    /// Counts a message that arrives, if it is the next of its channel. Whether it is.
    #[inline(always)]
    pub fn count(&mut self, message: MsgId) -> bool {
        let expected = &mut self.peers[message.source as usize].expected;
        if expected.context == message.context && expected.next == message.seq {
            expected.next = message.seq.wrapping_add(1);
            return true;
        }
        expected.count_other(message.context, message.seq)
    }

    /// Begins again with 0 in all channels with a peer: another process is to have its place.
    pub fn forget(&mut self, peer: Rank) {
        self.peers[peer as usize] = PeerNumbers::default();
    }
}

impl ChannelNumbers {
    /// The next number in a context.
    pub fn next(&self, context: u16) -> u32 {
        match context == self.context {
            true => self.next,
            false => {
                self.others.as_ref().and_then(|others| others.get(&context)).copied().unwrap_or(0)
            }
        }
    }

    /// Continues in a context with this number.
    pub fn set(&mut self, context: u16, next: u32) {
        if context != self.context {
            self.others.get_or_insert_default().insert(self.context, self.next);
            self.context = context;
        }
        self.next = next;
    }

    /// Each context in which there was a message, and the next number there.
    pub fn all(&self) -> impl Iterator<Item = (u16, u32)> {
        let others = self.others.iter().flat_map(|others| others.iter());
        let others = others.map(|(&context, &next)| (context, next));
        let others = others.filter(|&(context, _)| context != self.context);
        others.chain([(self.context, self.next)]).filter(|&(_, next)| next != 0)
    }

    #[inline(never)]
    fn turn_to(&mut self, context: u16) {
        self.set(context, self.next(context));
    }

    /// As [`Numbers::count`], also in another context than the last time.
    #[inline(never)]
    fn count_other(&mut self, context: u16, seq: u32) -> bool {
        let is_next = self.next(context) == seq;
        if is_next {
            self.set(context, seq.wrapping_add(1));
        }
        is_next
    }
}

impl<'a> Next<'a> {
    /// The one that is kept here.
    #[inline(always)]
    pub fn new(next: &'a mut u32) -> Self {
        Next(next)
    }

    /// The number, which the channel still has.
    #[inline(always)]
    pub fn peek(&self) -> u32 {
        *self.0
    }

    /// Uses the number up, and returns it. Numbers wrap.
    #[inline(always)]
    pub fn commit(self) -> u32 {
        let seq = *self.0;
        *self.0 = seq.wrapping_add(1);
        seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn numbers_wrap_around() {
        let mut numbers = Numbers::new(1);
        let name = |seq| MsgId { source: 0, context: 9, seq };
        numbers.of_mut(0).expected.set(9, u32::MAX);
        numbers.of_mut(0).sent.set(9, u32::MAX);
        assert!(numbers.count(name(u32::MAX)) && numbers.count(name(0)));
        assert!(!numbers.count(name(0)) && !numbers.count(name(2)));
        assert_eq!([(); 2].map(|()| numbers.next(0, 9).commit()), [u32::MAX, 0]);
        let PeerNumbers { sent, expected } = numbers.of(0);
        assert_eq!([sent, expected].map(|of| of.all().collect::<Vec<_>>()), [[(9, 1)], [(9, 1)]]);
    }

    #[test]
    fn what_is_refused_leaves_no_trace() {
        let mut numbers = Numbers::new(1);
        for context in 0..1000 {
            assert!(!numbers.count(MsgId { source: 0, context, seq: 1 }));
        }
        let expected = &numbers.of(0).expected;
        assert_eq!((expected.others.is_none(), expected.all().count()), (true, 0));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Count { source: Rank, context: u16, ahead: i32 },
        Send { to: Rank, context: u16, leaves: bool },
        Set { peer: Rank, context: u16, next: u32 },
        Forget(Rank),
    }

    const PEERS: Rank = 3;

    fn op() -> impl Strategy<Value = Op> {
        let context = || prop_oneof![0..3u16, Just(u16::MAX)];
        let ahead = prop_oneof![4 => Just(0), 1 => -2..3i32];
        prop_oneof![
            20 => (0..PEERS, context(), ahead)
                .prop_map(|(source, context, ahead)| Op::Count { source, context, ahead }),
            20 => (0..PEERS, context(), any::<bool>())
                .prop_map(|(to, context, leaves)| Op::Send { to, context, leaves }),
            2 => (0..PEERS, context(), prop_oneof![0..3u32, u32::MAX - 3..=u32::MAX])
                .prop_map(|(peer, context, next)| Op::Set { peer, context, next }),
            1 => (0..PEERS).prop_map(Op::Forget),
        ]
    }

    /// Numbers of messages by peer and context.
    type Map = HashMap<(Rank, u16), u32>;

    fn is_as(numbers: &ChannelNumbers, peer: Rank, map: &Map) {
        let of_peer = map.iter().filter(|((of, _), _)| *of == peer);
        let mut wanted: Vec<_> = of_peer.map(|(&(_, context), &next)| (context, next)).collect();
        assert!(wanted.iter().all(|&(context, next)| numbers.next(context) == next));
        let mut here: Vec<_> = numbers.all().collect();
        wanted.retain(|&(_, next)| next != 0);
        here.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(here, wanted);
    }

    proptest! {
        #[test]
        fn like_two_maps(ops in prop::collection::vec(op(), 1..200)) {
            let mut numbers = Numbers::new(PEERS);
            let (mut sent, mut expected) = (Map::new(), Map::new());
            for op in ops {
                match op {
                    Op::Count { source, context, ahead } => {
                        let next = expected.entry((source, context)).or_default();
                        let seq = next.wrapping_add_signed(ahead);
                        prop_assert_eq!(numbers.count(MsgId { source, context, seq }), ahead == 0);
                        *next = next.wrapping_add(u32::from(ahead == 0));
                    }
                    Op::Send { to, context, leaves } => {
                        let next = sent.entry((to, context)).or_default();
                        let number = numbers.next(to, context);
                        prop_assert_eq!(number.peek(), *next);
                        if leaves {
                            prop_assert_eq!(number.commit(), *next);
                            *next = next.wrapping_add(1);
                        }
                    }
                    Op::Set { peer, context, next } => {
                        numbers.of_mut(peer).expected.set(context, next);
                        numbers.of_mut(peer).sent.set(context, next);
                        expected.insert((peer, context), next);
                        sent.insert((peer, context), next);
                    }
                    Op::Forget(peer) => {
                        numbers.forget(peer);
                        expected.retain(|(of, _), _| *of != peer);
                        sent.retain(|(of, _), _| *of != peer);
                    }
                }
                for peer in 0..PEERS {
                    is_as(&numbers.of(peer).sent, peer, &sent);
                    is_as(&numbers.of(peer).expected, peer, &expected);
                }
            }
        }
    }
}
