//! How long a wait spins before it gives its processor away.
//!
//! With a processor for every rank, long: whoever has to answer runs meanwhile. With more ranks than
//! processors it depends on who else runs at the moment. If the peer runs too, its answer is here in
//! a microsecond, and giving the processor away costs more than that; if it does not, every turn is
//! taken from it. So the time is learnt from whether spinning has helped lately.

/// Idle turns that are enough for the answer of a peer that runs.
const TRIAL: u32 = 64;
/// The most that is learnt: what the answer of a busy peer may take.
const MAX_TURNS: u32 = 1024;
/// Waits without spinning after which it is tried again.
const TRY_EVERY: u32 = 64;

/// Idle turns before a wait gives its processor away.
pub(crate) struct Spin {
    turns: u32,
    learns: bool,
    /// Waits since spinning was given up.
    waits: u32,
}

impl Spin {
    /// Always as many turns.
    pub(crate) fn fixed(turns: u32) -> Self {
        Spin { turns, learns: false, waits: 0 }
    }

    /// As many turns as have helped lately.
    pub(crate) fn learning() -> Self {
        Spin { turns: TRIAL, learns: true, waits: 0 }
    }

    /// Idle turns before a wait gives its processor away.
    #[inline]
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }

    /// A wait was over after so many idle turns.
    #[inline]
    pub(crate) fn observe(&mut self, idle: u32) {
        if self.learns {
            self.learn(idle);
        }
    }

    #[cold]
    fn learn(&mut self, idle: u32) {
        if idle < self.turns {
            if idle * 2 > self.turns {
                self.turns = (self.turns * 2).min(MAX_TURNS);
            }
        } else if self.turns > 0 {
            self.turns /= 2;
            if self.turns < TRIAL / 4 {
                (self.turns, self.waits) = (0, 0);
            }
        } else {
            self.waits += 1;
            if self.waits >= TRY_EVERY {
                self.turns = TRIAL;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_come_in_time_keep_it_spinning() {
        let mut spin = Spin::learning();
        for _ in 0..1000 {
            spin.observe(20);
        }
        assert_eq!(spin.turns(), TRIAL);
        for _ in 0..10 {
            spin.observe(spin.turns() - 1);
        }
        assert_eq!(spin.turns(), MAX_TURNS, "answers that nearly came too late");
    }

    #[test]
    fn answers_that_never_come_in_time_end_it_but_for_a_trial() {
        let mut spin = Spin::learning();
        let mut spun = 0;
        for _ in 0..10_000 {
            spun += spin.turns();
            spin.observe(spin.turns() + 1);
        }
        assert!(spun <= 10_000 * 2, "{spun} turns in 10 000 waits");
        let trial = (0..=TRY_EVERY).any(|_| {
            spin.observe(spin.turns() + 1);
            spin.turns() == TRIAL
        });
        assert!(trial, "it never finds out that times have changed");
    }

    #[test]
    fn a_fixed_time_stays() {
        let mut spin = Spin::fixed(7);
        (0..100).for_each(|idle| spin.observe(idle));
        assert_eq!(spin.turns(), 7);
    }
}
