//! Checkpoints of an application: how many iterations it has done, and its state after them.

use super::Application;
use crate::Error;
use std::io::IoSlice;
use taffrail::Endpoint;
use taffrail::words::counted;

/// Takes a checkpoint of a rank that has done so many iterations; where none is taken, nothing happens.
pub fn take(
    endpoint: &mut Endpoint,
    application: &mut dyn Application,
    done: u32,
) -> Result<(), Error> {
    let done = done.to_le_bytes();
    let state = application.state();
    let pieces: Vec<IoSlice<'_>> = [&done[..]]
        .into_iter()
        .chain(state.iter().map(|piece| &**piece))
        .map(IoSlice::new)
        .collect();
    endpoint.checkpoint(&pieces)?;
    Ok(())
}

/// Puts an application where it was when this was taken; the number of iterations it has done.
///
/// # Errors
/// [`Error::Invalid`] if it is not of the length that such a checkpoint has.
pub fn restore(application: &mut dyn Application, taken: &[u8]) -> Result<u32, Error> {
    let state = application.state();
    let expected = size_of::<u32>() + state.iter().map(|piece| piece.len()).sum::<usize>();
    let (done, mut rest) = match taken.split_first_chunk() {
        Some(parts) if taken.len() == expected => parts,
        _ => {
            return Err(Error::Invalid {
                what: "the checkpoint of an application",
                expected: counted(expected, "byte"),
                got: counted(taken.len(), "byte"),
            });
        }
    };
    for piece in state {
        let (next, after) = rest.split_at(piece.len());
        piece.copy_from_slice(next);
        rest = after;
    }
    Ok(u32::from_le_bytes(*done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Name;
    use crate::app::testing::on_ranks;

    /// What a checkpoint is made of, in one piece.
    fn taken(application: &mut dyn Application, done: u32) -> Vec<u8> {
        let state = application.state();
        let pieces = state.into_iter().flat_map(|piece| piece.to_vec());
        done.to_le_bytes().into_iter().chain(pieces).collect()
    }

    #[test]
    fn who_goes_on_from_a_checkpoint_comes_to_the_same_end() {
        const SIZE: u32 = 8;
        for (name, ranks) in Name::ALL.into_iter().flat_map(|name| [(name, 1), (name, 4)]) {
            for (until, end) in [(1, 2), (3, 5), (3, 3)] {
                let ends = on_ranks(ranks, |place, endpoint| {
                    let mut first = name.make(place, SIZE).unwrap();
                    let mut step = |part: &mut dyn Application, iteration| {
                        part.step(endpoint, iteration).unwrap();
                    };
                    (0..until).for_each(|iteration| step(&mut *first, iteration));
                    let taken = taken(&mut *first, until);
                    (until..end).for_each(|iteration| step(&mut *first, iteration));
                    let mut next = name.make(place, SIZE).unwrap();
                    let done = restore(&mut *next, &taken).unwrap();
                    (done..end).for_each(|iteration| step(&mut *next, iteration));
                    (first.digest(), next.digest())
                });
                let what = format!("{name:?}, {ranks} ranks, {until} of {end}: {ends:?}");
                assert!(ends.iter().all(|(first, next)| first == next), "{what}");
            }
        }
    }

    #[test]
    fn a_checkpoint_of_another_length_is_refused_and_changes_nothing() {
        for name in Name::ALL {
            let place = crate::app::Place { rank: 0, ranks: 2 };
            let make = |size| name.make(place, size).unwrap();
            let whole = taken(&mut *make(8), 3);
            let mut application = make(8);
            let short = &whole[..whole.len() - 1];
            for wrong in [&[][..], &whole[..3], short, &[&whole[..], &[0]].concat()] {
                let error = restore(&mut *application, wrong).unwrap_err().to_string();
                let lengths = format!("expected {} bytes, got {}", whole.len(), wrong.len());
                assert!(error.contains(&lengths), "{name:?}: {error}");
            }
            assert_eq!(taken(&mut *application, 3), whole, "{name:?}");
            let other = restore(&mut *make(9), &whole);
            // The state of a master or worker has no size.
            assert_eq!(other.is_ok(), name == Name::Irregular, "{name:?}");
        }
    }
}
