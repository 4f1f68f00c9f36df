//! The numbers of what arrives.

use crate::{MsgId, Rank};
use std::collections::BTreeMap;

/// The next number to be admitted of each channel (source, context). Every channel begins with 0.
///
/// # Panics
/// Its functions, if there is no such rank.
#[derive(Clone, Debug)]
pub struct Expected {
    sources: Vec<Source>,
}

#[derive(Clone, Debug, Default)]
struct Source {
    /// The context of its last message, and the next number there: messages of a channel come in bursts.
    context: u16,
    next: u32,
    /// The next numbers of its other contexts. What is here of the [`context`](Self::context) is out of date.
    others: BTreeMap<u16, u32>,
}

impl Expected {
    /// Of so many ranks.
    pub fn new(ranks: u32) -> Self {
        Expected { sources: vec![Source::default(); ranks as usize] }
    }

    /// Counts a message if it is the next of its channel. Whether it is.
    #[inline(always)]
    pub fn count(&mut self, message: MsgId) -> bool {
        let source = &mut self.sources[message.source as usize];
        if source.context == message.context && source.next == message.seq {
            source.next = message.seq.wrapping_add(1);
            return true;
        }
        source.count_other(message.context, message.seq)
    }

    /// The number that the next message of a channel must have.
    pub fn next(&self, source: Rank, context: u16) -> u32 {
        self.sources[source as usize].next(context)
    }

    /// Goes on in a channel with this number.
    pub fn set(&mut self, source: Rank, context: u16, next: u32) {
        self.sources[source as usize].set(context, next);
    }

    /// The channels of a source that any message has come in, and the next number of each: context, number.
    pub fn channels(&self, source: Rank) -> impl Iterator<Item = (u16, u32)> {
        let Source { context, next, ref others } = self.sources[source as usize];
        let others = others.iter().map(|(&context, &next)| (context, next));
        let others = others.filter(move |&(other, _)| other != context);
        others.chain([(context, next)]).filter(|&(_, next)| next != 0)
    }

    /// Begins again with 0 in all channels of a source: another process is to have its place.
    pub fn forget(&mut self, source: Rank) {
        self.sources[source as usize] = Source::default();
    }
}

impl Source {
    fn next(&self, context: u16) -> u32 {
        match context == self.context {
            true => self.next,
            false => self.others.get(&context).copied().unwrap_or(0),
        }
    }

    fn set(&mut self, context: u16, next: u32) {
        if context != self.context {
            self.others.insert(self.context, self.next);
            self.context = context;
        }
        self.next = next;
    }

    /// As [`Expected::count`], also in another context than the last time.
    #[inline(never)]
    fn count_other(&mut self, context: u16, seq: u32) -> bool {
        let is_next = self.next(context) == seq;
        if is_next {
            self.set(context, seq.wrapping_add(1));
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn numbers_wrap_around() {
        let mut expected = Expected::new(1);
        let name = |seq| MsgId { source: 0, context: 9, seq };
        expected.set(0, 9, u32::MAX);
        assert!(expected.count(name(u32::MAX)) && expected.count(name(0)));
        assert!(!expected.count(name(0)) && !expected.count(name(2)));
        assert_eq!(expected.channels(0).collect::<Vec<_>>(), [(9, 1)]);
    }

    #[test]
    fn what_is_refused_leaves_no_trace() {
        let mut expected = Expected::new(1);
        for context in 0..1000 {
            assert!(!expected.count(MsgId { source: 0, context, seq: 1 }));
        }
        assert_eq!((expected.sources[0].others.len(), expected.channels(0).count()), (0, 0));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Count { source: Rank, context: u16, ahead: i32 },
        Set { source: Rank, context: u16, next: u32 },
        Forget(Rank),
    }

    const SOURCES: Rank = 3;

    fn op() -> impl Strategy<Value = Op> {
        let context = || prop_oneof![0..3u16, Just(u16::MAX)];
        let ahead = prop_oneof![4 => Just(0), 1 => -2..3i32];
        prop_oneof![
            20 => (0..SOURCES, context(), ahead)
                .prop_map(|(source, context, ahead)| Op::Count { source, context, ahead }),
            2 => (0..SOURCES, context(), prop_oneof![0..3u32, u32::MAX - 3..=u32::MAX])
                .prop_map(|(source, context, next)| Op::Set { source, context, next }),
            1 => (0..SOURCES).prop_map(Op::Forget),
        ]
    }

    proptest! {
        #[test]
        fn like_a_map(ops in prop::collection::vec(op(), 1..200)) {
            let mut expected = Expected::new(SOURCES);
            let mut map: HashMap<(Rank, u16), u32> = HashMap::new();
            for op in ops {
                match op {
                    Op::Count { source, context, ahead } => {
                        let next = map.entry((source, context)).or_default();
                        let seq = next.wrapping_add_signed(ahead);
                        prop_assert_eq!(expected.count(MsgId { source, context, seq }), ahead == 0);
                        *next = next.wrapping_add(u32::from(ahead == 0));
                    }
                    Op::Set { source, context, next } => {
                        expected.set(source, context, next);
                        map.insert((source, context), next);
                    }
                    Op::Forget(source) => {
                        expected.forget(source);
                        map.retain(|(of, _), _| *of != source);
                    }
                }
                for (&(source, context), &next) in &map {
                    prop_assert_eq!(expected.next(source, context), next);
                }
                for source in 0..SOURCES {
                    let mut here: Vec<_> = expected.channels(source).collect();
                    here.sort_unstable();
                    let of_source = map.iter().filter(|&(&(of, _), &next)| of == source && next != 0);
                    let mut wanted: Vec<_> = of_source.map(|(&(_, c), &next)| (c, next)).collect();
                    wanted.sort_unstable();
                    prop_assert_eq!(here, wanted);
                }
            }
        }
    }
}
