//! The order of each channel: which number comes next, and what came too early.

use crate::Envelope;
use crate::hash::Seed;
use crate::index::Index;
use crate::names::{Key, lane};
use crate::slab::Slab;

#[derive(Clone, Copy, Debug)]
struct Channel {
    /// All ones: none.
    lane: u64,
    expected: u32,
}

const VACANT: Channel = Channel { lane: u64::MAX, expected: 0 };
const SMALLEST: usize = 16;

#[derive(Debug)]
pub(crate) struct Order<U> {
    /// A power of two of which at most half are in use; channels are never removed.
    channels: Vec<Channel>,
    used: usize,
    /// Where the channel of the last arrival is (or anything): messages of a channel come in bursts.
    recent: usize,
    /// The early messages, by lane and number.
    early: Slab<(Envelope, U)>,
    index: Index,
    bytes: u64,
    seed: Seed,
}

impl<U> Order<U> {
    pub(crate) fn with_seed(seed: Seed) -> Self {
        Order {
            channels: vec![VACANT; SMALLEST],
            used: 0,
            recent: 0,
            early: Slab::new(),
            index: Index::default(),
            bytes: 0,
            seed,
        }
    }

    /// Counts a message if it is the next of its channel.
    #[inline]
    pub(crate) fn count(&mut self, lane: u64, seq: u32) -> bool {
        match self.channels.get_mut(self.recent) {
            Some(channel) if channel.lane == lane && channel.expected == seq => {
                channel.expected = channel.expected.wrapping_add(1);
                true
            }
            _ => self.count_other(lane, seq),
        }
    }

    /// As `count`, also for another channel than the last time.
    #[inline(never)]
    fn count_other(&mut self, lane: u64, seq: u32) -> bool {
        self.recent = self.at_or_new(lane);
        let channel = &mut self.channels[self.recent];
        let is_next = channel.expected == seq;
        if is_next {
            channel.expected = channel.expected.wrapping_add(1);
        }
        is_next
    }

    pub(crate) fn expected(&self, lane: u64) -> u32 {
        self.channels.get(self.at(lane)).map_or(0, |channel| channel.expected)
    }

    /// The channels in use: lane, and the next number.
    pub(crate) fn channels(&self) -> impl Iterator<Item = (u64, u32)> {
        let used = self.channels.iter().filter(|channel| channel.lane != VACANT.lane);
        used.map(|channel| (channel.lane, channel.expected))
    }

    /// Sets the next number; the early messages that have thereby become old.
    pub(crate) fn set_expected(&mut self, lane: u64, seq: u32) -> Vec<(Envelope, U)> {
        let at = self.at_or_new(lane);
        self.channels[at].expected = seq;
        self.remove_early(|envelope| {
            lane_of(envelope) == lane && (envelope.seq.wrapping_sub(seq) as i32) < 0
        })
    }

    /// Where a channel is, or the vacancy where it would be.
    #[inline]
    fn at(&self, lane: u64) -> usize {
        let mask = self.channels.len() - 1;
        let mut at = self.seed.hash_lane(lane) as usize & mask;
        while self.channels[at].lane != lane && self.channels[at].lane != VACANT.lane {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn at_or_new(&mut self, lane: u64) -> usize {
        let at = self.at(lane);
        if self.channels[at].lane == lane { at } else { self.add(lane) }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, lane: u64) -> usize {
        self.used += 1;
        if self.used * 2 > self.channels.len() {
            let size = self.channels.len() * 2;
            let old = std::mem::replace(&mut self.channels, vec![VACANT; size]);
            for channel in old.into_iter().filter(|channel| channel.lane != VACANT.lane) {
                let at = self.at(channel.lane);
                self.channels[at] = channel;
            }
        }
        let at = self.at(lane);
        self.channels[at] = Channel { lane, expected: 0 };
        at
    }

    pub(crate) fn early(&self) -> usize {
        self.early.len()
    }

    pub(crate) fn early_bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_stashed(&self, envelope: &Envelope) -> bool {
        self.find(lane_of(envelope), envelope.seq).is_some()
    }

    pub(crate) fn stash(&mut self, envelope: &Envelope, payload: U) {
        let number = self.early.insert((*envelope, payload));
        self.bytes = self.bytes.wrapping_add(envelope.len);
        let hash = self.early_hash(lane_of(envelope), envelope.seq);
        self.index.push(hash, number, |_| false);
    }

    /// Takes the early message that is now the next of its channel.
    pub(crate) fn release(&mut self, lane: u64) -> Option<(Envelope, U)> {
        let number = self.find(lane, self.expected(lane))?;
        self.remove(number)
    }

    pub(crate) fn remove_early(&mut self, gone: impl Fn(&Envelope) -> bool) -> Vec<(Envelope, U)> {
        let numbers: Vec<u32> = (self.early.iter())
            .filter(|(_, (envelope, _))| gone(envelope))
            .map(|(number, _)| number)
            .collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn find(&self, lane: u64, seq: u32) -> Option<u32> {
        let same = |number| {
            self.early.get(number).is_some_and(|(e, _)| lane_of(e) == lane && e.seq == seq)
        };
        self.index.find(self.early_hash(lane, seq), same).map(|found| found.head)
    }

    fn early_hash(&self, lane: u64, seq: u32) -> u32 {
        self.seed.hash(&Key { lane, tag: u64::from(seq), keep: u64::MAX, ident: 0 })
    }

    fn remove(&mut self, number: u32) -> Option<(Envelope, U)> {
        self.index.remove(number);
        let (envelope, payload) = self.early.remove(number)?;
        self.bytes = self.bytes.wrapping_sub(envelope.len);
        Some((envelope, payload))
    }

    /// The early messages, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Envelope, &U)> {
        self.early.iter().map(|(_, (envelope, payload))| (envelope, payload))
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> [usize; 3] {
        [self.channels.capacity(), self.early.memory(), self.index.memory()]
    }

    pub(crate) fn trim(&mut self) {
        self.early.trim();
        self.index.trim(self.early.end());
    }
}

fn lane_of(envelope: &Envelope) -> u64 {
    lane(envelope.source, envelope.context)
}
