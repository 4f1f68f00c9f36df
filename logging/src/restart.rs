//! What two ranks exchange when one of them was restarted, and when one has a checkpoint.
//!
//! The restarted rank sends each rank that has a link with it what it has of it (RESTART1), and each answers with what it
//! has of the restarted one (RESTART2). Either is enough to know what to send again. Where both have
//! restarted, both send and both answer, which does no harm. What a committed checkpoint has of a rank is
//! sent in the same form (COMMITTED): it will not be asked for again. What is too long for one message of the fabric comes in
//! [pieces](Restart::pieces). The bytes are shown in `docs/logging.md`, section 4.

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
    /// The rest of which this is: it has begun in an earlier message.
    pub continues: bool,
    /// A message with more of it follows.
    pub more: bool,
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
    /// A piece that does not continue what has come before it.
    #[error("a piece of a restart message of phase {got:?} came behind {expected:?}")]
    Piece {
        /// What had begun, if anything had.
        expected: Option<RestartPhase>,
        /// Of which this is a piece.
        got: RestartPhase,
    },
}

const HEAD: usize = 16;
const ENTRY: usize = 6;
const MORE: u32 = 1 << 8;
const CONTINUES: u32 = 1 << 9;

impl Restart {
    /// A whole one.
    pub const fn new(phase: RestartPhase, incarnation: u32, received: Received) -> Restart {
        Restart { phase, incarnation, received, continues: false, more: false }
    }

    /// The same in pieces that are `most` bytes long, or as long as one entry takes.
    pub fn pieces(&self, most: usize) -> impl Iterator<Item = Restart> {
        let entries = (most.saturating_sub(HEAD) / ENTRY).max(1);
        let Received { channels, missing } = &self.received;
        let all = channels.len() + missing.len();
        (0..all.div_ceil(entries).max(1)).map(move |piece| {
            let (begin, end) = (piece * entries, all.min((piece + 1) * entries));
            let part = |of: &[(u16, u32)], before: usize| {
                let at = |entry: usize| entry.saturating_sub(before).min(of.len());
                of[at(begin)..at(end)].to_vec()
            };
            let received =
                Received { channels: part(channels, 0), missing: part(missing, channels.len()) };
            let (continues, more) = (piece > 0, end < all);
            Restart {
                received,
                continues,
                more,
                ..Restart::new(self.phase, self.incarnation, Received::default())
            }
        })
    }

    /// Takes the next piece in. Returns the whole when this was the last one of it; until then `begun` holds what is here.
    ///
    /// # Errors
    /// [`RestartError::Piece`] when it is no piece of what has begun.
    pub fn join(
        begun: &mut Option<Restart>,
        piece: Restart,
    ) -> Result<Option<Restart>, RestartError> {
        let expected = begun.as_ref().map(|begun| begun.phase);
        let (got, more) = (piece.phase, piece.more);
        let whole = match begun.take() {
            None if !piece.continues => piece,
            Some(mut begun)
                if piece.continues
                    && (begun.phase, begun.incarnation) == (got, piece.incarnation) =>
            {
                begun.received.channels.extend(piece.received.channels);
                begun.received.missing.extend(piece.received.missing);
                Restart { more, ..begun }
            }
            _ => return Err(RestartError::Piece { expected, got }),
        };
        if more {
            *begun = Some(whole);
            return Ok(None);
        }
        Ok(Some(whole))
    }

    /// The bytes of this message.
    pub fn encode(&self) -> Vec<u8> {
        let Received { channels, missing } = &self.received;
        let mut bytes = Vec::with_capacity(HEAD + ENTRY * (channels.len() + missing.len()));
        let phase = match self.phase {
            RestartPhase::First => 1_u32,
            RestartPhase::Second => 2,
            RestartPhase::Committed => 3,
        };
        let flags = if self.more { MORE } else { 0 } | if self.continues { CONTINUES } else { 0 };
        for word in [phase | flags, self.incarnation, channels.len() as u32, missing.len() as u32] {
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
        let (continues, more) = (word(0) & CONTINUES != 0, word(0) & MORE != 0);
        let phase = match word(0) & !(CONTINUES | MORE) {
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
        let received = Received { channels, missing };
        Ok(Restart { phase, incarnation: word(1), received, continues, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_restart() -> impl Strategy<Value = Restart> {
        let phases = [RestartPhase::First, RestartPhase::Second, RestartPhase::Committed];
        let lists = any::<[Vec<(u16, u32)>; 2]>();
        (prop::sample::select(phases.to_vec()), any::<u32>(), lists).prop_map(
            |(phase, incarnation, [channels, missing])| {
                Restart::new(phase, incarnation, Received { channels, missing })
            },
        )
    }

    #[test]
    fn a_piece_of_something_else_is_refused() {
        let received = Received { channels: vec![(1, 2), (3, 4), (5, 6)], missing: Vec::new() };
        let pieces = |phase| -> [Restart; 3] {
            let whole = Restart::new(phase, 7, received.clone());
            whole.pieces(HEAD + ENTRY).collect::<Vec<_>>().try_into().unwrap()
        };
        let [first, second, _] = pieces(RestartPhase::Second);
        let [begins, other, last] = pieces(RestartPhase::Committed);
        let got = RestartPhase::Committed;
        for wrong in [other, begins, Restart { incarnation: 8, ..second.clone() }] {
            let mut begun = None;
            assert_eq!(Restart::join(&mut begun, first.clone()), Ok(None));
            let refused = Restart::join(&mut begun, wrong.clone());
            let expected = Some(RestartPhase::Second);
            assert_eq!(refused, Err(RestartError::Piece { expected, got: wrong.phase }));
        }
        let refused = Restart::join(&mut None, last);
        assert_eq!(refused, Err(RestartError::Piece { expected: None, got }));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(restart in any_restart(), continues: bool, more: bool) {
            let restart = Restart { continues, more, ..restart };
            prop_assert_eq!(Restart::decode(&restart.encode()), Ok(restart));
        }

        #[test]
        fn pieces_are_short_and_make_the_whole(restart in any_restart(), most in 0_usize..200) {
            let mut begun = None;
            let pieces: Vec<Restart> = restart.pieces(most).collect();
            for (k, piece) in pieces.iter().enumerate() {
                prop_assert!(piece.encode().len() <= most.max(HEAD + ENTRY));
                let read = Restart::decode(&piece.encode()).unwrap();
                let whole = Restart::join(&mut begun, read).unwrap();
                prop_assert_eq!(whole.as_ref(), (k + 1 == pieces.len()).then_some(&restart));
            }
            prop_assert_eq!(begun, None);
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
            let bytes = Restart::new(RestartPhase::First, 0, received).encode();
            let less = &bytes[..cut.index(bytes.len())];
            prop_assert!(Restart::decode(less).is_err());
            let more = [&bytes[..], &[0]].concat();
            prop_assert!(Restart::decode(&more).is_err());
        }
    }
}
