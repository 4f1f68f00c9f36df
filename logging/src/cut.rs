//! Cuts: up to where the events of a set are to be believed.
//!
//! Messages inside of a set do not wait, so an event of one member may depend on an event of another.
//! A *cut* is what all members had written at one moment: no event in it depends on one that is not.
//! It is valid when its record is whole, and that is written after all events that it names are where
//! they are kept. Bouteiller et al. (Euro-Par'11), section 3, let the processes of a set fall back
//! together; this is what makes it possible when their log has a torn end.
//!
//! The bytes are shown in `docs/logging.md`, section 9.

use crate::Rank;

/// Bytes of a cut before its members.
const HEADER: usize = 40;
/// Bytes of a member.
const MEMBER: usize = 16;
/// The size of a block is a multiple of this many bytes: what a disk writes in one piece, or a multiple of that.
const PAGE: usize = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFEVCT");
const VERSION: u32 = 1;

/// Which set it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// Its number.
    pub number: u32,
    /// How many ranks it has.
    pub members: u32,
    /// Digest of the job's identity.
    pub job: u64,
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Set { number, members, job } = self;
        write!(f, "set {number} (members: {members}, job {job:016x})")
    }
}

/// What all members of a set had written at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From 0, without gaps.
    pub number: u64,
    /// For each member, by rank: the clock of its last event that belongs to the cut.
    pub clocks: Vec<(Rank, u64)>,
}

/// Why a cut is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The record of a cut is not one of this set.
    #[error(
        "{field}: expected {expected:#x}, got {got:#x}; it is damaged, or another job's: give a folder of its own to each job"
    )]
    Field {
        /// Which field.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What it is.
        got: u64,
    },
    /// A rank that is no member.
    #[error("rank {rank} is no member of cut {number}; give a folder of its own to each job")]
    Stranger {
        /// The rank.
        rank: Rank,
        /// The number of the cut.
        number: u64,
    },
}

impl Cut {
    /// The cut before the first event of any of these ranks.
    pub fn none(mut ranks: Vec<Rank>) -> Self {
        ranks.sort_unstable();
        Cut { number: 0, clocks: ranks.into_iter().map(|rank| (rank, 0)).collect() }
    }

    /// The clock of this member's last event.
    ///
    /// # Errors
    /// [`CutError::Stranger`] when it is no member.
    pub fn clock(&self, rank: Rank) -> Result<u64, CutError> {
        match self.clocks.binary_search_by_key(&rank, |&(rank, _)| rank) {
            Ok(place) => Ok(self.clocks[place].1),
            Err(_) => Err(CutError::Stranger { rank, number: self.number }),
        }
    }

    /// Its record, twice, and where in the file this goes, in bytes.
    ///
    /// # Panics
    /// If the set has another number of members.
    pub fn encode(&self, set: &Set) -> (u64, Vec<u8>) {
        assert_eq!(self.clocks.len(), set.members as usize, "members of set {}", set.number);
        let mut block = Vec::with_capacity(2 * set.block());
        block.extend(MAGIC.to_le_bytes());
        block.extend(VERSION.to_le_bytes());
        block.extend(set.number.to_le_bytes());
        block.extend(set.job.to_le_bytes());
        block.extend(self.number.to_le_bytes());
        block.extend(set.members.to_le_bytes());
        block.extend([0; 4]);
        for &(rank, clock) in &self.clocks {
            block.extend(u64::from(rank).to_le_bytes());
            block.extend(clock.to_le_bytes());
        }
        let sum = checksum(&block);
        block[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
        block.resize(set.block(), 0);
        block.extend_from_within(..);
        (self.number % 2 * block.len() as u64, block)
    }

    /// The last cut of a file that has these bytes.
    ///
    /// # Errors
    /// [`CutError::Field`] when there is none of this set.
    #[expect(
        clippy::expect_used,
        reason = "the length of the file, checked above, is that of four blocks"
    )]
    pub fn last(set: &Set, file: &[u8]) -> Result<Self, CutError> {
        if file.len() != set.file() {
            let (expected, got) = (set.file() as u64, file.len() as u64);
            return Err(CutError::Field { field: "length in bytes", expected, got });
        }
        let cuts = file.chunks(set.block()).map(|block| Cut::decode(set, block));
        let last = cuts.reduce(|one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(if other.number > one.number { other } else { one }),
            (Ok(whole), Err(_)) | (Err(_), Ok(whole)) => Ok(whole),
            (Err(first), Err(_)) => Err(first),
        });
        last.expect("there are four blocks")
    }

    /// A block as it should be; its last zeros are not looked at.
    fn decode(set: &Set, block: &[u8]) -> Result<Self, CutError> {
        let used = &block[..set.used()];
        let (words, _) = used.as_chunks::<8>();
        let [magic, which, job, number, last] = [0, 1, 2, 3, 4].map(|at| word(words[at]));
        let checks = [
            ("magic", MAGIC, magic),
            ("version", VERSION.into(), which & 0xffff_ffff),
            ("checksum", checksum(used).into(), last >> 32),
            ("set", set.number.into(), which >> 32),
            ("job", set.job, job),
            ("members", set.members.into(), last & 0xffff_ffff),
        ];
        for (field, expected, got) in checks {
            if expected != got {
                return Err(CutError::Field { field, expected, got });
            }
        }
        let (members, _) = words[HEADER / 8..].as_chunks::<2>();
        let mut clocks: Vec<(Rank, u64)> = Vec::with_capacity(members.len());
        for &[rank, clock] in members {
            let (least, got) =
                (clocks.last().map_or(0, |&(rank, _)| u64::from(rank) + 1), word(rank));
            let rank = Rank::try_from(got).ok().filter(|_| got >= least);
            let wrong = CutError::Field { field: "member, at least", expected: least, got };
            clocks.push((rank.ok_or(wrong)?, word(clock)));
        }
        Ok(Cut { number, clocks })
    }
}

impl Set {
    /// Bytes of a cut file of this set.
    pub fn file(&self) -> usize {
        4 * self.block()
    }

    fn block(&self) -> usize {
        self.used().next_multiple_of(PAGE)
    }

    fn used(&self) -> usize {
        HEADER + MEMBER * self.members as usize
    }
}

fn word(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

/// Over everything but itself.
fn checksum(used: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&used[..HEADER - 4]), &used[HEADER..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SET: Set = Set { number: 3, members: 2, job: 0x1234 };

    /// A file after these cuts.
    fn file(set: &Set, cuts: &[Cut]) -> Vec<u8> {
        let mut file = vec![0; set.file()];
        for cut in cuts {
            write(set, &mut file, cut);
        }
        file
    }

    fn write(set: &Set, file: &mut [u8], cut: &Cut) {
        let (at, bytes) = cut.encode(set);
        file[at as usize..][..bytes.len()].copy_from_slice(&bytes);
    }

    fn cut(number: u64) -> Cut {
        Cut { number, clocks: vec![(4, 10 * number), (9, 11 * number)] }
    }

    #[test]
    fn the_last_cut_is_found_and_knows_its_members() {
        let mut file = file(&SET, &[Cut::none(vec![9, 4])]);
        assert_eq!(Cut::last(&SET, &file), Ok(cut(0)));
        for number in 1..6 {
            write(&SET, &mut file, &cut(number));
            let last = Cut::last(&SET, &file).unwrap();
            assert_eq!(last, cut(number));
            assert_eq!((last.clock(4), last.clock(9)), (Ok(10 * number), Ok(11 * number)));
            assert_eq!(last.clock(5), Err(CutError::Stranger { rank: 5, number }));
        }
    }

    #[test]
    fn a_file_of_another_set_is_refused_by_field() {
        let good = file(&SET, &[cut(0), cut(1)]);
        let field = |set: Set| match Cut::last(&set, &good).unwrap_err() {
            CutError::Field { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(field(Set { number: 4, ..SET }), "set");
        assert_eq!(field(Set { job: 4, ..SET }), "job");
        assert_eq!(field(Set { members: 1000, ..SET }), "length in bytes");
        // So few that the block is as long.
        assert_eq!(field(Set { members: 3, ..SET }), "checksum");
        assert!(Cut::last(&SET, &good[1..]).is_err() && Cut::last(&SET, &[]).is_err());
    }

    /// One flipped bit, anywhere: the other block still has the cut.
    #[test]
    fn no_flipped_bit_loses_a_cut() {
        let good = file(&SET, &[cut(6), cut(7)]);
        for bit in 0..good.len() * 8 {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Cut::last(&SET, &damaged), Ok(cut(7)), "bit {bit}");
        }
    }

    #[test]
    fn without_a_whole_block_there_is_no_cut() {
        let mut file = file(&SET, &[cut(6), cut(7)]);
        for block in 0..4 {
            assert!(Cut::last(&SET, &file).is_ok());
            file[block * SET.block() + 50] ^= 1;
        }
        let error = Cut::last(&SET, &file).unwrap_err();
        assert!(matches!(error, CutError::Field { field: "checksum", .. }), "{error}");
    }

    proptest! {
        /// A cut that is torn anywhere, in any way that leaves some bytes old and some new, is there
        /// or is not, and the one before it is.
        #[test]
        fn a_torn_cut_is_whole_or_is_the_one_before(
            members in 1..600u32,
            number in 1..u64::MAX / 2,
            pieces in proptest::collection::vec(any::<bool>(), 48),
            seed: u64,
        ) {
            let set = Set { members, ..SET };
            let mut random = fastrand::Rng::with_seed(seed);
            let mut cut = |number| Cut {
                number,
                clocks: (0..members).map(|rank| (rank, random.u64(..))).collect(),
            };
            let cuts = [cut(number - 1), cut(number), cut(number + 1)];
            let before = file(&set, &cuts[..2]);
            let after = file(&set, &cuts);
            let sector = set.file() / pieces.len();
            let mut torn = before.clone();
            for (piece, _) in pieces.iter().enumerate().filter(|(_, new)| **new) {
                let at = piece * sector..(piece + 1) * sector;
                torn[at.clone()].copy_from_slice(&after[at]);
            }
            let last = Cut::last(&set, &torn).unwrap();
            prop_assert!(last == cuts[1] || last == cuts[2]);
        }

        #[test]
        fn garbage_is_no_cut(seed: u64, members in 1..4u32) {
            let set = Set { members, ..SET };
            let mut bytes = vec![0; set.file()];
            fastrand::Rng::with_seed(seed).fill(&mut bytes);
            prop_assert!(Cut::last(&set, &bytes).is_err());
        }
    }
}
