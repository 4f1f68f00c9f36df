//! Held tables against a list of what was added.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;

const OWNER: Owner = Owner { rank: 3, job: 77 };

/// Determinants that say their numbers.
fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| [number.to_le_bytes(); ENTRY]).flatten().collect()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let all = bytes.as_chunks::<DETERMINANT>().0.iter();
    let words =
        all.map(|entry| entry.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    words
        .map(|mut words| {
            let first = words.next().unwrap();
            assert!(words.all(|word| word == first), "a torn determinant");
            first
        })
        .collect()
}

fn read(file: &OwnedFd) -> Vec<u64> {
    numbers(&read_held(file.as_fd(), OWNER, true).unwrap().expect("no turn is under way"))
}

proptest! {
    /// What is read is what is held, or more that was held before; also after the rank was killed at any point.
    #[test]
    fn all_that_is_held_is_there(
        steps in prop::collection::vec((1u64..700, 0u64..900, any::<bool>()), 1..40)
    ) {
        let file = create_held(OWNER).unwrap();
        let mut table = HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
        let (mut held, mut next, mut most) = (Vec::new(), 0, 0);
        for (add, drop, restarts) in steps {
            let new: Vec<u64> = (next..next + add).collect();
            next += add;
            held.drain(..held.len().min(drop as usize));
            held.extend(&new);
            table.add(&bytes(&new), &|| bytes(&held)).unwrap();
            let there = read(&file);
            prop_assert!(there.ends_with(&held), "{there:?} {held:?}");
            // Twice as much as was held when it was written anew.
            most = most.max(held.len() as u64);
            prop_assert!(there.len() as u64 <= LEAST.max(2 * most), "{} of {most}", there.len());
            if restarts {
                table = HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
                held = there;
                most = most.max(held.len() as u64);
            }
        }
    }
}

/// An agent that reads while the rank writes gets what was held at one moment.
#[test]
fn a_reader_sees_one_moment() {
    let file = create_held(OWNER).unwrap();
    let mut table = HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut looks, mut last) = (0, 0);
            while !done.load(Ordering::Relaxed) || looks == 0 {
                let there = read(&file);
                assert!(there.is_sorted_by(|a, b| a + 1 == *b), "{there:?}");
                let newest = there.last().copied().unwrap_or(0);
                assert!(newest >= last, "{newest} after {last}");
                (last, looks) = (newest, looks + 1);
            }
        });
        for number in 1..200_000u64 {
            let held = (number.saturating_sub(number % 97)..=number).collect::<Vec<_>>();
            table.add(&bytes(&[number]), &|| bytes(&held)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// An agent that reads while the rank makes its table longer gets what was held.
#[test]
fn a_reader_may_meet_a_table_that_grows() {
    for _ in 0..60 {
        let file = create_held(OWNER).unwrap();
        let mut table = HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let there = read(&file);
                    assert!(there.is_sorted_by(|a, b| a + 1 == *b), "{there:?}");
                }
            });
            let mut held = Vec::new();
            for number in 1..5_000u64 {
                held.push(number);
                table.add(&bytes(&[number]), &|| bytes(&held)).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}

#[test]
fn a_turn_that_is_under_way_is_waited_for() {
    let file = create_held(OWNER).unwrap();
    let table = HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
    table.begin_turn();
    assert_eq!(read_held(file.as_fd(), OWNER, true), Ok(None));
    table.end_turn();
    assert_eq!(read_held(file.as_fd(), OWNER, true), Ok(Some(Vec::new())));
    // Killed within a turn.
    table.begin_turn();
    drop(table);
    assert_eq!(read_held(file.as_fd(), OWNER, true), Ok(None));
    assert_eq!(read_held(file.as_fd(), OWNER, false), Ok(Some(Vec::new())));
    HeldTable::attach(file.try_clone().unwrap(), OWNER).unwrap();
    assert_eq!(read_held(file.as_fd(), OWNER, true), Ok(Some(Vec::new())));
}

#[test]
fn what_is_no_held_table_of_this_rank_is_refused() {
    let file = create_held(OWNER).unwrap();
    let field = |owner| match read_held(file.as_fd(), owner, true).unwrap_err() {
        HeldError::Wrong { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(Owner { rank: 4, ..OWNER }), "version and rank");
    assert_eq!(field(Owner { job: 78, ..OWNER }), "job");
    let memory = Memory::map(file.as_fd(), 8 * (ENTRIES + ENTRY * LEAST as usize)).unwrap();
    memory.word(EXTENT).store(Extent { first: 1 << 20, len: 7 }.word(), Ordering::Relaxed);
    assert_eq!(field(OWNER), "extent");
    let error = HeldTable::attach(file, OWNER).unwrap_err().to_string();
    assert!(error.starts_with("the held table of rank 3: its extent is 0x"), "{error}");
    let short = crate::store::create_memory("short", 64).unwrap();
    assert!(
        read_held(short.as_fd(), OWNER, true).unwrap_err().to_string().contains("length is 0x40")
    );
}
