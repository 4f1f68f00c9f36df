//! Several event loggers that each keep the events of all ranks in memory of their own: which one is started next, what it
//! begins with, and which of them has all events. The starter of the ranks does what it says here, one step after the other; a
//! logger may be killed before and after each of them.

use crate::{Rank, mutant};

/// What the starter of the ranks does next about its loggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// It starts a logger as this copy.
    Start {
        /// Its number, from 0.
        copy: usize,
    },
    /// It lets this copy serve this rank.
    Serve {
        /// The copy.
        copy: usize,
        /// The rank.
        rank: Rank,
        /// The copy whose events it begins with. `None`: it begins with none, or finds what there is by itself.
        from: Option<usize>,
    },
    /// Nothing: each copy serves all ranks.
    Done,
    /// Nothing: no copy is left that has the events.
    Lost,
}

/// The loggers as their starter knows them.
#[derive(Clone, Debug)]
pub struct Copies {
    ranks: Vec<Rank>,
    /// How many of the ranks each serves; `None`: it is gone.
    served: Vec<Option<usize>>,
    /// What a logger keeps is gone with it.
    own_memory: bool,
    /// All copies have served all ranks once: ranks may have run.
    begun: bool,
}

impl Copies {
    /// So many loggers, none of which is started, and their ranks. `own_memory`: what a logger keeps is gone with it, so one
    /// that is started later begins with what another one has.
    pub fn new(copies: u32, ranks: impl IntoIterator<Item = Rank>, own_memory: bool) -> Self {
        let ranks = ranks.into_iter().collect();
        Copies { ranks, served: vec![None; copies as usize], own_memory, begun: false }
    }

    /// What is to be done next.
    pub fn next(&self) -> CopyStep {
        let Some(copy) = (0..self.served.len()).find(|&copy| !self.has_all(copy)) else {
            return CopyStep::Done;
        };
        let from = match self.begun && self.own_memory {
            true => match self.sources().next() {
                Some(source) => Some(source),
                None => return CopyStep::Lost,
            },
            false => None,
        };
        match self.served[copy] {
            Some(at) => CopyStep::Serve { copy, rank: self.ranks[at], from },
            None => CopyStep::Start { copy },
        }
    }

    /// The copies that have all events, in the order in which they are asked for them.
    pub fn sources(&self) -> impl Iterator<Item = usize> + use<> {
        let all: Vec<usize> = (0..self.served.len()).filter(|&copy| self.has_all(copy)).collect();
        all.into_iter()
    }

    fn has_all(&self, copy: usize) -> bool {
        let begun = mutant!(FillingCopyCounts) && self.served[copy].is_some_and(|ranks| ranks > 0);
        begun || self.served[copy] == Some(self.ranks.len())
    }

    /// A copy was started.
    pub fn started(&mut self, copy: usize) {
        self.served[copy] = Some(0);
        self.note_begin();
    }

    /// A copy serves one more rank.
    pub fn served(&mut self, copy: usize) {
        self.served[copy] = self.served[copy].map(|ranks| ranks + 1);
        self.note_begin();
    }

    /// A copy was found to be gone.
    pub fn gone(&mut self, copy: usize) {
        if !mutant!(GoneCopyCounts) {
            self.served[copy] = None;
        }
    }

    fn note_begin(&mut self) {
        self.begun |= self.next() == CopyStep::Done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CopyStep::{Done, Lost, Serve, Start};

    /// Does what is to be done, so many times.
    fn go_on(copies: &mut Copies, steps: usize) -> Vec<CopyStep> {
        let one = |_| {
            let step = copies.next();
            match step {
                Start { copy } => copies.started(copy),
                Serve { copy, .. } => copies.served(copy),
                Done | Lost => {}
            }
            step
        };
        (0..steps).map(one).collect()
    }

    #[test]
    fn one_that_is_gone_is_filled_from_one_that_has_all() {
        let mut copies = Copies::new(2, 0..2, true);
        let serve = |copy, rank, from| Serve { copy, rank, from };
        let begin = [0, 1].map(|copy| [Start { copy }, serve(copy, 0, None), serve(copy, 1, None)]);
        assert_eq!(go_on(&mut copies, 7), [begin.as_flattened(), &[Done]].concat());
        copies.gone(0);
        assert_eq!(copies.sources().collect::<Vec<_>>(), [1]);
        let filled = [Start { copy: 0 }, serve(0, 0, Some(1)), serve(0, 1, Some(1))];
        assert_eq!(go_on(&mut copies, 2), filled[..2]);
        // Killed in the midst: from the beginning.
        copies.gone(0);
        assert_eq!(go_on(&mut copies, 4), [&filled[..], &[Done]].concat());
    }

    #[test]
    fn one_that_is_being_filled_has_not_all() {
        let mut copies = Copies::new(3, 0..2, true);
        go_on(&mut copies, 9);
        copies.gone(1);
        copies.gone(2);
        go_on(&mut copies, 2);
        copies.gone(0);
        assert_eq!(copies.next(), Lost);
        assert_eq!(copies.sources().count(), 0);
    }

    #[test]
    fn before_all_are_there_nothing_can_be_lost() {
        let mut copies = Copies::new(2, [7], true);
        go_on(&mut copies, 2);
        copies.gone(0);
        assert_eq!(copies.next(), Start { copy: 0 });
    }

    #[test]
    fn one_whose_memory_outlives_it_needs_no_other() {
        let mut copies = Copies::new(1, 0..2, false);
        go_on(&mut copies, 3);
        assert_eq!(copies.next(), Done);
        copies.gone(0);
        let serve = [0, 1].map(|rank| Serve { copy: 0, rank, from: None });
        assert_eq!(go_on(&mut copies, 4), [&[Start { copy: 0 }], &serve[..], &[Done]].concat());
    }
}
