//! Bytes that show where they come from: each depends on a seed and on its position.

/// The eight bytes at position `8 * index` of the pattern `seed`.
fn word(seed: u64, index: u64) -> u64 {
    // The finaliser of SplitMix64: neighbouring positions and seeds look unrelated.
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills `bytes` with the pattern `seed`.
pub(crate) fn fill(seed: u64, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(seed, index as u64).to_le_bytes()[..chunk.len()]);
    }
}

/// The first `len` bytes of the pattern `seed`.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(seed, &mut bytes);
    bytes
}

/// Panics, naming the first wrong position, unless `got` is `expected`.
pub(crate) fn assert_same(got: &[u8], expected: &[u8], what: std::fmt::Arguments<'_>) {
    assert_eq!(got.len(), expected.len(), "{what}: wrong length");
    if let Some(at) = got.iter().zip(expected).position(|(g, e)| g != e) {
        panic!(
            "{what}: byte {at} of {} is {:#04x}, expected {:#04x}",
            got.len(),
            got[at],
            expected[at]
        );
    }
}
