//! CRC-32C of a few words, in a few instructions: a record is written for every event.

#![allow(unsafe_code)]

/// CRC-32C of three words of eight bytes and one of four, little endian, begun with `begin`.
#[inline(always)]
pub(crate) fn of(begin: u32, words: [u64; 3], last: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { in_hardware(begin, words, last) };
    }
    in_software(begin, words, last)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn in_hardware(begin: u32, words: [u64; 3], last: u32) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};
    let sum = words.iter().fold(u64::from(!begin), |sum, &word| _mm_crc32_u64(sum, word));
    !_mm_crc32_u32(sum as u32, last)
}

fn in_software(begin: u32, words: [u64; 3], last: u32) -> u32 {
    let sum = words.iter().fold(begin, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()));
    crc32c::crc32c_append(sum, &last.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_that_of_the_bytes(begin: u32, words: [u64; 3], last: u32) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.extend(last.to_le_bytes());
            let sum = crc32c::crc32c_append(begin, &bytes);
            prop_assert_eq!((of(begin, words, last), in_software(begin, words, last)), (sum, sum));
        }
    }
}
