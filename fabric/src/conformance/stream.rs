//! An endless stream of messages that both of its ends can compute.

use super::pattern;
use crate::{Head, Limits, Payload, PeerId};

/// The messages of one sender to one receiver, all of them following from a seed.
#[derive(Clone)]
pub(crate) struct Stream {
    seed: u64,
    from: PeerId,
    inline: usize,
    max: usize,
    expected: Vec<u8>,
    got: Vec<u8>,
    /// How many messages were sent, or received, so far.
    pub(crate) count: u64,
}

impl Stream {
    /// The stream from `from` to `to`. Most of its messages are short; a few reach the longest.
    pub(crate) fn new(seed: u64, from: PeerId, to: PeerId, caps: &Limits) -> Self {
        let seed =
            fastrand::Rng::with_seed(seed ^ u64::from(from.0) << 32 ^ u64::from(to.0)).u64(..);
        let (inline, max) = (caps.inline, caps.max_message);
        Stream { seed, from, inline, max, expected: Vec::new(), got: Vec::new(), count: 0 }
    }

    /// The message to be sent next. It is the same one until `count` is raised.
    pub(crate) fn next(&mut self) -> (Head, &[u8]) {
        let head = self.compute();
        (head, &self.expected)
    }

    /// Checks that a message is the next one of the stream, and counts it.
    pub(crate) fn receive(&mut self, head: Head, payload: Payload<'_>) {
        let (from, count) = (self.from, self.count);
        let expected = self.compute();
        assert_eq!(head, expected, "head of message {count} from {from}");
        self.got.resize(payload.len(), 0);
        payload.read(&mut self.got);
        pattern::assert_same(
            &self.got,
            &self.expected,
            format_args!("message {count} from {from}"),
        );
        self.count += 1;
    }

    fn compute(&mut self) -> Head {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(self.count));
        let len = match random.u8(..) {
            0..150 => random.usize(0..=self.inline + 8),
            150..220 => random.usize(0..=512),
            220..254 => random.usize(0..=8192),
            _ => random.usize(0..=self.max),
        };
        self.expected.resize(len.min(self.max), 0);
        pattern::fill(random.u64(..), &mut self.expected);
        Head {
            kind: random.u8(..Head::KINDS),
            context: random.u16(..),
            seq: self.count as u32,
            tag: random.u64(..),
        }
    }
}
