//! The memory that payloads leave from: segments of one file, taken in the order in which they
//! became free.
//!
//! A segment is filled front to back, and is free again when every peer has consumed its last ring
//! position that points into it. Taking the segment that became free the longest ago keeps the
//! window moving: the cache lines written next have long since fallen out of the reader's private cache, which makes
//! them cheap to write (DESIGN section 3; `docs/measurements.md`).
//! The bookkeeping here touches no memory but its own.
//!
//! A window that cannot grow any more is shared: a peer that does not read gets no segments that sends to
//! others need.
//!
//! Segments can be *kept*: the message log fills them, messages are sent out of them, and they stay unchanged until
//! the log releases them.

use std::collections::VecDeque;
use taffrail_fabric::PeerId;

/// Bytes of a segment, and so the longest payload.
pub(crate) const SEGMENT: usize = 64 * 1024;

/// Once the window cannot grow, a peer may hold this many times the number of free segments.
const SHARE: usize = 3;

/// Number of kept segments that are reused in turn, where there are more: larger than the private cache of the
/// processor that writes them, smaller than the cache that it shares with the reader's (DESIGN section 3).
const ROUND: usize = (4 << 20) / SEGMENT;

/// A segment in use, with the last position of each peer that was sent from it.
#[derive(Default)]
struct Segment {
    index: u32,
    /// The last position of each peer's ring that points in here.
    uses: Vec<(PeerId, u64)>,
}

impl Segment {
    fn is_held_by(&self, peer: PeerId, consumed: &impl Fn(PeerId) -> u64) -> bool {
        self.uses.iter().any(|&(p, position)| p == peer && consumed(p) < position)
    }

    fn is_free(&self, consumed: &impl Fn(PeerId) -> u64) -> bool {
        self.uses.iter().all(|&(peer, position)| consumed(peer) >= position)
    }
}

/// Which bytes of the outbox are in use.
pub(crate) struct OutboxAllocator {
    /// Segments that exist, and how many can ever be.
    count: u32,
    most: u32,
    current: Segment,
    /// Bytes of the current segment in use.
    fill: usize,
    /// Filled segments, the oldest first.
    busy: VecDeque<Segment>,
    /// Free segments, the longest free first. Their lists of uses are empty but keep their memory.
    free: VecDeque<Segment>,
    /// Kept segments, each at its index, and how many there are.
    kept: Vec<Option<Segment>>,
    keeping: usize,
    /// Free segments to be kept next: what is not kept goes round in as few as it needs.
    spare: VecDeque<Segment>,
    /// Segments that were kept and are not read by all yet, the oldest first.
    returning: VecDeque<Segment>,
    /// Number of segments that are never kept.
    floor: usize,
}

impl OutboxAllocator {
    /// A window of `count >= 1` segments, which can become `most`.
    #[expect(clippy::expect_used, reason = "at least one segment was added")]
    pub(crate) fn new(count: u32, most: u32) -> Self {
        let mut window = OutboxAllocator {
            count: 0,
            most,
            current: Segment::default(),
            fill: SEGMENT,
            busy: VecDeque::new(),
            free: VecDeque::new(),
            kept: Vec::new(),
            keeping: 0,
            spare: VecDeque::new(),
            returning: VecDeque::new(),
            floor: count as usize,
        };
        window.add(count);
        window.current = window.free.pop_front().expect("a window has a segment");
        window.fill = 0;
        window
    }

    /// Whether a peer other than `peer` keeps a segment from being free. If not, waiting for `peer`
    /// is better than more memory: what it has not read yet is as much as it should be sent.
    pub(crate) fn held_by_others(&self, peer: PeerId, consumed: impl Fn(PeerId) -> u64) -> bool {
        let holds = |&(p, position): &(PeerId, u64)| p != peer && consumed(p) < position;
        self.busy.iter().any(|segment| segment.uses.iter().any(holds))
    }

    /// A peer is gone, with its ring: nothing is in use for it.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let kept = self.kept.iter_mut().flatten();
        let others = self.busy.iter_mut().chain(&mut self.returning);
        for segment in others.chain([&mut self.current]).chain(kept) {
            segment.uses.retain(|(p, _)| *p != peer);
        }
    }

    /// Takes a segment out, to be kept. `None`: the segments that are left are for sends that are not logged.
    pub(crate) fn keep(&mut self, consumed: impl Fn(PeerId) -> u64) -> Option<u32> {
        if self.keepable() == 0 {
            return None;
        }
        let segment = self.next_to_keep(&consumed)?;
        let index = segment.index;
        if self.kept.len() <= index as usize {
            self.kept.resize_with(self.count as usize, || None);
        }
        self.kept[index as usize] = Some(segment);
        self.keeping += 1;
        Some(index)
    }

    fn next_to_keep(&mut self, consumed: &impl Fn(PeerId) -> u64) -> Option<Segment> {
        let is_round = self.keeping + self.returning.len() >= ROUND;
        if is_round && let Some(segment) = self.returned(consumed) {
            return Some(segment);
        }
        if let Some(segment) = self.spare.pop_front().or_else(|| self.returned(consumed)) {
            return Some(segment);
        }
        if self.ordinary() <= self.floor {
            return None;
        }
        self.reclaim(consumed);
        self.free.pop_front()
    }

    /// A segment that was kept and has been read.
    #[expect(clippy::expect_used, reason = "the place was found just before")]
    fn returned(&mut self, consumed: &impl Fn(PeerId) -> u64) -> Option<Segment> {
        let at = self.returning.iter().position(|segment| segment.is_free(consumed))?;
        let mut segment = self.returning.remove(at).expect("just seen");
        segment.uses.clear();
        Some(segment)
    }

    /// Segments that are there for what is not kept.
    fn ordinary(&self) -> usize {
        self.count as usize - self.keeping - self.spare.len() - self.returning.len()
    }

    /// A message to a peer, at this position of its ring, points into a kept segment.
    ///
    /// # Panics
    /// If the segment is not kept.
    #[inline]
    #[expect(clippy::expect_used, reason = "documented: the caller names a segment that it keeps")]
    pub(crate) fn use_kept(&mut self, index: u32, peer: PeerId, position: u64) {
        let segment = self.kept[index as usize].as_mut().expect("the segment is kept");
        let uses = &mut segment.uses;
        match uses.iter_mut().find(|(p, _)| *p == peer) {
            Some((_, at)) => *at = position,
            None => uses.push((peer, position)),
        }
    }

    /// Releases a kept segment. It is free once every peer has read the messages sent from it.
    ///
    /// # Panics
    /// If the segment is not kept.
    #[expect(clippy::expect_used, reason = "documented: the caller names a segment that it keeps")]
    pub(crate) fn give_back(&mut self, index: u32) {
        let segment = self.kept[index as usize].take().expect("the segment is kept");
        self.keeping -= 1;
        self.returning.push_back(segment);
    }

    /// Whether this is a segment that is kept.
    #[inline]
    pub(crate) fn is_kept(&self, index: u32) -> bool {
        self.kept.get(index as usize).is_some_and(Option::is_some)
    }

    /// How many segments may be kept before there have to be more.
    pub(crate) fn keepable(&self) -> usize {
        (self.count as usize - self.keeping).saturating_sub(self.floor)
    }

    /// Adds new segments to be kept.
    pub(crate) fn add_spare(&mut self, segments: u32) {
        let new = self.count..self.count + segments;
        self.spare.extend(new.map(|index| Segment { index, uses: Vec::with_capacity(4) }));
        self.count += segments;
    }

    /// Adds segments for what is not kept, to be used next.
    pub(crate) fn add(&mut self, segments: u32) {
        for index in self.count..self.count + segments {
            self.free.push_front(Segment { index, uses: Vec::with_capacity(4) });
        }
        self.free.make_contiguous()[..segments as usize].reverse();
        self.count += segments;
    }

    /// The offset of `len <= SEGMENT` free bytes, aligned to a cache line, which are in use from
    /// now until `peer` has consumed `position`. `None` when there are none now.
    #[inline]
    pub(crate) fn take(
        &mut self,
        len: usize,
        peer: PeerId,
        position: u64,
        consumed: impl Fn(PeerId) -> u64,
    ) -> Option<u64> {
        debug_assert!(len <= SEGMENT);
        if self.fill + len > SEGMENT && !self.turn(&consumed) {
            return None;
        }
        let last = self.current.uses.last_mut().filter(|(last, _)| *last == peer);
        if let Some((_, at)) = last {
            *at = position;
        } else if !self.use_by(peer, position, &consumed) {
            return None;
        }
        let offset = self.current.index as u64 * SEGMENT as u64 + self.fill as u64;
        self.fill += len.next_multiple_of(64);
        Some(offset)
    }

    /// The bytes that the next [`take`](Self::take) will probably give: offset and length.
    #[inline]
    pub(crate) fn ahead(&self) -> (u64, usize) {
        (
            self.current.index as u64 * SEGMENT as u64 + self.fill as u64,
            SEGMENT - self.fill.min(SEGMENT),
        )
    }

    /// Notes that the peer uses the current segment. `false`: it holds too much already.
    fn use_by(&mut self, peer: PeerId, position: u64, consumed: &impl Fn(PeerId) -> u64) -> bool {
        if let Some((_, at)) = self.current.uses.iter_mut().find(|(p, _)| *p == peer) {
            *at = position;
            return true;
        }
        if self.count >= self.most && self.is_greedy(peer, consumed) {
            return false;
        }
        self.current.uses.push((peer, position));
        true
    }

    /// Whether a peer holds more than its share of the window.
    #[cold]
    fn is_greedy(&self, peer: PeerId, consumed: &impl Fn(PeerId) -> u64) -> bool {
        let held = self.busy.iter().filter(|s| s.is_held_by(peer, consumed)).count();
        held > SHARE * (self.free.len() + self.spare.len())
    }

    /// Closes the current segment and opens the next.
    #[inline(never)]
    fn turn(&mut self, consumed: &impl Fn(PeerId) -> u64) -> bool {
        self.reclaim(consumed);
        if self.free.is_empty() && self.current.is_free(consumed) {
            self.current.uses.clear();
            self.fill = 0;
            return true;
        }
        let Some(next) = self.free.pop_front().or_else(|| self.spare.pop_front()) else {
            return false;
        };
        self.busy.push_back(std::mem::replace(&mut self.current, next));
        self.fill = 0;
        true
    }

    /// Makes free what has been read.
    #[expect(clippy::expect_used, reason = "the segment was found just before")]
    fn reclaim(&mut self, consumed: &impl Fn(PeerId) -> u64) {
        while self.busy.front().is_some_and(|s| s.is_free(consumed)) {
            let segment = self.busy.pop_front().expect("just seen");
            self.release(segment);
        }
        if self.free.is_empty() {
            // A slow peer may hold the oldest segment while later ones are free.
            while let Some(at) = self.busy.iter().position(|s| s.is_free(consumed)) {
                let segment = self.busy.remove(at).expect("just seen");
                self.release(segment);
            }
        }
    }

    fn release(&mut self, mut segment: Segment) {
        segment.uses.clear();
        self.free.push_back(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segments_are_reused_in_the_order_they_became_free() {
        let mut window = OutboxAllocator::new(3, 9);
        let consumed = |_| u64::MAX;
        let turns: Vec<u64> = (1..=7)
            .map(|p| window.take(SEGMENT, PeerId(0), p, consumed).unwrap() / SEGMENT as u64)
            .collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn nothing_is_in_use_for_a_peer_that_is_gone() {
        let mut window = OutboxAllocator::new(2, 9);
        let (gone, here) = (PeerId(1), PeerId(2));
        assert!(window.take(SEGMENT, gone, 70, |_| 0).is_some());
        assert!(window.take(SEGMENT, here, 1, |_| 0).is_some());
        assert_eq!(window.take(SEGMENT, here, 2, |_| 0), None, "it waits for the one that is gone");
        window.forget(gone);
        // Its successor has a ring of its own, with small positions.
        assert_eq!(window.take(SEGMENT, here, 2, |_| 0), Some(0));
        assert!(!window.held_by_others(here, |_| 0));
    }

    #[test]
    fn a_slow_peer_blocks_only_its_own_segments() {
        let mut window = OutboxAllocator::new(2, 9);
        assert!(window.take(SEGMENT, PeerId(7), 1, |_| 0).is_some());
        let consumed = |peer: PeerId| if peer == PeerId(7) { 0 } else { u64::MAX };
        for position in 1..10 {
            let offset = window.take(SEGMENT, PeerId(1), position, consumed);
            assert_eq!(offset, Some(SEGMENT as u64));
        }
        assert!(!window.held_by_others(PeerId(7), consumed));
        assert!(window.held_by_others(PeerId(1), consumed));
        assert_eq!(window.take(SEGMENT, PeerId(1), 10, |_| 0), None);
        window.add(1);
        assert_eq!(window.take(SEGMENT, PeerId(1), 10, |_| 0), Some(2 * SEGMENT as u64));
    }

    #[test]
    fn what_is_kept_is_not_handed_out_until_it_is_given_back_and_read() {
        let mut window = OutboxAllocator::new(2, 9);
        assert_eq!(window.keep(|_| 0), None, "two are never kept");
        window.add_spare(2);
        let peer = PeerId(3);
        let kept = [window.keep(|_| 0).unwrap(), window.keep(|_| 0).unwrap()];
        assert_eq!(window.keep(|_| 0), None);
        window.use_kept(kept[0], peer, 7);
        let ordinary = PeerId(0);
        for position in 1..9 {
            let offset = window.take(SEGMENT, ordinary, position, |_| position - 1).unwrap();
            assert!(!kept.contains(&((offset / SEGMENT as u64) as u32)));
        }
        window.give_back(kept[0]);
        let read_to = |at| move |p| if p == peer { at } else { 0 };
        assert_eq!(window.keep(read_to(6)), None, "its reader is not there yet");
        assert_eq!(window.take(SEGMENT, ordinary, 9, read_to(6)), None);
        assert_eq!(window.keep(read_to(7)), Some(kept[0]));
        assert!(window.is_kept(kept[1]) && window.is_kept(kept[0]));
    }

    #[test]
    fn what_was_kept_rests_until_as_many_were_as_a_round_has() {
        let mut window = OutboxAllocator::new(2, 9);
        window.add_spare(ROUND as u32 + 1);
        let mut next = || {
            let segment = window.keep(|_| 0).unwrap();
            window.give_back(segment);
            segment
        };
        let round: Vec<u32> = (0..ROUND).map(|_| next()).collect();
        assert_eq!(round.iter().collect::<std::collections::BTreeSet<_>>().len(), ROUND);
        assert_eq!((0..2 * ROUND).map(|_| next()).collect::<Vec<_>>(), round.repeat(2));
        // What is read is not there, so that the last spare one is next; then nothing is left.
        (0..ROUND).for_each(|_| {
            let segment = window.keep(|_| 0).unwrap();
            window.use_kept(segment, PeerId(1), 1);
            window.give_back(segment);
        });
        assert!(window.keep(|_| 0).is_some_and(|segment| !round.contains(&segment)));
        assert_eq!(window.keep(|_| 0), None);
    }

    #[test]
    fn what_is_not_kept_takes_what_is_spare_only_when_it_has_nothing_else() {
        let mut window = OutboxAllocator::new(2, 9);
        window.add_spare(1);
        let (slow, fast) = (PeerId(1), PeerId(2));
        let consumed = |peer| if peer == slow { 0 } else { u64::MAX };
        for position in 1..10 {
            assert!(window.take(SEGMENT, fast, position, consumed).unwrap() < 2 * SEGMENT as u64);
        }
        assert!(window.take(SEGMENT, slow, 1, consumed).is_some());
        assert!(window.take(SEGMENT, slow, 2, consumed).is_some());
        assert_eq!(window.take(SEGMENT, slow, 3, consumed), Some(2 * SEGMENT as u64));
        assert_eq!(window.keep(consumed), None, "two of the three stay for what is not kept");
        assert_eq!(window.keepable(), 1);
        assert!(window.keep(|_| u64::MAX).is_some());
    }

    #[test]
    fn who_does_not_read_leaves_room_for_who_does() {
        for (segments, share) in [(2, 1), (3, 2), (4, 3), (64, 48)] {
            let mut window = OutboxAllocator::new(segments, segments);
            let (idle, busy) = (PeerId(1), PeerId(2));
            let consumed = |peer| if peer == idle { 0 } else { u64::MAX };
            let mut given = 0;
            while window.take(SEGMENT, idle, given + 1, consumed).is_some() {
                given += 1;
            }
            assert_eq!(given, share, "of {segments} segments");
            for position in 1..1000 {
                // Neither a small message to the idle one gets what is left.
                assert_eq!(window.take(64, idle, given + 1, consumed), None);
                assert!(window.take(4096, busy, position, consumed).is_some());
            }
            // What was read may be given again.
            assert!(window.take(SEGMENT, idle, given + 1, |_| u64::MAX).is_some());
        }
    }

    proptest! {
        /// No byte is handed out twice before every earlier holder has consumed it.
        #[test]
        fn live_ranges_never_overlap(
            steps in prop::collection::vec((1..=SEGMENT, 0u32..3, any::<bool>(), 0u64..40), 1..400),
            segments in 1u32..5,
            grows in any::<bool>(),
        ) {
            let most = if grows { 9 } else { segments };
            let mut window = OutboxAllocator::new(segments, most);
            let mut sent = [0u64; 3];
            let mut consumed = [0u64; 3];
            let mut live: Vec<(u64, u64, usize, u64)> = Vec::new();
            for (len, peer, consume, many) in steps {
                if consume {
                    let p = peer as usize;
                    consumed[p] = sent[p].min(consumed[p] + many);
                }
                live.retain(|&(_, _, peer, position)| consumed[peer] < position);
                let peer = peer as usize;
                let position = sent[peer] + 1;
                match window.take(len, PeerId(peer as u32), position, |p| consumed[p.index()]) {
                    Some(at) => {
                        sent[peer] = position;
                        let end = at + len as u64;
                        prop_assert!(at % 64 == 0 && end <= window.count as u64 * SEGMENT as u64);
                        prop_assert_eq!(at / SEGMENT as u64, (end - 1) / SEGMENT as u64);
                        for &(from, to, ..) in &live {
                            prop_assert!(end <= from || to <= at);
                        }
                        live.push((at, end, peer, position));
                    }
                    None => prop_assert!(!live.is_empty(), "an idle window always has room"),
                }
            }
        }
    }
}
