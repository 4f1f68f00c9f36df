//! Which processors the ranks of a node are bound to.

use crate::run::cpus::{self, Places};
use crate::run::{Bind, Failure};
use std::collections::BTreeMap;
use taffrail_agent::wire::Binding;

/// *Invariant:* a rank keeps its place for as long as it is on this node, whatever its incarnation.
pub struct Bound {
    bind: Option<Bind>,
    /// Of the ranks that the node has at first.
    places: Option<Places>,
    /// The place of each rank that was started here.
    numbers: BTreeMap<usize, usize>,
}

impl Bound {
    pub fn new(binding: Binding) -> Bound {
        let bind = match binding {
            Binding::Auto => None,
            Binding::Core => Some(Bind::Core),
            Binding::None => Some(Bind::None),
        };
        Bound { bind, places: None, numbers: BTreeMap::new() }
    }

    /// The processor of a rank that is to be started. `of_node` is the number of ranks on this node.
    ///
    /// Ranks that come from a lost node share processors if they must have one, and else have none.
    ///
    /// # Errors
    /// Ranks must be bound, and cannot be.
    pub fn cpu(&mut self, rank: usize, of_node: usize) -> Result<Option<usize>, Failure> {
        if self.numbers.is_empty() {
            self.places = cpus::places_of_node(self.bind, of_node)?;
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(rank).or_insert(next);
        let Some(places) = &self.places else { return Ok(None) };
        let shares = self.bind.is_some();
        let has_one = number < places.len() || shares;
        Ok(has_one.then(|| places.of(number % places.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_keep_their_processors_and_those_that_come_later_share_them() {
        let allowed = cpus::allowed().unwrap();
        let mut bound = Bound::new(Binding::Core);
        let first = bound.cpu(3, 1).unwrap();
        assert!(first.is_some_and(|cpu| allowed.contains(&cpu)));
        assert_eq!((bound.cpu(0, 2).unwrap(), bound.cpu(3, 2).unwrap()), (first, first));

        // One rank, which may have threads.
        let mut auto = Bound::new(Binding::Auto);
        assert_eq!((auto.cpu(3, 1).unwrap(), auto.cpu(0, 2).unwrap()), (None, None));
        assert_eq!(Bound::new(Binding::None).cpu(3, 2).unwrap(), None);
    }
}
