//! The cell in plain memory: gets of any length through the kernel, and peers that lie.

use proptest::prelude::*;

use super::*;
use crate::cma;

fn taken(serial: u32, front: u64, back: u64) -> u64 {
    Taken { serial, front, back }.pack()
}

fn pull_all(
    pull: &mut Pull,
    cell: &Cell,
    mut fill: impl FnMut(u64, usize) -> Result<(), Fault>,
) -> Result<usize, PullError> {
    let mut moved = 0;
    loop {
        match pull.step(cell, &mut fill)? {
            Step::Moved => moved += 1,
            Step::Waiting => std::thread::yield_now(),
            Step::Done => return Ok(moved),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The owner moves until it fails (or never comes); whatever it does, all bytes arrive.
    #[test]
    fn all_bytes_arrive_through_the_kernel(len in 0..2_000_000usize, seed in any::<u8>(),
                                           owner_moves in 0..20usize, serial in 1..5u32) {
        let me = std::process::id() as i32;
        let source: Vec<u8> = (0..len).map(|i| (i / 3) as u8 ^ (i >> 12) as u8 ^ seed).collect();
        let mut target = vec![0u8; len];
        let from = source.as_ptr().expose_provenance() as u64;
        let into = target.as_mut_ptr().expose_provenance() as u64;
        let cell = cell();
        let mut pull = Pull::start(&cell, serial, len as u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut push = Push::new(serial, len as u64);
                for moves in 0.. {
                    let remote = if moves < owner_moves { into } else { 8 };
                    let step = push.step(&cell, |offset, len| {
                        let at = std::ptr::with_exposed_provenance((from + offset) as usize);
                        // SAFETY: pieces lie inside of `source`; only the reader and we write
                        // `target`, each to pieces of its own.
                        unsafe { cma::write(me, remote + offset, at, len) }
                    });
                    if !matches!(step, Ok(PushStep::Moved)) {
                        break;
                    }
                }
            });
            pull_all(&mut pull, &cell, |offset, len| {
                let to = std::ptr::with_exposed_provenance_mut((into + offset) as usize);
                // SAFETY: pieces lie inside of `target`.
                unsafe { cma::read(me, from + offset, to, len) }.map_err(Fault::from)
            })
        }).unwrap();
        prop_assert!(source == target);
    }

    #[test]
    fn pieces_cover_every_length_exactly(len in prop_oneof![0..1u64 << 22, any::<u64>()]) {
        let pieces = Pieces::of(len);
        prop_assert!(pieces.count <= MAX_PIECES);
        prop_assert_eq!(pieces.piece % PIECE, 0);
        if let Some(last) = pieces.count.checked_sub(1) {
            let (offset, rest) = pieces.range(last);
            prop_assert!(rest > 0 && rest as u64 <= pieces.piece);
            prop_assert_eq!(offset + rest as u64, len);
            prop_assert_eq!(pieces.range(last / 2).0, last / 2 * pieces.piece);
        } else {
            prop_assert_eq!(len, 0);
        }
    }

    /// Whatever a peer writes into the cell, the reader ends with an error or with the pieces that
    /// it moved itself and the pieces that the peer claims, and never moves bytes outside of the get.
    #[test]
    fn a_lying_owner_harms_only_its_get(words in prop::collection::vec(any::<[u64; 4]>(), 1..30),
                                        honest in any::<u8>()) {
        let cell = cell();
        let len = 5 * PIECE + 3;
        let mut pull = Pull::start(&cell, 1, len);
        for [which, a, b, c] in words {
            let small = taken(1, a % 7, b % 7);
            match which % 5 {
                0 => cell.taken.store(if honest % 2 == 0 { small } else { a }, Ordering::Relaxed),
                1 => cell.finished.store((1 << 32) | (c % 8), Ordering::Relaxed),
                2 => cell.finished.store(c, Ordering::Relaxed),
                3 => cell.refused.store(c % 3, Ordering::Relaxed),
                _ => {}
            }
            let step = pull.step(&cell, |offset, piece| {
                assert!(offset + piece as u64 <= len);
                Ok::<(), Fault>(())
            });
            match step {
                Ok(Step::Done) => break,
                Ok(_) => {}
                Err(PullError::Protocol(Fault::Protocol { place, .. })) => {
                    assert!(place.starts_with("assist, "));
                    assert_eq!(cell.taken.load(Ordering::Relaxed), 0);
                    break;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_lying_reader_gets_no_piece_twice(words in prop::collection::vec(any::<[u64; 3]>(), 1..60)) {
        let cell = cell();
        let len = 5 * PIECE + 3;
        let mut push = Push::new(1, len);
        let mut moved = Vec::new();
        for [which, a, b] in words {
            let word = if which % 4 == 0 { a } else { taken(1, a % 7, b % 7) };
            cell.taken.store(word, Ordering::Relaxed);
            let _ = push.step(&cell, |offset, piece| {
                assert!(offset + piece as u64 <= len);
                moved.push(offset);
                Ok::<(), Fault>(())
            });
        }
        let count = moved.len();
        moved.sort_unstable();
        moved.dedup();
        prop_assert_eq!(moved.len(), count);
    }
}

#[test]
fn front_and_back_meet() {
    let cell = cell();
    let len = 4 * PIECE + 1;
    let (mut pull, mut push) = (Pull::start(&cell, 7, len), Push::new(7, len));
    let mut moved = Vec::new();
    let mut push_moves = |moved: &mut Vec<(u64, usize)>| {
        push.step(&cell, |offset, len| {
            moved.push((offset, len));
            Ok::<(), Fault>(())
        })
    };
    assert_eq!(push_moves(&mut moved), Ok(PushStep::Moved));
    assert_eq!(push_moves(&mut moved), Ok(PushStep::Moved));
    let pulled = pull_all(&mut pull, &cell, |offset, len| {
        moved.push((offset, len));
        Ok(())
    });
    assert_eq!(pulled, Ok(3));
    assert_eq!(push_moves(&mut moved), Ok(PushStep::Over));
    let piece = PIECE as usize;
    let expected = [(4, 1), (3, piece), (0, piece), (1, piece), (2, piece)];
    assert_eq!(moved, expected.map(|(index, len)| (index * PIECE, len)));
}

#[test]
fn the_reader_waits_for_a_piece_under_way_even_after_its_own_failure() {
    let cell = cell();
    let mut pull = Pull::start(&cell, 1, 3 * PIECE);
    let mut push = Push::new(1, 3 * PIECE);
    let mut answers = Vec::new();
    push.step(&cell, |_, _| {
        // While the owner is inside its move:
        answers.push(pull.step(&cell, |_, _| Err(trouble())));
        answers
            .push(pull.step(&cell, |_, _| -> Result<(), Fault> { panic!("moved after failing") }));
        Ok::<(), Fault>(())
    })
    .unwrap();
    assert_eq!(answers, [Ok(Step::Waiting), Ok(Step::Waiting)]);
    let end = pull.step(&cell, |_, _| -> Result<(), Fault> { panic!("moved after failing") });
    assert_eq!(end, Err(PullError::Move(trouble())));
    assert_eq!(push.step(&cell, |_, _| Ok::<(), Fault>(())), Ok(PushStep::Over));
}

#[test]
fn an_empty_get_is_done_at_once() {
    let cell = cell();
    let mut pull = Pull::start(&cell, 1, 0);
    let step = pull.step(&cell, |_, _| -> Result<(), Fault> { panic!("nothing to move") });
    assert_eq!(step, Ok(Step::Done));
    let step = Push::new(1, 0).step(&cell, |_, _| -> Result<(), Fault> { panic!("nothing") });
    assert_eq!(step, Ok(PushStep::Over));
}

#[test]
fn the_words_lie_where_the_format_says() {
    let mut memory = [0u64; 3];
    // SAFETY: 24 bytes, aligned, used as a cell while the reference lives.
    let cell = unsafe { Cell::at(memory.as_mut_ptr().cast()) };
    let mut pull = Pull::start(cell, 9, 3 * PIECE);
    pull.step(cell, |_, _| Ok::<(), Fault>(())).unwrap();
    let mut push = Push::new(9, 3 * PIECE);
    push.step(cell, |_, _| Ok::<(), Fault>(())).unwrap();
    push.step(cell, |_, _| Err(trouble())).unwrap_err();
    assert_eq!(memory, [9 << 32 | 2 << 16 | 1, 9 << 32 | 1, 9]);
}
