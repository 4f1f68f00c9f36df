//! The engine: brings receives and messages together.

use crate::hash::Seed;
use crate::names::Key;
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
/// assert_eq!(matcher.arrive(&envelope), Arrival::Unmatched);
/// matcher.store_unexpected(&envelope, b"hi".to_vec());
/// assert_eq!(matcher.post(posting, 101), Posted::Matched(envelope, b"hi".to_vec()));
/// ```
pub struct Matcher<R, U> {
    receives: Receives<R>,
    unexpected: Unexpected<U>,
}

impl<R: Copy, U> Matcher<R, U> {
    /// Bytes of memory that a message takes while it waits, with its place in one index at the most. Patterns that ignore other bits of
    /// the tag make further indexes, up to four.
    pub const WAITING_BYTES: usize = Unexpected::<U>::MESSAGE_BYTES + Unexpected::<U>::INDEX_BYTES;

    /// An engine that holds nothing.
    pub fn new() -> Self {
        Matcher::seeded(Seed::random())
    }

    /// As [`new`](Self::new), with a seed for the hash tables instead of a random one: then each run
    /// takes the same time, and a peer that knows the seed can choose tags that take very long. The
    /// results do not depend on it.
    pub fn with_seed(seed: u64) -> Self {
        Matcher::seeded(Seed::fixed(seed))
    }

    fn seeded(seed: Seed) -> Self {
        Matcher { receives: Receives::with_seed(seed), unexpected: Unexpected::with_seed(seed) }
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

    /// Takes in the envelope of a message: finds the receive that gets it, the one posted first among
    /// those that fit.
    #[inline(always)]
    pub fn arrive(&mut self, envelope: &Envelope) -> Arrival<R> {
        self.receives.take(envelope)
    }

    /// Whether no receive is posted, and no message waits for one.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.receives.is_empty() && self.unexpected.waiting() == 0
    }

    /// Stores a message that was [`Arrival::Unmatched`]. Nothing may be posted in between.
    #[inline]
    pub fn store_unexpected(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        self.unexpected.push(envelope, payload)
    }

    /// Stores a message that is claimed from the beginning: no receive or probe sees it.
    pub fn store_claimed(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        self.unexpected.push_claimed(envelope, payload)
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

    /// A message in the store, claimed or not, and the handle of its payload, to be changed. `None`: it
    /// has left already.
    pub fn message_mut(&mut self, id: MessageId) -> Option<(&Envelope, &mut U)> {
        self.unexpected.message_mut(id)
    }

    /// Removes the receives that name `source`, which has failed, and returns them in the order they were
    /// posted. Receives from any source stay, and so do its messages: see
    /// [`unexpected_from`](Self::unexpected_from) for these.
    pub fn fail(&mut self, source: u32) -> Vec<R> {
        self.receives.remove_source(source)
    }

    /// How much is held.
    pub fn counts(&self) -> Counts {
        Counts {
            posted: self.receives.len(),
            unexpected: self.unexpected.waiting(),
            claimed: self.unexpected.claimed(),
            unexpected_bytes: self.unexpected.bytes(),
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
        f.debug_struct("Matcher")
            .field("counts", &self.counts())
            .field("posted", &posted)
            .field("unexpected", &unexpected)
            .field("claimed", &claimed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Matcher<u32, u32> {
        fn memory(&self) -> [[usize; 3]; 2] {
            [self.receives.memory(), self.unexpected.memory()]
        }

        fn deliver(&mut self, envelope: &Envelope) {
            match self.arrive(envelope) {
                Arrival::Unmatched => _ = self.store_unexpected(envelope, 0),
                Arrival::Matched(_) => {}
            }
        }
    }

    /// 50 messages each from 5 sources; half of the receives posted
    /// before, of three classes, and half afterwards in the opposite order.
    fn round(matcher: &mut Matcher<u32, u32>) {
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
            let envelope = Envelope { source, tag: n.into(), ..Envelope::default() };
            matcher.deliver(&envelope);
        }
        for n in (125..250).rev() {
            assert!(matches!(matcher.post(posting(n), n), Posted::Matched(..)), "receive {n}");
        }
    }

    #[test]
    fn nothing_is_allocated_in_steady_state() {
        let mut matcher = Matcher::new();
        round(&mut matcher);
        let memory = matcher.memory();
        for number in 1..100 {
            round(&mut matcher);
            assert_eq!(matcher.counts(), Counts::default());
            assert_eq!(matcher.memory(), memory, "round {number}");
        }
    }

    #[test]
    fn what_is_claimed_from_the_beginning_is_seen_by_nobody_else() {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let envelope = Envelope { source: 1, len: 8, ..Envelope::default() };
        let id = matcher.store_claimed(&envelope, 5);
        let anything = Posting { ignore: u64::MAX, ..Posting::default() };
        assert_eq!(matcher.probe(&anything), None);
        assert_eq!((matcher.counts().claimed, matcher.counts().unexpected_bytes), (1, 8));
        let (seen, payload) = matcher.message_mut(id).unwrap();
        assert_eq!(*seen, envelope);
        *payload = 6;
        assert_eq!(matcher.take_message(id), Some((envelope, 6)));
        assert_eq!(matcher.message_mut(id), None);
        assert_eq!(matcher.counts(), Counts::default());
    }

    #[test]
    fn the_report_names_what_waits() {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let posting = Posting { source: Some(3), tag: 77, ..Posting::default() };
        assert!(matches!(matcher.post(posting, 1), Posted::Queued(_)));
        matcher.deliver(&Envelope { source: 4, tag: 88, ..Envelope::default() });
        let report = format!("{matcher:?}");
        for part in ["posted: 1", "unexpected: 1", "tag: 77", "tag: 88"] {
            assert!(report.contains(part), "no {part:?} in {report}");
        }
    }
}
