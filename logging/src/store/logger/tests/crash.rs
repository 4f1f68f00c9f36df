//! What a crash may leave of the files of a set, and what damage may make of them: one cut of all
//! members, or an error that names the place.

use super::*;
use proptest::prelude::*;

/// All files of the folder, by name.
type Files = Vec<(String, Vec<u8>)>;

fn files(held: &Held) -> Files {
    let entries = std::fs::read_dir(held.folder.path()).unwrap();
    let mut files: Files = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort_unstable();
    files
}

fn put(held: &Held, files: &Files) {
    for (name, bytes) in files {
        std::fs::write(held.folder.path().join(name), bytes).unwrap();
    }
}

/// Writes by hand what of the next cut reached the disk before the crash: any pieces of its records or,
/// if these are all there, any pieces of what makes it valid.
fn crash(before: &Files, after: &Files, sealing: bool, random: &mut fastrand::Rng) -> Files {
    let torn = before.iter().zip(after).map(|((name, old), (_, new))| {
        let seal = name.ends_with(".cuts");
        let bytes = match (seal, sealing) {
            (true, false) => old.clone(),
            (false, true) => new.clone(),
            _ => tear(old, new, random),
        };
        (name.clone(), bytes)
    });
    torn.collect()
}

/// Some pieces are old and some are new. A file that has grown has any length between, and holes.
fn tear(old: &[u8], new: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut torn = old.to_vec();
    torn.resize(random.usize(old.len()..=new.len()), 0);
    for (torn, new) in torn.chunks_mut(16).zip(new.chunks(16)) {
        if random.bool() {
            torn.copy_from_slice(&new[..torn.len()]);
        }
    }
    torn
}

/// How much all members have in their files.
fn kept(held: &Held, logger: &Logger) -> Vec<u64> {
    (0..held.ranks()).map(|rank| copied(logger, rank)).collect()
}

proptest! {
    /// The node ends in the midst of a commit: the files are those of the cut before or, when all
    /// records were there, perhaps those of this one. What comes next is kept as ever.
    #[test]
    fn after_the_end_of_the_node_there_is_one_cut_of_all_members(
        rounds in proptest::collection::vec(proptest::collection::vec(0..4u64, 3), 1..6),
        ranks in 2..=3u32,
        sealing: bool,
        seed: u64,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut held = Held::on_disk(ranks);
        let mut logger = held.logger().unwrap();
        let (mut cuts, mut left) = (vec![vec![0; ranks as usize]], vec![files(&held)]);
        for round in &rounds {
            for (rank, &events) in (0..ranks).zip(round) {
                push(&mut held.writer(rank), events);
            }
            logger.turn();
            cuts.push((0..ranks).map(|rank| held.stable(rank)).collect());
            left.push(files(&held));
        }
        let last = rounds.len();
        put(&held, &crash(&left[last - 1], &left[last], sealing, &mut random));

        held.new_rings(ranks);
        let mut logger = held.logger().unwrap();
        let found = kept(&held, &logger);
        prop_assert!(found == cuts[last - 1] || (sealing && found == cuts[last]), "{found:?}, {cuts:?}");
        (0..ranks).for_each(|rank| assert_eq!(held.writer(rank).written(), found[rank as usize]));
        (0..ranks).for_each(|rank| push(&mut held.writer(rank), 2));
        logger.turn();
        let more: Vec<u64> = found.iter().map(|events| events + 2).collect();
        prop_assert_eq!(kept(&held, &logger), &more[..]);
        held.new_rings(ranks);
        prop_assert_eq!(kept(&held, &held.logger().unwrap()), more);
    }

    /// The logger is killed in the midst of a commit, or while it announces: nothing is lost, and no
    /// member gets more than the others before all is there.
    #[test]
    fn a_logger_that_is_killed_is_followed_by_one_that_makes_the_same_cut(
        rounds in proptest::collection::vec(proptest::collection::vec(0..4u64, 3), 1..6),
        ranks in 2..=3u32,
        stage in 0..3u8,
        seed: u64,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let held = Held::on_disk(ranks);
        let mut logger = held.logger().unwrap();
        for round in &rounds[1..] {
            for (rank, &events) in (0..ranks).zip(round) {
                push(&mut held.writer(rank), events);
            }
            logger.turn();
        }
        let before = files(&held);
        let rings: Vec<Vec<u8>> = held.rings.iter().map(bytes).collect();
        for (rank, &events) in (0..ranks).zip(&rounds[0]) {
            push(&mut held.writer(rank), events);
        }
        let new: Vec<Vec<u8>> = held.rings.iter().map(bytes).collect();
        logger.turn();
        let after = files(&held);
        let announced: Vec<u64> = (0..ranks).map(|rank| held.stable(rank)).collect();

        if stage < 2 {
            put(&held, &crash(&before, &after, stage == 1, &mut random));
        }
        // The words of the logger are as they were, or, in the end, some of them.
        for (rank, ring) in held.rings.iter().enumerate() {
            if stage < 2 || random.bool() {
                let mut ring_then = new[rank].clone();
                ring_then[256..384].copy_from_slice(&rings[rank][256..384]);
                File::from(ring.try_clone().unwrap()).write_all_at(&ring_then, 0).unwrap();
            }
        }
        let promised: Vec<u64> = (0..ranks).map(|rank| held.stable(rank)).collect();
        let mut logger = held.logger().unwrap();
        prop_assert_eq!((0..ranks).map(|rank| held.stable(rank)).collect::<Vec<_>>(), promised);
        prop_assert_eq!(kept(&held, &logger), &announced[..]);
        logger.turn();
        prop_assert_eq!((0..ranks).map(|rank| held.stable(rank)).collect::<Vec<_>>(), &announced[..]);
        prop_assert_eq!(kept(&held, &logger), announced);
    }
}

fn bytes(ring: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = File::from(ring.try_clone().unwrap());
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A set of two that has made two cuts, and its logger.
fn two_cuts() -> (Held, Logger) {
    let held = Held::on_disk(2);
    let mut logger = held.logger().unwrap();
    for _ in 0..2 {
        push(&mut held.writer(0), 2);
        push(&mut held.writer(1), 1);
        logger.turn();
    }
    (held, logger)
}

/// Every single bit of every file: what is handed out afterwards is the last cut, of all members; or
/// the file is refused by name.
#[test]
fn no_flipped_bit_tears_a_cut() {
    let (mut held, _logger) = two_cuts();
    let good = files(&held);
    for (name, bytes) in &good {
        let block = bytes.len() / 4;
        // All of an event file; of a cut file, what is used of its blocks.
        let used = |bit: &usize| !name.ends_with(".cuts") || bit / 8 % block < 40 + 2 * 16;
        for bit in (0..bytes.len() * 8).filter(used) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            put(&held, &vec![(name.clone(), damaged)]);
            held.new_rings(2);
            match held.logger() {
                Ok(logger) => {
                    assert!(name.ends_with(".cuts"), "{name}, bit {bit}");
                    assert_eq!(kept(&held, &logger), [4, 2], "{name}, bit {bit}");
                }
                Err(error) => assert!(error.to_string().contains(name), "bit {bit}: {error}"),
            }
        }
        put(&held, &good);
    }
}

/// All blocks of the last cut are gone: the one before is taken, of all members; but not while the
/// rings know better.
#[test]
fn the_cut_before_is_not_taken_where_the_last_was_announced() {
    let (mut held, _logger) = two_cuts();
    let file = held.file("set-4.cuts");
    file.write_all_at(&[0; 8192], 0).unwrap();
    let error = held.logger().unwrap_err();
    assert!(
        matches!(
            error,
            ServeError::RankStore(LedgerError::Lost { rank: 0, promised: 4, have: 2, .. })
        ),
        "{error}"
    );
    held.new_rings(2);
    assert_eq!(kept(&held, &held.logger().unwrap()), [2, 1]);
    file.write_all_at(&[0; 8192], 8192).unwrap();
    let error = held.logger().unwrap_err().to_string();
    assert!(error.contains("set-4.cuts: magic"), "{error}");
}
