//! Where a rank is when it takes a checkpoint: what it needs, beside the state of its program, to go on
//! from there.
//!
//! Uncoordinated, as in MPICH-V2 (section 4.6): a rank that is a set by itself takes a checkpoint when it
//! likes. Its events up to then are not replayed any more. Messages that were here and that nobody had
//! received are not in it: they are missing, and come again. What it has sent is in its log, which must
//! outlive it; what a checkpoint of their receivers covers is dropped from there (*no-early-discard*).
//! `docs/logging.md`, section 14, shows the bytes.

use crate::Received;

/// Where a rank is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The clock of its last event.
    pub clock: u64,
    /// Receives that it has posted.
    pub posts: u32,
    /// Operations that it has started whose ends are reported.
    pub serial: u32,
    /// Of each rank.
    pub sides: Vec<PeerPosition>,
}

/// Where a rank is with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerPosition {
    /// What it has received.
    pub received: Received,
    /// The next number of each context in use of what it sends.
    pub next: Vec<(u16, u32)>,
    /// Where its log for this rank is, in the terms of the keeper of the log.
    pub log: Vec<u8>,
}

/// What is wrong with the bytes of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// There are fewer bytes than it says, or more.
    #[error("byte {at} of the position in a checkpoint: {need} bytes should follow, {have} do")]
    Length {
        /// Where.
        at: usize,
        /// How many there should be from there on.
        need: usize,
        /// How many there are.
        have: usize,
    },
    /// It is of another number of ranks.
    #[error("a checkpoint of a job whose ranks are {got}; those of this job are {expected}")]
    Ranks {
        /// As many as there are.
        expected: u32,
        /// As many as it has.
        got: u32,
    },
}

const ENTRY: usize = 6;

impl Position {
    /// The bytes of this position.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.clock.to_le_bytes());
        let words = [self.posts, self.serial, self.sides.len() as u32, 0];
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        for PeerPosition { received, next, log } in &self.sides {
            let lists = [&received.channels, &received.missing, next];
            let lens = lists.map(|list| list.len() as u32);
            for len in lens.into_iter().chain([log.len() as u32]) {
                bytes.extend_from_slice(&len.to_le_bytes());
            }
            for (context, seq) in lists.into_iter().flatten() {
                bytes.extend_from_slice(&context.to_le_bytes());
                bytes.extend_from_slice(&seq.to_le_bytes());
            }
            bytes.extend_from_slice(log);
        }
        bytes
    }

    /// The position of these bytes, in a job of `ranks` ranks.
    ///
    /// # Errors
    /// [`PositionError`] when they are not those of one.
    pub fn decode(bytes: &[u8], ranks: u32) -> Result<Position, PositionError> {
        let mut rest = Rest { bytes, at: 0 };
        let clock = Position::clock(rest.array()?);
        let [posts, serial, got, _] = rest.words()?;
        if got != ranks {
            return Err(PositionError::Ranks { expected: ranks, got });
        }
        let mut sides = Vec::new();
        for _ in 0..ranks {
            let [channels, missing, next, log] = rest.words()?;
            let channels = rest.numbers(channels)?;
            let missing = rest.numbers(missing)?;
            let next = rest.numbers(next)?;
            let log = rest.take(log as usize)?.to_vec();
            sides.push(PeerPosition { received: Received { channels, missing }, next, log });
        }
        match rest.left() {
            0 => Ok(Position { clock, posts, serial, sides }),
            have => Err(PositionError::Length { at: rest.at, need: 0, have }),
        }
    }

    /// The clock of a position that begins with these bytes.
    pub fn clock(front: [u8; 8]) -> u64 {
        u64::from_le_bytes(front)
    }
}

/// What is still to be read.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], PositionError> {
        let (at, have) = (self.at, self.left());
        let taken = self.bytes[at..].get(..len);
        self.at += len.min(have);
        taken.ok_or(PositionError::Length { at, need: len, have })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PositionError> {
        let taken = self.take(N)?;
        Ok(std::array::from_fn(|k| taken[k]))
    }

    fn words(&mut self) -> Result<[u32; 4], PositionError> {
        let bytes: [u8; 16] = self.array()?;
        let words = bytes.as_chunks::<4>().0;
        Ok(std::array::from_fn(|k| u32::from_le_bytes(words[k])))
    }

    fn numbers(&mut self, count: u32) -> Result<Vec<(u16, u32)>, PositionError> {
        let entries = self.take((count as usize).saturating_mul(ENTRY))?.as_chunks::<ENTRY>().0;
        let number = |e: &[u8; ENTRY]| {
            (u16::from_le_bytes([e[0], e[1]]), u32::from_le_bytes([e[2], e[3], e[4], e[5]]))
        };
        Ok(entries.iter().map(number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = Vec<(u16, u32)>> {
        prop::collection::vec(any::<(u16, u32)>(), 0..5)
    }

    fn side() -> impl Strategy<Value = PeerPosition> {
        let log = prop::collection::vec(any::<u8>(), 0..70);
        (numbers(), numbers(), numbers(), log).prop_map(|(channels, missing, next, log)| {
            PeerPosition { received: Received { channels, missing }, next, log }
        })
    }

    prop_compose! {
        fn position()(
            clock: u64, posts: u32, serial: u32, sides in prop::collection::vec(side(), 0..4),
        ) -> Position {
            Position { clock, posts, serial, sides }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(position in position()) {
            let ranks = position.sides.len() as u32;
            let bytes = position.encode();
            prop_assert_eq!(Position::decode(&bytes, ranks), Ok(position));
            let other = PositionError::Ranks { expected: ranks + 1, got: ranks };
            prop_assert_eq!(Position::decode(&bytes, ranks + 1), Err(other));
        }

        #[test]
        fn no_length_but_the_right_one_is_believed(position in position(), cut: prop::sample::Index) {
            let ranks = position.sides.len() as u32;
            let mut bytes = position.encode();
            bytes.push(0);
            prop_assert!(Position::decode(&bytes, ranks).is_err());
            bytes.pop();
            prop_assert!(Position::decode(&bytes[..cut.index(bytes.len())], ranks).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, ranks in 0..4_u32) {
            if let Ok(position) = Position::decode(&bytes, ranks) {
                prop_assert_eq!(position.encode().len(), bytes.len());
            }
        }
    }
}
