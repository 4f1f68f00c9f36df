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

/// As assembly, which unlike the intrinsics is no call where the build may be for processors without the
/// instructions.
///
/// # Safety
/// The processor has SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn in_hardware(begin: u32, [a, b, c]: [u64; 3], last: u32) -> u32 {
    let mut sum = u64::from(!begin);
    // SAFETY: that the processor has them is the caller's promise; they read and write registers only.
    unsafe {
        std::arch::asm!(
            "crc32 {sum}, {a}",
            "crc32 {sum}, {b}",
            "crc32 {sum}, {c}",
            "crc32 {sum:e}, {last:e}",
            sum = inout(reg) sum, a = in(reg) a, b = in(reg) b, c = in(reg) c, last = in(reg) last,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    !(sum as u32)
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
