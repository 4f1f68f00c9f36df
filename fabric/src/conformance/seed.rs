//! Random choices that can be repeated.

use std::ops::{Deref, DerefMut};

/// The variable that repeats a run.
const VARIABLE: &str = "TAFFRAIL_SEED";

/// A generator of random numbers that says how to repeat them if the test fails.
pub(crate) struct Seeded {
    seed: u64,
    random: fastrand::Rng,
}

impl Seeded {
    /// A generator with the seed in the environment, or a new one.
    pub(crate) fn new() -> Self {
        let seed = match std::env::var(VARIABLE) {
            Ok(text) => text.parse().unwrap_or_else(|_| {
                panic!("{VARIABLE} is {text:?}; expected a number as a failed test prints it")
            }),
            Err(_) => fastrand::u64(..),
        };
        Seeded { seed, random: fastrand::Rng::with_seed(seed) }
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat this choice of random numbers: {VARIABLE}={}", self.seed);
        }
    }
}

impl Deref for Seeded {
    type Target = fastrand::Rng;

    fn deref(&self) -> &fastrand::Rng {
        &self.random
    }
}

impl DerefMut for Seeded {
    fn deref_mut(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }
}
