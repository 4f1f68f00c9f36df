//! Events: what was left to chance, and the record that one is stored as.
//!
//! MPICH-V2 logs each reception with four fields: the sender, the sender's clock, the receiver's
//! clock, and the number of unsuccessful probes before it (section 4.5). Here the sender's clock is
//! the number of the message in its channel, the receiver's clock counts events, and only what is
//! not determined anyway is an event, unless all receptions are asked for.
//!
//! The bytes of a record are shown in `docs/logging.md`, section 3.

use crate::{MsgId, Rank, checksum};

/// Something that chance has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The receive that was posted as number `post` has got this message, after `polls` that found
    /// nothing.
    Matched {
        /// Polls without success since the last event.
        polls: u32,
        /// The receive: all of a rank are counted, from 0.
        post: u32,
        /// Its message.
        message: MsgId,
    },
    /// The receive that was posted as number `post` was cancelled in time, after `polls` that found
    /// nothing.
    Cancelled {
        /// As in [`Event::Matched`].
        polls: u32,
        /// The receive.
        post: u32,
    },
    /// After `polls` that found nothing, a poll has found something that is determined but for the
    /// time: a test its request over, a wait for several the one with this index.
    Found {
        /// As in [`Event::Matched`].
        polls: u32,
        /// Which of those asked for; 0 where only one was.
        index: u32,
    },
    /// After `polls` that found nothing, a probe has seen this message.
    Probed {
        /// As in [`Event::Matched`].
        polls: u32,
        /// What it has seen.
        message: MsgId,
    },
    /// After `polls` that found nothing, this message was claimed.
    Claimed {
        /// As in [`Event::Matched`].
        polls: u32,
        /// What was claimed.
        message: MsgId,
    },
    /// A number of polls found nothing, and then a message was sent, which may depend on that.
    Nothing {
        /// As in [`Event::Matched`].
        polls: u32,
    },
}

/// Bytes of a record.
pub const RECORD: usize = 32;

/// The version of the format.
pub const VERSION: u8 = 1;

/// The event ring has no room for another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event ring is full: wait until the event logger has taken some records, then try again"
)]
pub struct Full;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Nothing was ever written here.
    #[error("no record")]
    Empty,
    /// The file ends in the midst of it.
    #[error("record {clock} is cut off: {got} of {RECORD} bytes are there")]
    Short {
        /// The clock that the record should have.
        clock: u64,
        /// How many bytes there are.
        got: usize,
    },
    /// The bytes are not what was written, or were written for another place.
    #[error("damaged record {clock}: its checksum is {got:#010x}, its bytes make {expected:#010x}")]
    Damaged {
        /// The clock that the record claims.
        clock: u64,
        /// What the checksum of its bytes is.
        expected: u32,
        /// What it says.
        got: u32,
    },
    /// Written by another version.
    #[error("record {clock} has format {got}, this program reads format {VERSION}")]
    Version {
        /// The record's clock.
        clock: u64,
        /// Its version.
        got: u8,
    },
    /// Whole, but of no kind that there is.
    #[error("record {clock} is of kind {got}, there are kinds 1 to 6")]
    Kind {
        /// The record's clock.
        clock: u64,
        /// Its kind.
        got: u8,
    },
    /// Whole, with something in a field that its kind does not have.
    #[error("record {clock} is of kind {kind}, and a field that this kind does not use is not 0")]
    Unused {
        /// The record's clock.
        clock: u64,
        /// Its kind.
        kind: u8,
    },
}

impl Event {
    /// The record of this event of `rank` at `clock` (from 1). The first eight bytes are the clock.
    pub fn encode(&self, rank: Rank, clock: u64) -> [u8; RECORD] {
        let (words, polls) = self.to_words();
        bytes(words_of(rank, clock, words, polls))
    }

    /// The words of its record that describe it without its polls, and its polls. Nothing goes through memory on the
    /// way.
    #[inline(always)]
    pub(crate) fn to_words(self) -> ([u64; 2], u32) {
        let (kind, polls, number, message) = self.parts();
        let none = MsgId { source: 0, context: 0, seq: 0 };
        let (number, name) = (number.unwrap_or(0), message.unwrap_or(none));
        let MsgId { source, context, seq } = name;
        let message = u64::from(source) | u64::from(seq) << 32;
        let what = u64::from(context)
            | u64::from(kind) << 16
            | u64::from(VERSION) << 24
            | u64::from(number) << 32;
        ([message, what], polls)
    }

    /// The event that these words [describe](Self::to_words); `None`: there is no such kind.
    #[inline]
    pub(crate) fn from_words([message, what]: [u64; 2], polls: u32) -> Option<Event> {
        let message =
            MsgId { source: message as u32, context: what as u16, seq: (message >> 32) as u32 };
        Event::of_parts((what >> 16) as u8, polls, (what >> 32) as u32, message)
    }

    /// Its kind and its polls; its number and its message, where its kind has them.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (u8, u32, Option<u32>, Option<MsgId>) {
        match *self {
            Event::Matched { polls, post, message } => (1, polls, Some(post), Some(message)),
            Event::Cancelled { polls, post } => (2, polls, Some(post), None),
            Event::Found { polls, index } => (3, polls, Some(index), None),
            Event::Probed { polls, message } => (4, polls, None, Some(message)),
            Event::Claimed { polls, message } => (5, polls, None, Some(message)),
            Event::Nothing { polls } => (6, polls, None, None),
        }
    }

    /// The event of these [parts](Self::parts), if there is such a kind. What its kind does not have does
    /// not matter.
    #[inline]
    pub(crate) fn of_parts(kind: u8, polls: u32, number: u32, message: MsgId) -> Option<Event> {
        Some(match kind {
            1 => Event::Matched { polls, post: number, message },
            2 => Event::Cancelled { polls, post: number },
            3 => Event::Found { polls, index: number },
            4 => Event::Probed { polls, message },
            5 => Event::Claimed { polls, message },
            6 => Event::Nothing { polls },
            _ => return None,
        })
    }

    /// The clock and the event of a record of `rank`.
    ///
    /// # Errors
    /// [`RecordError`], naming the record.
    pub fn decode(rank: Rank, bytes: &[u8; RECORD]) -> Result<(u64, Event), RecordError> {
        Event::of_words(rank, &words(bytes))
    }

    /// The clock and the event of a record of `rank`, as little endian words.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub(crate) fn of_words(rank: Rank, words: &[u64; 4]) -> Result<(u64, Event), RecordError> {
        let [clock, message, what, rest] = *words;
        if clock == 0 {
            return Err(RecordError::Empty);
        }
        let got = (rest >> 32) as u32;
        let expected = checksum::of(rank, [clock, message, what], rest as u32);
        if expected != got {
            return Err(RecordError::Damaged { clock, expected, got });
        }
        let (kind, version) = ((what >> 16) as u8, (what >> 24) as u8);
        if version != VERSION {
            return Err(RecordError::Version { clock, got: version });
        }
        let event = Event::from_words([message, what], rest as u32);
        let event = event.ok_or(RecordError::Kind { clock, got: kind })?;
        if event.to_words().0 != [message, what] {
            return Err(RecordError::Unused { clock, kind });
        }
        Ok((clock, event))
    }
}

/// The words of the record of the event of `rank` at `clock`, from the words that [describe](Event::to_words) the event.
#[inline(always)]
pub(crate) fn words_of(rank: Rank, clock: u64, words: [u64; 2], polls: u32) -> [u64; 4] {
    let [message, what] = words;
    let check = checksum::of(rank, [clock, message, what], polls);
    [clock, message, what, u64::from(polls) | u64::from(check) << 32]
}

/// The little endian words of a record.
#[inline]
pub(crate) fn words(record: &[u8; RECORD]) -> [u64; 4] {
    let words = record.as_chunks().0;
    [0, 1, 2, 3].map(|k| u64::from_le_bytes(words[k]))
}

/// The record of little endian words.
#[inline]
pub(crate) fn bytes(words: [u64; 4]) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    for (bytes, word) in record.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn events() -> impl Strategy<Value = Event> {
        let name = (any::<u32>(), any::<u16>(), any::<u32>())
            .prop_map(|(source, context, seq)| MsgId { source, context, seq });
        prop_oneof![
            (any::<(u32, u32)>(), name.clone())
                .prop_map(|((polls, post), message)| Event::Matched { polls, post, message }),
            any::<(u32, u32)>().prop_map(|(polls, post)| Event::Cancelled { polls, post }),
            any::<(u32, u32)>().prop_map(|(polls, index)| Event::Found { polls, index }),
            (any::<u32>(), name.clone())
                .prop_map(|(polls, message)| Event::Probed { polls, message }),
            (any::<u32>(), name).prop_map(|(polls, message)| Event::Claimed { polls, message }),
            any::<u32>().prop_map(|polls| Event::Nothing { polls }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(event in events(), rank: u32, clock in 1..u64::MAX) {
            prop_assert_eq!(Event::decode(rank, &event.encode(rank, clock)), Ok((clock, event)));
        }

        #[test]
        fn no_flipped_bits_are_believed(
            event in events(), clock in 1..u64::MAX, bit in 0..RECORD * 8, other in 0..RECORD * 8,
        ) {
            let mut bytes = event.encode(3, clock);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Event::decode(3, &bytes).is_err());
            if other != bit {
                bytes[other / 8] ^= 1 << (other % 8);
                prop_assert!(Event::decode(3, &bytes).is_err());
            }
        }

        #[test]
        fn a_record_of_another_rank_is_not_believed(event in events(), clock in 1..u64::MAX) {
            let bytes = event.encode(3, clock);
            let read = Event::decode(4, &bytes);
            let damaged = matches!(read, Err(RecordError::Damaged { .. }));
            prop_assert!(damaged, "{:?}", read);
        }
    }

    /// A record with another byte, and the checksum of that.
    fn forged(event: Event, at: usize, byte: u8) -> [u8; RECORD] {
        let mut bytes = event.encode(0, 9);
        bytes[at] = byte;
        let sum = crc32c::crc32c_append(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn nothing_and_the_unknown_are_distinguished() {
        assert_eq!(Event::decode(0, &[0; RECORD]), Err(RecordError::Empty));
        let nothing = Event::Nothing { polls: 1 };
        let read = |at, byte| Event::decode(0, &forged(nothing, at, byte));
        assert_eq!(read(18, 7), Err(RecordError::Kind { clock: 9, got: 7 }));
        assert_eq!(read(19, 2), Err(RecordError::Version { clock: 9, got: 2 }));
        for unused in [8, 12, 15, 16, 17, 20, 23] {
            assert_eq!(read(unused, 1), Err(RecordError::Unused { clock: 9, kind: 6 }));
        }
        let cancelled = Event::Cancelled { polls: 1, post: 0 };
        let post = Event::decode(0, &forged(cancelled, 20, 3));
        assert_eq!(post, Ok((9, Event::Cancelled { polls: 1, post: 3 })));
    }
}
