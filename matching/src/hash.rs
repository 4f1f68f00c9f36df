//! The hash of keys.
//!
//! Peers choose tags, contexts and identifiers. The seed is secret, so that none of them can choose
//! words that collide.

use crate::names::Key;
use std::hash::BuildHasher;
use std::hash::RandomState;

#[derive(Clone, Copy)]
pub(crate) struct Seed([u64; 4]);

impl Seed {
    pub(crate) fn random() -> Seed {
        let state = RandomState::new();
        Seed([0, 1, 2, 3].map(|word| state.hash_one(word)))
    }

    pub(crate) fn fixed(seed: u64) -> Seed {
        // SplitMix64 (Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014).
        Seed([1, 2, 3, 4].map(|word: u64| {
            let z = seed.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }))
    }

    #[inline]
    pub(crate) fn hash(&self, key: &Key) -> u32 {
        let Seed([a, b, c, d]) = *self;
        let rest = mix(key.lane ^ key.keep ^ a, key.ident ^ b);
        level(mix(rest ^ c, key.tag ^ d))
    }
}

/// A wide multiplication, folded: each bit of one word reaches low bits, in a way that depends on
/// the other word.
#[inline]
fn mix(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Levels out words in regular steps.
#[inline]
fn level(word: u64) -> u32 {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Without the words: a report that a peer may see must not reveal them.
impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed")
    }
}
