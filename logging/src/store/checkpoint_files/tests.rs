//! What a rank has committed is what the next process finds, here or where it was copied to.

use super::super::memory::empty_memory;
use super::*;
use proptest::prelude::*;

const OWNER: Owner = Owner { rank: 3, job: 77 };

fn checkpoints() -> CheckpointFiles {
    CheckpointFiles::open(empty_memory("test").unwrap().into(), OWNER).unwrap()
}

fn again(checkpoints: &CheckpointFiles) -> CheckpointFiles {
    CheckpointFiles::open(checkpoints.file.try_clone().unwrap(), OWNER).unwrap()
}

proptest! {
    #[test]
    fn the_last_one_committed_is_what_the_next_process_gets(
        all in prop::collection::vec(
            (any::<u32>(), any::<[u8; 8]>(), any::<Vec<u8>>(), any::<Vec<Vec<u8>>>()), 1..6,
        ),
    ) {
        let mut checkpoints = checkpoints();
        prop_assert_eq!(checkpoints.last().unwrap(), None);
        prop_assert_eq!(checkpoints.summary().unwrap(), None);
        for (number, (incarnation, front, position, state)) in (1..).zip(all) {
            let position = [&front[..], &position].concat();
            let parts: Vec<_> = state.iter().map(|part| IoSlice::new(part)).collect();
            prop_assert_eq!(checkpoints.commit(incarnation, &position, &parts).unwrap(), number);
            let next = again(&checkpoints);
            let clock = u64::from_le_bytes(front);
            let summary = Summary { number, incarnation, clock };
            prop_assert_eq!(next.summary().unwrap(), Some(summary));
            let expected = Committed { number, incarnation, position, state: state.concat() };
            prop_assert_eq!(next.last().unwrap(), Some(expected));
        }
    }

    /// Its process was killed somewhere on the way.
    #[test]
    fn one_that_is_being_written_is_not_there(before in 1..4_u64, written: Vec<u8>) {
        let mut checkpoints = checkpoints();
        for number in 1..=before {
            checkpoints.commit(7, b"position", &[IoSlice::new(&[number as u8; 100])]).unwrap();
        }
        let last = checkpoints.last().unwrap();
        checkpoints.file.write_all_at(&written, checkpoint_place(before + 1)).unwrap();
        prop_assert_eq!(again(&checkpoints).last().unwrap(), last);
    }

    #[test]
    fn a_flipped_bit_is_seen(state in prop::collection::vec(any::<u8>(), 0..100), bit: prop::sample::Index) {
        let mut checkpoints = checkpoints();
        checkpoints.commit(2, b"position", &[IoSlice::new(&state)]).unwrap();
        let bit = bit.index(8 * (HEADER + 8 + state.len()));
        let at = checkpoint_place(1) + bit as u64 / 8;
        let mut byte = [0];
        checkpoints.file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << (bit % 8);
        checkpoints.file.write_all_at(&byte, at).unwrap();
        prop_assert!(again(&checkpoints).last().is_err());
    }
}

#[test]
fn a_state_may_have_more_parts_than_one_call_writes() {
    let mut checkpoints = checkpoints();
    let state: Vec<Vec<u8>> = (0..3 * PARTS).map(|k| vec![k as u8; k % 3]).collect();
    let parts: Vec<_> = state.iter().map(|part| IoSlice::new(part)).collect();
    checkpoints.commit(1, b"position", &parts).unwrap();
    assert_eq!(again(&checkpoints).last().unwrap().unwrap().state, state.concat());
}

proptest! {
    /// It is the same there, or none; a torn one is none.
    #[test]
    fn a_copied_one_is_the_same(
        before in 0..3_u64,
        position in prop::collection::vec(any::<u8>(), 8..40),
        state in prop::collection::vec(any::<u8>(), 0..100),
        torn in any::<Option<prop::sample::Index>>(),
    ) {
        let mut from = checkpoints();
        (0..before).for_each(|_| _ = from.commit(1, b"before", &[]).unwrap());
        from.commit(7, &position, &[IoSlice::new(&state)]).unwrap();
        let Extent { number, incarnation, at, len } = from.extent().unwrap().unwrap();
        prop_assert_eq!((number, incarnation), (before + 1, 7));
        let mut bytes = vec![0; len as usize];
        from.file.read_exact_at(&mut bytes, at).unwrap();
        bytes.truncate(torn.map_or(len as usize, |torn| torn.index(len as usize)));
        let to = File::from(empty_memory("test").unwrap());
        to.write_all_at(&bytes, checkpoint_place(number)).unwrap();
        let adopted = CheckpointFiles::adopt(to.try_clone().unwrap(), OWNER, number);
        let there = CheckpointFiles::open(to, OWNER).unwrap().last().unwrap();
        prop_assert_eq!(adopted.is_ok(), torn.is_none());
        let expected = torn.is_none().then(|| from.last().unwrap().unwrap());
        prop_assert_eq!(there, expected);
    }
}

#[test]
fn those_may_be_announced_that_the_word_says() {
    let mut checkpoints = checkpoints();
    let rank = checkpoints.announcements().unwrap();
    assert!(rank.may_announce(1));
    checkpoints.let_announce(Some(0)).unwrap();
    assert!(!rank.may_announce(1));
    checkpoints.commit(0, b"", &[]).unwrap();
    checkpoints.let_announce(Some(1)).unwrap();
    let next = again(&checkpoints).announcements().unwrap();
    let may = [1, 2].map(|number| next.may_announce(number) && rank.may_announce(number));
    assert_eq!((may, again(&checkpoints).last), ([true, false], 1));
    checkpoints.let_announce(None).unwrap();
    assert!(rank.may_announce(9));
}

#[test]
fn another_rank_or_job_is_refused() {
    let mut checkpoints = checkpoints();
    checkpoints.commit(0, b"", &[]).unwrap();
    for owner in [Owner { rank: 4, ..OWNER }, Owner { job: 78, ..OWNER }] {
        let other = CheckpointFiles::open(checkpoints.file.try_clone().unwrap(), owner).unwrap();
        let error = other.last().unwrap_err().to_string();
        assert!(error.contains("checkpoint 1 of rank"), "{error}");
        assert!(other.summary().is_err());
    }
}

#[test]
fn where_there_is_no_room_the_one_before_stays() {
    let full: File = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let mut checkpoints = CheckpointFiles { file: full, owner: OWNER, last: 0 };
    let error = checkpoints.commit(0, b"x", &[]).unwrap_err();
    assert_eq!((error.kind(), checkpoints.last), (std::io::ErrorKind::StorageFull, 0));
}
