//! What receives and claims have got: found by the receive, and by the message. There is an entry for each
//! message that chance has given to a receive, so they are kept in order and not in a table: receives are
//! posted, and the messages of a channel come, in the order of their numbers.

use super::{RecvOutcome, Reserved};
use crate::{MsgId, Rank};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryMap {
    /// By the number of the receive. `None`: it was cancelled.
    posts: VecDeque<(u32, Option<MsgId>)>,
    channels: FxHashMap<(Rank, u16), Channel>,
}

/// The messages of a channel that somebody got.
#[derive(Clone, Debug)]
struct Channel {
    /// A number that is behind all of theirs.
    base: u32,
    /// By how far each is from there, since numbers begin again after the last.
    messages: VecDeque<(u32, Reserved)>,
}

impl DeliveryMap {
    /// A receive got a message, or was cancelled.
    pub(super) fn post(&mut self, post: u32, message: Option<MsgId>) {
        self.posts.push_back((post, message));
    }

    /// A message was given to a receive or claim.
    pub(super) fn message(&mut self, MsgId { source, context, seq }: MsgId, whom: Reserved) {
        let channel = self.channels.entry((source, context)).or_insert_with(|| Channel {
            base: seq.wrapping_sub(1 << 31),
            messages: VecDeque::new(),
        });
        channel.messages.push_back((seq.wrapping_sub(channel.base), whom));
    }

    /// Puts all in order. Returns a message that was given away twice, if there is one.
    pub(super) fn sort(&mut self) -> Option<MsgId> {
        // That of several messages of one receive stays as it is.
        self.posts.make_contiguous().sort_by_key(|(post, _)| *post);
        self.channels.iter_mut().find_map(|(&(source, context), Channel { base, messages })| {
            let messages = messages.make_contiguous();
            messages.sort_by_key(|(distance, _)| *distance);
            let twice = messages.windows(2).find(|two| two[0].0 == two[1].0)?;
            Some(MsgId { source, context, seq: base.wrapping_add(twice[0].0) })
        })
    }

    /// Whether nothing is left.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.posts.is_empty() && self.channels.is_empty()
    }

    /// Takes out what a receive got.
    pub(super) fn take_outcome(&mut self, post: u32) -> RecvOutcome {
        let is_first = self.posts.front().is_none_or(|(first, _)| *first >= post);
        let from =
            if is_first { 0 } else { self.posts.partition_point(|(other, _)| *other < post) };
        let count = self.posts.range(from..).take_while(|(other, _)| *other == post).count();
        if count == 0 {
            return RecvOutcome::Free;
        }
        let messages: VecDeque<MsgId> =
            self.posts.drain(from..from + count).filter_map(|got| got.1).collect();
        if messages.is_empty() { RecvOutcome::Cancelled } else { RecvOutcome::Messages(messages) }
    }

    /// Takes out who got a message.
    pub(super) fn take_message(
        &mut self,
        MsgId { source, context, seq }: MsgId,
    ) -> Option<Reserved> {
        let Channel { base, messages } = self.channels.get_mut(&(source, context))?;
        let distance = seq.wrapping_sub(*base);
        let is_first = messages.front().is_some_and(|(first, _)| *first == distance);
        let at =
            if is_first { 0 } else { messages.partition_point(|(other, _)| *other < distance) };
        let (_, whom) = *messages.get(at).filter(|(other, _)| *other == distance)?;
        messages.remove(at);
        if messages.is_empty() {
            self.channels.remove(&(source, context));
        }
        Some(whom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Numbers around a place, which may be where numbers begin again.
    fn around(place: u32) -> impl Strategy<Value = u32> {
        (0..40_u32).prop_map(move |number| place.wrapping_sub(20).wrapping_add(number))
    }

    proptest! {
        #[test]
        fn it_finds_what_tables_find(
            posts in prop::collection::vec((0..20_u32, prop::option::of(around(0))), 0..40),
            names in prop::collection::btree_set((0..2_u32, 0..2_u16, around(0)), 0..40),
            asked in prop::collection::vec((0..20_u32, (0..2_u32, 0..2_u16, around(0))), 0..100),
        ) {
            let (mut given, mut fates, mut reserved) = (DeliveryMap::default(), HashMap::new(), HashMap::new());
            for &(post, seq) in &posts {
                let message = seq.map(|seq| MsgId { source: 7, context: 1, seq });
                given.post(post, message);
                fates.entry(post).or_insert_with(VecDeque::new).extend(message);
            }
            // Not in their order.
            let mut names: Vec<_> = names.into_iter().collect();
            names.sort_by_key(|(source, context, seq)| seq.wrapping_mul(0x9e37_79b9) ^ source ^ u32::from(*context));
            for (post, &(source, context, seq)) in (0..).zip(&names) {
                let name = MsgId { source, context, seq };
                given.message(name, Reserved::Post(post));
                reserved.insert(name, Reserved::Post(post));
            }
            prop_assert_eq!(given.sort(), None);
            for (post, (source, context, seq)) in asked {
                let name = MsgId { source, context, seq };
                let fate = match fates.remove(&post) {
                    None => RecvOutcome::Free,
                    Some(messages) if messages.is_empty() => RecvOutcome::Cancelled,
                    Some(messages) => RecvOutcome::Messages(messages),
                };
                prop_assert_eq!(given.take_outcome(post), fate);
                prop_assert_eq!(given.take_message(name), reserved.remove(&name));
                prop_assert_eq!(given.is_empty(), fates.is_empty() && reserved.is_empty());
            }
        }

        #[test]
        fn a_message_that_is_given_away_twice_is_named(seqs in prop::collection::btree_set(around(5), 1..40), at: prop::sample::Index) {
            let seqs: Vec<u32> = seqs.into_iter().collect();
            let name = |seq| MsgId { source: 1, context: 2, seq };
            let mut given = DeliveryMap::default();
            seqs.iter().for_each(|&seq| given.message(name(seq), Reserved::Claim));
            given.message(name(seqs[at.index(seqs.len())]), Reserved::Post(3));
            prop_assert_eq!(given.sort(), Some(name(seqs[at.index(seqs.len())])));
        }
    }
}
