//! What messages hold: known from who sent them and which they are.

use std::sync::OnceLock;

/// A prime, so that a piece in a wrong place is noticed.
const PERIOD: usize = 65_521;

/// Names a stream of bytes.
pub fn key(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |key, &part| {
        let mixed = (key ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    })
}

/// The bytes of a stream.
pub fn fill(key: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let run = run(key, at, bytes.len());
        bytes[at..at + run.len()].copy_from_slice(run);
        at += run.len();
    }
}

/// Whether these are the first bytes of a stream.
#[track_caller]
pub fn check(key: u64, bytes: &[u8], what: std::fmt::Arguments<'_>) {
    let mut at = 0;
    while at < bytes.len() {
        let run = run(key, at, bytes.len());
        if bytes[at..at + run.len()] != *run {
            let first = (0..run.len()).find(|&k| bytes[at + k] != run[k]).expect("they differ");
            panic!("{what}: byte {} of {} is wrong", at + first, bytes.len());
        }
        at += run.len();
    }
}

/// The bytes of a stream from `at` on, as far as they lie in one piece and not beyond `end`.
fn run(key: u64, at: usize, end: usize) -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![0; PERIOD];
        fastrand::Rng::with_seed(1).fill(&mut table);
        table
    });
    let start = ((key % PERIOD as u64) as usize + at) % PERIOD;
    &table[start..PERIOD.min(start + end - at)]
}
