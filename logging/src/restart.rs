//! What two ranks exchange when one of them was restarted, and when one has a checkpoint.
//!
//! The restarted rank sends every other what it has of it (RESTART1), and each answers with what it
//! has of the restarted one (RESTART2). Either is enough to know what to send again. Where both have
//! restarted, both send and both answer, which does no harm. What a committed checkpoint has of a rank is
//! sent in the same form (COMMITTED): it will not be asked for again. The bytes are shown in
//! `docs/logging.md`, section 4.

/// What a rank has of one sender: everything before the expected number of each context, but for what
/// is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Contexts, and the number of the next message of each; 0 for a context that is not named.
    pub channels: Vec<(u16, u32)>,
    /// Messages before that which are not there whole.
    pub missing: Vec<(u16, u32)>,
}

/// Whose phase it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPhase {
    /// RESTART1: from a rank that has started again.
    First,
    /// RESTART2: the answer.
    Second,
    /// COMMITTED: what a checkpoint covers, which is there from now on.
    Committed,
}

/// A message of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Which of them it is.
    pub phase: RestartPhase,
    /// The incarnation of the rank that sends it.
    pub incarnation: u32,
    /// What that rank has of the one it is sent to.
    pub received: Received,
}

/// What is wrong with the bytes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// Too few or too many of them.
    #[error("a restart message of {expected} bytes was announced, and {got} came")]
    Length {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// None of RESTART1, RESTART2 and COMMITTED.
    #[error("a restart message says it is of kind {got}, there are 1 to 3")]
    RestartPhase {
        /// What it says.
        got: u8,
    },
}

const HEAD: usize = 16;
const ENTRY: usize = 6;

impl Restart {
    /// The bytes of this message.
    pub fn encode(&self) -> Vec<u8> {
        let Received { channels, missing } = &self.received;
        let mut bytes = Vec::with_capacity(HEAD + ENTRY * (channels.len() + missing.len()));
        let phase = match self.phase {
            RestartPhase::First => 1_u32,
            RestartPhase::Second => 2,
            RestartPhase::Committed => 3,
        };
        for word in [phase, self.incarnation, channels.len() as u32, missing.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for (context, seq) in channels.iter().chain(missing) {
            bytes.extend_from_slice(&context.to_le_bytes());
            bytes.extend_from_slice(&seq.to_le_bytes());
        }
        bytes
    }

    /// The message of these bytes.
    ///
    /// # Errors
    /// [`RestartError`] when they are not those of one.
    pub fn decode(bytes: &[u8]) -> Result<Restart, RestartError> {
        let short = RestartError::Length { expected: HEAD, got: bytes.len() };
        let (head, entries) = bytes.split_at_checked(HEAD).ok_or(short)?;
        let word = |k: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| head[4 * k + i]));
        let phase = match word(0) {
            1 => RestartPhase::First,
            2 => RestartPhase::Second,
            3 => RestartPhase::Committed,
            other => return Err(RestartError::RestartPhase { got: other.min(255) as u8 }),
        };
        let (channels, missing) = (word(2) as usize, word(3) as usize);
        let expected = HEAD.saturating_add(ENTRY.saturating_mul(channels.saturating_add(missing)));
        if bytes.len() != expected {
            return Err(RestartError::Length { expected, got: bytes.len() });
        }
        let mut entries = entries.chunks_exact(ENTRY).map(|e| {
            (u16::from_le_bytes([e[0], e[1]]), u32::from_le_bytes([e[2], e[3], e[4], e[5]]))
        });
        let channels = entries.by_ref().take(channels).collect();
        let missing = entries.collect();
        Ok(Restart { phase, incarnation: word(1), received: Received { channels, missing } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            phase in prop::sample::select(vec![RestartPhase::First, RestartPhase::Second, RestartPhase::Committed]), incarnation: u32, channels: Vec<(u16, u32)>, missing: Vec<(u16, u32)>,
        ) {
            let restart = Restart { phase, incarnation, received: Received { channels, missing } };
            prop_assert_eq!(Restart::decode(&restart.encode()), Ok(restart));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok(restart) = Restart::decode(&bytes) {
                prop_assert_eq!(restart.encode(), bytes);
            }
        }

        #[test]
        fn no_length_but_the_right_one_is_believed(channels: Vec<(u16, u32)>, cut: prop::sample::Index) {
            let received = Received { channels, missing: vec![(1, 2)] };
            let bytes = Restart { phase: RestartPhase::First, incarnation: 0, received }.encode();
            let less = &bytes[..cut.index(bytes.len())];
            prop_assert!(Restart::decode(less).is_err());
            let more = [&bytes[..], &[0]].concat();
            prop_assert!(Restart::decode(&more).is_err());
        }
    }
}
