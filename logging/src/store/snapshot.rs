//! What all members of a set have written at one moment: the clocks of a cut.
//!
//! **one-moment**, the invariant of its memory ordering: no event of a cut depends on one that is not in
//! it. Say that event *f* of rank q depends on event *e* of rank p. Then p has stored its `written` with
//! *e* (release) before the message left, or the chain of messages, that q had received (acquire) when
//! it stored its `written` with *f* (release). A logger that loads that word (acquire) with *f* in one
//! round loads the word of p with *e* in the next, and a cut is made only if that is what it had loaded
//! in the one before.

use super::ring::{RingError, RingReader, Words};

/// Rounds at the most, after the first.
const ROUNDS: usize = 100;

/// What the rings of a set say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Snapshot {
    /// Nobody has written anything new.
    Old,
    /// They write all the time: to be tried again. They stop when their rings are full.
    Moving,
    /// The clock of the last event of each, at one moment.
    Still(Vec<u64>),
}

/// Looks at all rings of a set, in this order, of which records up to `known` have been seen.
pub(super) fn moment<'a, W: Words + 'a>(
    rings: impl Iterator<Item = &'a RingReader<W>> + Clone,
    known: impl Iterator<Item = u64>,
) -> Result<Snapshot, RingError> {
    let round = || rings.clone().map(RingReader::written).collect::<Result<Vec<u64>, RingError>>();
    let mut before = round()?;
    if known.eq(before.iter().copied()) {
        return Ok(Snapshot::Old);
    }
    // The events of one rank depend on no others.
    if before.len() == 1 {
        return Ok(Snapshot::Still(before));
    }
    for _ in 0..ROUNDS {
        let now = round()?;
        if now == before {
            return Ok(Snapshot::Still(now));
        }
        before = now;
    }
    Ok(Snapshot::Moving)
}

#[cfg(all(test, not(loom)))]
mod tests;
