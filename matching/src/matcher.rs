//! The engine: brings receives and messages together.

use crate::hash::Seed;
use crate::names::{Key, lane, unlane};
use crate::order::Order;
use crate::posted::{Receives, Waiting};
use crate::unexpected::Unexpected;
use crate::{Arrival, Counts, Envelope, MessageId, PostId, Posted, Posting};
use std::fmt;

/// The match engine of one receiver.
///
/// `R` is the caller's token for a receive (an index into its requests), `U` its handle for the
/// payload of a message that has to wait.
///
/// ```
/// use taffrail_matching::{Arrival, Envelope, Matcher, Posted, Posting};
/// let mut matcher: Matcher<u32, Vec<u8>> = Matcher::new();
/// let envelope = Envelope { source: 3, tag: 7, len: 2, ..Envelope::default() };
///
/// // The receive is there first.
/// let posting = Posting { source: Some(3), tag: 7, ..Posting::default() };
/// let Posted::Queued(_) = matcher.post(posting, 100) else { panic!() };
/// assert_eq!(matcher.arrive(&envelope), Arrival::Matched(100));
///
/// // The message is there first.
/// let envelope = Envelope { seq: 1, ..envelope };
/// assert_eq!(matcher.arrive(&envelope), Arrival::Unmatched);
/// matcher.store_unexpected(&envelope, b"hi".to_vec());
/// assert_eq!(matcher.post(posting, 101), Posted::Matched(envelope, b"hi".to_vec()));
/// ```
pub struct Matcher<R, U> {
    receives: Receives<R>,
    unexpected: Unexpected<U>,
    order: Order<U>,
}

/// What a failed peer leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphans<R, U> {
    /// The receives that named it, in the order they were posted; no longer posted.
    pub receives: Vec<R>,
    /// Its messages that waited for an earlier one, in no order; no longer stashed.
    pub early: Vec<(Envelope, U)>,
}

impl<R: Copy, U> Matcher<R, U> {
    /// An engine that holds nothing; every channel starts with number 0.
    pub fn new() -> Self {
        Matcher::seeded(Seed::random())
    }

    /// As [`new`](Self::new), with a seed for the hash tables instead of a random one: then each run
    /// takes the same time, and whoever knows the seed can choose tags that take very long. The
    /// results do not depend on it.
    pub fn with_seed(seed: u64) -> Self {
        Matcher::seeded(Seed::fixed(seed))
    }

    fn seeded(seed: Seed) -> Self {
        Matcher {
            receives: Receives::with_seed(seed),
            unexpected: Unexpected::with_seed(seed),
            order: Order::with_seed(seed),
        }
    }

    /// Posts a receive: gives it the earliest fitting message that waits, or lets it wait itself.
    #[inline]
    pub fn post(&mut self, posting: Posting, token: R) -> Posted<U> {
        let key = Key::of(&posting);
        if self.unexpected.waiting() != 0 {
            // Words, not a reference: the key then need not be in memory when nothing waits.
            let taken = self.take_fitting(key.lane, key.tag, key.keep, key.ident);
            if let Some((envelope, payload)) = taken {
                return Posted::Matched(envelope, payload);
            }
        }
        Posted::Queued(self.receives.push(key, posting.multi, token))
    }

    #[inline(never)]
    fn take_fitting(
        &mut self,
        lane: u64,
        tag: u64,
        keep: u64,
        ident: u64,
    ) -> Option<(Envelope, U)> {
        let number = self.unexpected.find(&Key { lane, tag, keep, ident })?;
        self.unexpected.remove(number)
    }

    /// Takes in the envelope of a message: checks its number, and finds the receive that gets it,
    /// the one posted first among those that fit.
    ///
    /// If [`has_early`](Self::has_early) says so, see afterwards whether
    /// [`release`](Self::release) has the next message of the same channel.
    #[inline(always)]
    pub fn arrive(&mut self, envelope: &Envelope) -> Arrival<R> {
        if self.order.count(lane(envelope.source, envelope.context), envelope.seq) {
            self.receives.take(envelope)
        } else {
            self.out_of_order(envelope)
        }
    }

    /// Whether no receive is posted, and no message waits for one.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.receives.is_empty() && self.unexpected.waiting() == 0
    }

    /// Takes in the envelope of a message for a receive that is not posted, but would be the only one:
    /// whether the message is the next of its channel and the receive takes it, while the engine
    /// [is idle](Self::is_idle). If not, nothing has changed: let it [`arrive`](Self::arrive).
    #[inline]
    pub fn arrive_for(&mut self, posting: &Posting, envelope: &Envelope) -> bool {
        self.is_idle()
            && posting.takes(envelope)
            && self.order.count(lane(envelope.source, envelope.context), envelope.seq)
    }

    #[cold]
    #[inline(never)]
    fn out_of_order(&self, envelope: &Envelope) -> Arrival<R> {
        let ahead = envelope.seq.wrapping_sub(self.expected(envelope.source, envelope.context));
        if (ahead as i32) < 0 {
            Arrival::Old { behind: ahead.wrapping_neg() }
        } else if self.order.is_stashed(envelope) {
            Arrival::Old { behind: 0 }
        } else {
            Arrival::Early { ahead }
        }
    }

    /// Stores a message whose arrival was [`Arrival::Unmatched`]. Nothing may be posted in between.
    #[inline]
    pub fn store_unexpected(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        self.unexpected.push(envelope, payload)
    }

    /// Stores a message that is claimed from the beginning: no receive or probe sees it.
    pub fn store_claimed(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        self.unexpected.push_claimed(envelope, payload)
    }

    /// Whether any message waits for an earlier one of its channel.
    #[inline]
    pub fn has_early(&self) -> bool {
        self.order.early() != 0
    }

    /// Keeps a message whose arrival was [`Arrival::Early`] until the gap before it is closed.
    ///
    /// # Panics
    /// In debug builds, if the message is not early or is stashed already.
    pub fn stash(&mut self, envelope: &Envelope, payload: U) {
        debug_assert!(
            envelope.seq.wrapping_sub(self.expected(envelope.source, envelope.context)) as i32 > 0
                && !self.order.is_stashed(envelope),
            "only what `arrive` called early can be stashed, got {envelope:?}"
        );
        self.order.stash(envelope, payload);
    }

    /// Hands back the stashed message that is now the next of this channel: let it
    /// [`arrive`](Self::arrive), and ask again.
    pub fn release(&mut self, source: u32, context: u16) -> Option<(Envelope, U)> {
        if !self.has_early() {
            return None;
        }
        self.order.release(lane(source, context))
    }

    /// The number that the next message of this channel must have.
    pub fn expected(&self, source: u32, context: u16) -> u32 {
        self.order.expected(lane(source, context))
    }

    /// The channels of this source that any message has come in, and the number of the next message of
    /// each: context, number. In no order.
    pub fn channels(&self, source: u32) -> impl Iterator<Item = (u16, u32)> {
        self.order.channels().filter_map(move |(lane, expected)| {
            let (from, context) = unlane(lane);
            (from == source).then_some((context, expected))
        })
    }

    /// Sets the number of the next message of this channel, as after a restart. Returns the stashed
    /// messages that come before it, which are old now; [`release`](Self::release) may have the
    /// next one.
    pub fn set_expected(&mut self, source: u32, context: u16, seq: u32) -> Vec<(Envelope, U)> {
        self.order.set_expected(lane(source, context), seq)
    }

    /// Cancels a receive that waits, or retires one that is `multi`. `None`: it is matched already,
    /// or was cancelled before.
    pub fn cancel(&mut self, id: PostId) -> Option<R> {
        self.receives.cancel(id)
    }

    /// The earliest message that a receive posted now would get, which stays where it is. (Whether
    /// the posting is `multi` does not matter, here and below.)
    pub fn probe(&mut self, posting: &Posting) -> Option<(MessageId, &Envelope, &U)> {
        let number = self.unexpected.find(&Key::of(posting))?;
        self.unexpected.get(number)
    }

    /// As [`probe`](Self::probe), and keeps the message for the caller alone: no receive or probe
    /// sees it any more, and [`take_message`](Self::take_message) takes it.
    pub fn claim(&mut self, posting: &Posting) -> Option<(MessageId, Envelope)> {
        let number = self.unexpected.find(&Key::of(posting))?;
        let envelope = *self.unexpected.get(number)?.1;
        Some((self.unexpected.claim(number)?, envelope))
    }

    /// Takes the message that a receive posted now would get: to receive it, or to discard it.
    pub fn take(&mut self, posting: &Posting) -> Option<(Envelope, U)> {
        let number = self.unexpected.find(&Key::of(posting))?;
        self.unexpected.remove(number)
    }

    /// Takes this message out of the store, claimed or not. `None`: it has left already.
    pub fn take_message(&mut self, id: MessageId) -> Option<(Envelope, U)> {
        self.unexpected.remove_id(id)
    }

    /// The handle of the payload of a message in the store, claimed or not, to be changed. `None`: it
    /// has left already.
    pub fn payload_mut(&mut self, id: MessageId) -> Option<&mut U> {
        self.unexpected.payload_mut(id)
    }

    /// Removes what can only be finished by `source`, which has failed: receives that name it, and
    /// its messages that have a gap before them. Receives from any source stay, and so do its
    /// messages that came whole and in order: see [`unexpected`](Self::unexpected) for these.
    pub fn fail(&mut self, source: u32) -> Orphans<R, U> {
        Orphans {
            receives: self.receives.remove_source(source),
            early: self.order.remove_early(|envelope| envelope.source == source),
        }
    }

    /// How much is held.
    pub fn counts(&self) -> Counts {
        Counts {
            posted: self.receives.len(),
            unexpected: self.unexpected.waiting(),
            claimed: self.unexpected.claimed(),
            unexpected_bytes: self.unexpected.bytes(),
            early: self.order.early(),
            early_bytes: self.order.early_bytes(),
        }
    }

    /// The receives that wait, in the order they were posted. For reports: takes time and memory
    /// for each.
    pub fn posted(&self) -> Vec<Waiting<R>> {
        self.receives.report()
    }

    /// The messages that wait for a receive, in the order of their arrival; without the claimed.
    pub fn unexpected(&self) -> impl Iterator<Item = (MessageId, &Envelope, &U)> {
        self.unexpected.iter()
    }

    /// The messages that wait for a receive and come from this source, in the order of their
    /// arrival.
    pub fn unexpected_from(&self, source: u32) -> impl Iterator<Item = (MessageId, &Envelope, &U)> {
        self.unexpected().filter(move |(_, envelope, _)| envelope.source == source)
    }

    /// The claimed messages, in no order.
    pub fn claimed(&self) -> impl Iterator<Item = (MessageId, &Envelope, &U)> {
        self.unexpected.iter_claimed()
    }

    /// The messages that wait for an earlier one of their channel, in no order.
    pub fn early(&self) -> impl Iterator<Item = (&Envelope, &U)> {
        self.order.iter()
    }

    /// Gives back the memory that what is held now does not need. Memory otherwise grows to the
    /// largest need and stays, so that nothing is allocated in steady state. Takes time for each
    /// receive and message held: for idle moments.
    pub fn trim(&mut self) {
        self.receives.trim();
        self.unexpected.trim();
        self.order.trim();
    }
}

impl<R: Copy, U> Default for Matcher<R, U> {
    fn default() -> Self {
        Matcher::new()
    }
}

/// The counts, and the first of each queue.
impl<R: Copy + fmt::Debug, U> fmt::Debug for Matcher<R, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let posted: Vec<_> = self.posted().into_iter().take(SHOWN).collect();
        let unexpected: Vec<_> = self.unexpected().map(|(_, e, _)| e).take(SHOWN).collect();
        let claimed: Vec<_> = self.claimed().map(|(_, e, _)| e).take(SHOWN).collect();
        let early: Vec<_> = self.early().map(|(e, _)| e).take(SHOWN).collect();
        f.debug_struct("Matcher")
            .field("counts", &self.counts())
            .field("posted", &posted)
            .field("unexpected", &unexpected)
            .field("claimed", &claimed)
            .field("early", &early)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Matcher<u32, u32> {
        fn memory(&self) -> [[usize; 3]; 3] {
            [self.receives.memory(), self.unexpected.memory(), self.order.memory()]
        }

        fn deliver(&mut self, envelope: &Envelope) {
            match self.arrive(envelope) {
                Arrival::Unmatched => _ = self.store_unexpected(envelope, 0),
                Arrival::Early { .. } => self.stash(envelope, 0),
                Arrival::Matched(_) => {}
                Arrival::Old { .. } => panic!("{envelope:?} was sent once"),
            }
        }
    }

    /// 50 messages each from 5 sources, those of the last in swapped pairs; half of the receives posted
    /// before, of three classes, and half afterwards in the opposite order.
    fn round(matcher: &mut Matcher<u32, u32>, round: u32) {
        let posting = |n: u32| Posting {
            source: (!n.is_multiple_of(3)).then_some(n % 5),
            tag: n.into(),
            ignore: if n.is_multiple_of(7) { 1 << 40 } else { 0 },
            ..Posting::default()
        };
        for n in 0..125 {
            assert!(matches!(matcher.post(posting(n), n), Posted::Queued(_)));
        }
        for n in 0..250 {
            let source = n % 5;
            let at = (n / 5) ^ u32::from(source == 4);
            let seq = round * 50 + at;
            let tag = u64::from(at * 5 + source);
            let envelope = Envelope { source, tag, seq, ..Envelope::default() };
            matcher.deliver(&envelope);
            while let Some((envelope, _)) = matcher.release(source, 0) {
                matcher.deliver(&envelope);
            }
        }
        for n in (125..250).rev() {
            assert!(matches!(matcher.post(posting(n), n), Posted::Matched(..)), "receive {n}");
        }
    }

    #[test]
    fn nothing_is_allocated_in_steady_state() {
        let mut matcher = Matcher::new();
        round(&mut matcher, 0);
        let memory = matcher.memory();
        for number in 1..100 {
            round(&mut matcher, number);
            assert_eq!(matcher.counts(), Counts::default());
            assert_eq!(matcher.memory(), memory, "round {number}");
        }
    }

    #[test]
    fn the_channels_of_a_source_are_told() {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        for (source, context) in [(1, 0), (1, 0), (1, u16::MAX), (2, 0), (1, 0)] {
            let seq = matcher.expected(source, context);
            matcher.deliver(&Envelope { source, context, seq, ..Envelope::default() });
        }
        let mut channels: Vec<_> = matcher.channels(1).collect();
        channels.sort_unstable();
        assert_eq!(channels, [(0, 3), (u16::MAX, 1)]);
        assert_eq!(matcher.channels(3).count(), 0);
    }

    #[test]
    fn what_is_claimed_from_the_beginning_is_seen_by_nobody_else() {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let envelope = Envelope { source: 1, len: 8, ..Envelope::default() };
        let id = matcher.store_claimed(&envelope, 5);
        let anything = Posting { ignore: u64::MAX, ..Posting::default() };
        assert_eq!(matcher.probe(&anything), None);
        assert_eq!((matcher.counts().claimed, matcher.counts().unexpected_bytes), (1, 8));
        *matcher.payload_mut(id).unwrap() = 6;
        assert_eq!(matcher.take_message(id), Some((envelope, 6)));
        assert_eq!(matcher.payload_mut(id), None);
        assert_eq!(matcher.counts(), Counts::default());
    }

    #[test]
    fn the_report_names_what_waits() {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let posting = Posting { source: Some(3), tag: 77, ..Posting::default() };
        assert!(matches!(matcher.post(posting, 1), Posted::Queued(_)));
        matcher.deliver(&Envelope { source: 4, tag: 88, ..Envelope::default() });
        matcher.deliver(&Envelope { source: 5, tag: 99, seq: 9, ..Envelope::default() });
        let report = format!("{matcher:?}");
        for part in ["posted: 1", "unexpected: 1", "early: 1", "tag: 77", "tag: 88", "tag: 99"] {
            assert!(report.contains(part), "no {part:?} in {report}");
        }
    }
}
