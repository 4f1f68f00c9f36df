//! Events in a row, of which most are as expected: a byte each.

use crate::Event;

/// What is said of an event in a byte: its polls and its flags where it is as expected, else
/// [`RECORDED`].
pub(super) type EventCode = u8;

/// Of an event that is not as expected: it is given in full.
pub(super) const RECORDED: EventCode = 255;

/// More polls than these are not expected.
const MAX_POLLS: u32 = 62;
/// Where in a word of a record the number is, or that of a message.
const NUMBER: u32 = 32;
/// The bits of the number that are not expected to go on counting; what they are for is the business of
/// whose number it is. They are said.
const FLAGS: u64 = 3 << FLAG;
const FLAG: u32 = 62;

/// The event that would follow another one of the same kind, by [its words](Event::to_words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    message: u64,
    what: u64,
}

impl Expected {
    /// Nothing, at the beginning.
    pub(super) const NOTHING: Expected = Expected { message: 0, what: 0 };

    /// The event that these words [describe](Event::to_words).
    pub(super) fn from_words([message, what]: [u64; 2]) -> Self {
        Expected { message, what }
    }

    /// Whether these words describe it, all flags included.
    #[inline(always)]
    pub(super) fn is(self, [message, what]: [u64; 2]) -> bool {
        (message ^ self.message) | (what ^ self.what) == 0
    }

    /// The code of an event as expected after `polls` polls, with these flags.
    #[inline(always)]
    pub(super) fn says_of(polls: u32, flags: u8) -> Option<EventCode> {
        (polls <= MAX_POLLS).then_some((polls << 2) as u8 | flags & 3)
    }

    /// After this event.
    #[inline(always)]
    pub(super) fn after(event: &Event) -> Self {
        let ([message, what], _) = event.to_words();
        Expected { message, what }.later(event, 1)
    }

    /// After `events` events like this one.
    #[inline(always)]
    fn later(self, event: &Event, events: u64) -> Self {
        let (_, _, number, name) = event.parts();
        let step = |is_there: bool| (u64::from(is_there) * events) << NUMBER;
        Expected {
            message: self.message.wrapping_add(step(name.is_some())),
            what: self.what.wrapping_add(step(number.is_some())),
        }
    }

    /// What there is to say of this event.
    #[inline(always)]
    pub(super) fn says(&self, event: &Event) -> EventCode {
        let ([message, what], polls) = event.to_words();
        let differs = (message ^ self.message) | ((what ^ self.what) & !FLAGS);
        let says = Self::says_of(polls, (what >> FLAG) as u8);
        says.filter(|_| differs == 0).unwrap_or(RECORDED)
    }

    /// The event of which this is said; `None`: there is none that would be expected.
    #[inline]
    pub(super) fn event(&self, says: EventCode) -> Option<Event> {
        let what = self.what & !FLAGS | u64::from(says & 3) << FLAG;
        Event::from_words([self.message, what], u32::from(says >> 2)).filter(|_| says != RECORDED)
    }

    /// The last of a run of events of which this is said.
    pub(super) fn last(&self, run: &[EventCode]) -> Option<Event> {
        let (&says, before) = run.split_last()?;
        let first = self.event(says)?;
        self.later(&first, before.len() as u64).event(says)
    }
}

/// Events in a row. The first is given in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    says: Vec<EventCode>,
    /// Positions of the events that are given in full.
    recorded: Vec<(usize, Event)>,
}

impl Batch {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.says.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.says.is_empty()
    }

    /// Makes room for more events.
    pub(super) fn reserve(&mut self, events: usize) {
        self.says.reserve(events);
    }

    /// One more, given in full.
    pub fn push(&mut self, event: Event) {
        self.recorded.push((self.len(), event));
        self.says.push(RECORDED);
    }

    /// Some more, each as expected after the one before it.
    #[inline]
    pub(super) fn extend(&mut self, says: &[EventCode]) {
        debug_assert!(!self.is_empty() && !says.contains(&RECORDED));
        self.says.extend_from_slice(says);
    }

    /// None any more.
    pub(super) fn clear(&mut self) {
        self.says.clear();
        self.recorded.clear();
    }

    /// Only the first of them.
    pub(super) fn truncate(&mut self, events: usize) {
        self.recorded.truncate(self.recorded.partition_point(|(at, _)| *at < events));
        self.says.truncate(events);
    }

    /// An event in full, and the codes of those behind it up to the next one in full, in their order.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Event, &[EventCode])> {
        let ends = self.recorded.iter().skip(1).map(|(at, _)| *at).chain([self.len()]);
        self.recorded.iter().zip(ends).map(|((at, event), end)| (event, &self.says[at + 1..end]))
    }

    /// All of them.
    #[expect(clippy::expect_used, reason = "a batch says \"as expected\" only of events that are")]
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.runs().flat_map(|(&event, run)| {
            let behind = run.iter().scan(Expected::after(&event), |expected, &says| {
                let event = expected.event(says).expect("it is as expected");
                *expected = Expected::after(&event);
                Some(event)
            });
            std::iter::once(event).chain(behind)
        })
    }
}

/// As short as can be.
impl FromIterator<Event> for Batch {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        let (mut batch, mut expected) = (Batch::default(), Expected::NOTHING);
        for event in events {
            match expected.says(&event) {
                RECORDED => batch.push(event),
                says => batch.extend(&[says]),
            }
            expected = Expected::after(&event);
        }
        batch
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::MsgId;
    use proptest::prelude::*;

    /// The bits of a number that are expected to go on counting.
    const COUNTED: u32 = u32::MAX >> 2;

    fn event() -> impl Strategy<Value = Event> {
        let few = || prop_oneof![0..3u32, Just(u32::MAX)];
        let name = (0..2u32, 0..2u16, few()).prop_map(|(source, context, seq)| MsgId {
            source,
            context,
            seq,
        });
        let number = prop_oneof![0..3u32, Just(COUNTED), Just(COUNTED + 1), any::<u32>()];
        let polls = prop_oneof![0..3u32, 60..66u32, Just(u32::MAX)];
        (1..=6u8, polls, number, name).prop_map(|(kind, polls, number, message)| {
            Event::of_parts(kind, polls, number, message).expect("there is such a kind")
        })
    }

    proptest! {
        #[test]
        fn what_is_said_is_the_event(one in event(), other in event()) {
            let expected = Expected::after(&one);
            let says = expected.says(&other);
            prop_assert_eq!(expected.event(says), (says != RECORDED).then_some(other));
            prop_assert_eq!(Expected::NOTHING.event(says), None, "nothing is expected");
            prop_assert_eq!(Expected::NOTHING.says(&other), RECORDED);
        }

        #[test]
        fn a_batch_has_its_events(steps in prop::collection::vec((event(), prop::collection::vec(0..RECORDED, 0..4)), 1..8), cut in 0..40usize) {
            let (mut batch, mut all) = (Batch::default(), Vec::new());
            for (event, says) in steps {
                batch.push(event);
                all.push(event);
                batch.extend(&says);
                let mut expected = Expected::after(&event);
                let last = expected.last(&says);
                for says in says {
                    all.push(expected.event(says).unwrap());
                    expected = Expected::after(all.last().unwrap());
                }
                prop_assert_eq!(last.unwrap_or(event), *all.last().unwrap(), "the last of a run");
            }
            prop_assert_eq!(batch.events().collect::<Vec<Event>>(), all.clone());
            prop_assert_eq!(batch.len(), all.len());
            let short: Batch = all.iter().copied().collect();
            prop_assert_eq!(short.events().collect::<Vec<Event>>(), all.clone());
            batch.truncate(cut);
            all.truncate(cut);
            prop_assert_eq!(batch.events().collect::<Vec<Event>>(), all);
        }
    }

    #[test]
    fn the_next_of_a_kind_is_expected_whatever_its_flags() {
        let message = MsgId { source: 7, context: 3, seq: u32::MAX };
        let next = MsgId { seq: 0, ..message };
        let pairs = [
            (
                Event::Matched { polls: 9, post: 5, message },
                Event::Matched { polls: 62, post: 6, message: next },
            ),
            (Event::Found { polls: 9, index: 5 }, Event::Found { polls: 0, index: 6 | 3 << 30 }),
            (Event::Found { polls: 0, index: 6 | 1 << 30 }, Event::Found { polls: 1, index: 7 }),
            (
                Event::Found { polls: 0, index: COUNTED | 1 << 31 },
                Event::Found { polls: 1, index: 0 },
            ),
            (Event::Cancelled { polls: 0, post: 1 }, Event::Cancelled { polls: 0, post: 2 }),
            (Event::Probed { polls: 0, message }, Event::Probed { polls: 3, message: next }),
            (Event::Claimed { polls: 0, message }, Event::Claimed { polls: 3, message: next }),
            (Event::Nothing { polls: 1 }, Event::Nothing { polls: 2 }),
        ];
        for (one, next) in pairs {
            assert_ne!(Expected::after(&one).says(&next), RECORDED, "{one:?}, {next:?}");
        }
        let many = Event::Nothing { polls: 63 };
        assert_eq!(Expected::after(&Event::Nothing { polls: 1 }).says(&many), RECORDED);
        let (one, other) =
            (Event::Found { polls: 0, index: 5 }, Event::Probed { polls: 0, message });
        assert_eq!(Expected::after(&one).says(&one), RECORDED, "not the next");
        assert_eq!(Expected::after(&one).says(&other), RECORDED, "of another kind");
    }
}
