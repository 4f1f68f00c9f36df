use super::*;
use crate::store::file::{End, EventFile, FileError, file_header};
use proptest::prelude::*;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;

const OWNER: Owner = Owner { rank: 5, job: 77 };

/// Events, many of which are as expected.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let small = || prop_oneof![4 => 0..3_u32, 1 => any::<u32>()];
    let context = prop_oneof![4 => 0..2_u16, 1 => any::<u16>()];
    let step = (0..7_u8, (small(), small(), small()), (small(), context));
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        let (mut post, mut index, mut seqs) = (0_u32, 0_u32, FxHashMap::default());
        let event = |(kind, (polls, number, seq), (source, context)): (u8, _, (u32, u16))| {
            let (number, seq): (u32, u32) = (number, seq);
            let next: &mut u32 = seqs.entry((source, context)).or_default();
            *next = next.wrapping_add(seq);
            let message = MsgId { source, context, seq: *next };
            post = post.wrapping_add(number);
            index = index.wrapping_add(number);
            match kind {
                0 | 1 => Event::Matched { polls, post, message },
                2 => Event::Cancelled { polls, post },
                3 => Event::Found { polls, index },
                4 => Event::Probed { polls, message },
                5 => Event::Claimed { polls, message },
                _ => Event::Nothing { polls },
            }
        };
        steps.into_iter().map(event).collect()
    })
}

fn records(from: u64, events: &[Event]) -> Vec<u8> {
    (from..).zip(events).flat_map(|(clock, event)| event.encode(OWNER.rank, clock)).collect()
}

/// A store with these blocks.
fn store(blocks: &[Vec<Event>]) -> (File, Vec<u64>) {
    let file = tempfile::tempfile().unwrap();
    let (mut bytes, mut clock, mut ends) = (packed_header(OWNER).to_vec(), 1, Vec::new());
    for block in blocks {
        pack(OWNER.rank, clock, &block.iter().copied().collect(), &mut bytes);
        clock += block.len() as u64;
        ends.push(bytes.len() as u64);
    }
    file.write_all_at(&bytes, 0).unwrap();
    (file, ends)
}

fn open(file: &File) -> Result<(PackedFile, u64), FileError> {
    PackedFile::open(file.try_clone().unwrap(), "the store".into(), OWNER)
}

/// What is handed to a rank that is started again.
fn copied(store: &PackedFile) -> Vec<Event> {
    let copy = tempfile::tempfile().unwrap();
    let end = store.copy(&copy).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), end);
    unpacked(&copy).unwrap()
}

fn unpacked(mut file: &File) -> Result<Vec<Event>, FileError> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).unwrap();
    let events = Unpacked::new(OWNER, "the copy", bytes)?;
    assert!(events.clone().map(|clocked| clocked.clock).eq(1..=events.last_clock()));
    Ok(events.map(|clocked| clocked.event).collect())
}

proptest! {
    #[test]
    fn what_was_packed_is_unpacked(blocks in prop::collection::vec(events(), 0..5), from in 0..300_u64) {
        let (file, _) = store(&blocks);
        let (store, cut) = open(&file).unwrap();
        let all = blocks.concat();
        prop_assert_eq!((store.records(), cut), (all.len() as u64, 0));
        prop_assert_eq!(copied(&store), all.clone());
        let mut bytes = Vec::new();
        (&file).rewind().and_then(|()| (&file).read_to_end(&mut bytes)).unwrap();
        let behind = Unpacked::new(OWNER, "the store", bytes).unwrap().behind(from);
        let behind: Vec<Event> = behind.map(|clocked| clocked.event).collect();
        prop_assert_eq!(&behind, &all[all.len().min(from as usize)..]);
    }

    #[test]
    fn what_is_on_a_disk_is_packed_to_be_handed_over(events in events(), bit in any::<prop::sample::Index>()) {
        let (file, copy) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let mut bytes = file_header(OWNER).to_vec();
        bytes.extend(records(1, &events));
        file.write_all_at(&bytes, 0).unwrap();
        let (name, end) = ("the file".to_owned(), End::Torn);
        let (records, _) = EventFile::open(file.try_clone().unwrap(), name, OWNER, end).unwrap();
        let end = copy_packed(&records, OWNER, &copy).unwrap();
        prop_assert_eq!(copy.metadata().unwrap().len(), end);
        prop_assert_eq!(unpacked(&copy).unwrap(), events);
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        file.write_all_at(&bytes, 0).unwrap();
        prop_assert!(copy_packed(&records, OWNER, &copy).is_err());
    }

    #[test]
    fn a_store_that_is_cut_off_anywhere_has_its_whole_blocks(
        blocks in prop::collection::vec(events(), 1..5), at in any::<prop::sample::Index>(),
    ) {
        let (file, ends) = store(&blocks);
        let len = file.metadata().unwrap().len();
        let at = FILE_HEADER as u64 + at.index((len - FILE_HEADER as u64 + 1) as usize) as u64;
        file.set_len(at).unwrap();
        let is_whole = ends.contains(&at) || at == FILE_HEADER as u64;
        prop_assert_eq!(unpacked(&file).is_ok(), is_whole, "a download has no torn end");
        let (store, cut) = open(&file).unwrap();
        let whole = ends.iter().take_while(|&&end| end <= at).count();
        prop_assert_eq!(copied(&store), blocks[..whole].concat());
        prop_assert_eq!(file.metadata().unwrap().len(), at - cut);
    }

    #[test]
    fn no_flipped_bit_is_believed(
        blocks in prop::collection::vec(events(), 1..4), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let (file, _) = store(&blocks);
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        file.write_all_at(&bytes, 0).unwrap();
        prop_assert!(unpacked(&file).is_err());
        // A block that seems to be longer than the store seems to be one that was being written.
        if let Ok((store, cut)) = open(&file) {
            let all = blocks.concat();
            prop_assert!(cut > 0 && all.starts_with(&copied(&store)));
        }
    }
}

proptest! {
    // Each takes a microsecond.
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_bytes_are_too_much_for_it(count: u32, bytes: Vec<u8>) {
        let mut block = vec![0; HEAD];
        block[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        block[4..8].copy_from_slice(&count.to_le_bytes());
        block[8] = 1;
        block.extend(bytes);
        let sum = checksum(OWNER.rank, &block);
        block[16..20].copy_from_slice(&sum.to_le_bytes());
        match unpack(OWNER.rank, 1, &block) {
            Ok(all) => prop_assert_eq!(all, u64::from(count)),
            Err(error) => prop_assert_eq!(error, BlockError::Events { count }),
        }
    }
}

#[test]
fn a_receive_from_one_of_two_takes_three_bytes() {
    let message = |n| MsgId { source: n % 2, context: 1, seq: n / 2 };
    let events: Vec<Event> =
        (0..1000).map(|n| Event::Matched { polls: 0, post: n, message: message(n) }).collect();
    let mut bytes = Vec::new();
    pack(OWNER.rank, 1, &events.into_iter().collect(), &mut bytes);
    assert_eq!(bytes.len(), HEAD + 3 * 1000);
}

/// Whether the ring had a record of it, as of the first of each group, or not.
#[test]
fn the_next_of_its_kind_takes_a_byte() {
    let found = |n: u32| Event::Found { polls: n % 3 * 15, index: n | (n % 2) << 31 };
    let (mut batch, events) = (Batch::default(), (0..1000).map(found).collect::<Vec<Event>>());
    events.iter().for_each(|event| batch.push(*event));
    for batch in [batch, events.into_iter().collect()] {
        let mut bytes = Vec::new();
        pack(OWNER.rank, 1, &batch, &mut bytes);
        assert_eq!(bytes.len(), HEAD + 1000);
    }
}

#[test]
fn the_store_of_another_is_refused() {
    let (file, _) = store(&[]);
    let theirs = Owner { rank: 6, ..OWNER };
    let error = PackedFile::open(file, "the store".into(), theirs).unwrap_err();
    assert!(error.to_string().contains("rank"), "{error}");
}
