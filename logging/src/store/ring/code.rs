//! Events in two bytes each (`docs/logging.md`, section 8).

use super::super::batch::EventCode;
use super::shape::Layout;
use crate::Rank;

/// Bits of a code.
pub(super) const BITS: u64 = 16;
/// Codes in a word.
pub(super) const PER_WORD: u64 = 4;

/// By how much the check of the next place differs.
pub(super) const STEP: u64 = 107;

/// The byte of each code of a word that says something.
const SAYS: u64 = 0x00ff_00ff_00ff_00ff;
/// One in each code of a word.
const EACH: u64 = 0x0001_0001_0001_0001;
/// 0, 1, 2 and 3 in the codes of a word.
const PLACES: u64 = 0x0003_0002_0001_0000;

/// What the check of the code of an event begins with: something else for each place of a group, and,
/// mostly, where the same place was a round of the ring before.
#[inline]
pub(super) fn begin(rank: Rank, layout: &Layout, clock: u64) -> u64 {
    let group = layout.group_of(clock) ^ u64::from(rank) << 40;
    let key = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    key + STEP * layout.place_in_group(clock)
}

/// The code of an event of which this is said.
#[inline(always)]
pub(super) fn code(begin: u64, says: EventCode) -> u64 {
    let says = u64::from(says);
    says | (checks(begin, says) & 255) << 8
}

/// What a code says, if it is that of its place.
#[inline]
pub(super) fn decode(begin: u64, code: u16) -> Option<EventCode> {
    let [says, check] = code.to_le_bytes();
    (check == checks(begin, u64::from(says)) as u8).then_some(says)
}

/// What the codes of a word say, if they are those of their places in one group, and no event has a record.
/// `begin` is that of the first.
#[inline(always)]
pub(super) fn decode_word(begin: u64, word: u64) -> Option<[EventCode; 4]> {
    let says = word & SAYS;
    let recorded = (says + EACH) & !SAYS;
    let damaged = (checks(begin, says) ^ word >> 8) & SAYS;
    let pairs = (says | says >> 8) & 0x0000_ffff_0000_ffff;
    let all = (pairs | pairs >> 16) as u32;
    (recorded | damaged == 0).then_some(all.to_le_bytes())
}

/// In each code the check of what it says, and higher bits: each bit counts, since the factor is odd.
#[inline(always)]
fn checks(begin: u64, says: u64) -> u64 {
    // No code carries over into the next: 255 * 157 + 255 + 3 * 107 is less than 1 << 16.
    says * 157 + EACH * (begin & 255) + PLACES * STEP
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Durability, RingShape};
    use super::*;
    use crate::store::batch::RECORDED;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_code_is_decoded_as_it_was_encoded(begin in 0..1u64 << 20, says: u8) {
            let code = code(begin, says) as u16;
            prop_assert_eq!(decode(begin, code), Some(says));
            prop_assert_eq!(decode(begin + STEP, code), None);
            for bit in 0..BITS {
                prop_assert_eq!(decode(begin, code ^ 1 << bit), None);
            }
        }

        #[test]
        fn a_word_says_what_its_codes_say(begin in 0..1u64 << 20, says: [u8; 4]) {
            let codes = (0..).zip(says).map(|(k, says)| code(begin + k * STEP, says) << (BITS * k));
            let word = codes.fold(0, |word, code| word | code);
            let wanted = (!says.contains(&RECORDED)).then_some(says);
            prop_assert_eq!(decode_word(begin, word), wanted);
            for bit in 0..64 {
                prop_assert_eq!(decode_word(begin, word ^ 1 << bit), None);
            }
        }
    }

    #[test]
    fn codes_of_the_round_before_begin_with_something_else() {
        let capacity = 1 << 16;
        let durability = Durability::Process;
        let layout = RingShape { rank: 3, job: 1, capacity, durability }.layout();
        let of = |round: u64| begin(3, &layout, 5 + round * capacity) & 255;
        let others = (1..1000).filter(|&round| of(round) != of(round - 1)).count();
        assert!(others > 980, "{others} of 1000");
    }
}
