//! What messages hold: known from who sent them and which they are.

/// Names a stream of bytes.
pub fn key(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |key, &part| {
        let mixed = (key ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    })
}

/// The bytes of a stream.
pub fn fill(key: u64, bytes: &mut [u8]) {
    fastrand::Rng::with_seed(key).fill(bytes);
}

/// Whether these are the first bytes of a stream.
#[track_caller]
pub fn check(key: u64, bytes: &[u8], what: std::fmt::Arguments<'_>) {
    let mut expected = vec![0; bytes.len()];
    fill(key, &mut expected);
    if bytes == expected {
        return;
    }
    if let Some(at) = (0..bytes.len()).find(|&at| bytes[at] != expected[at]) {
        let wrong = (at..bytes.len()).filter(|&at| bytes[at] != expected[at]).count();
        panic!("{what}: byte {at} of {} is wrong, {wrong} in all", bytes.len());
    }
}
