//! Which fabric leads to a rank.

use rustc_hash::FxHashMap;
use taffrail_fabric::PeerId;

/// The route of all ranks that are not of this node.
const FAR: u16 = u16::MAX;

/// The routes of all ranks. Where the ranks of the node follow each other, a comparison decides, and a rank of another node
/// takes no memory; otherwise each rank takes two bytes.
pub(crate) struct Routes {
    /// The rank that the near fabric numbers 0, if this many ranks follow each other.
    first: u32,
    count: u32,
    ranks: u32,
    /// By rank: the number that the near fabric gives it, or [`FAR`]. Empty where ranks follow each other.
    table: Box<[u16]>,
    /// Ranks that were of this node, and the numbers that the near fabric gives them.
    moved: FxHashMap<PeerId, PeerId>,
}

/// The first of ranks that follow each other.
pub(crate) fn first_of_row(ranks: &[PeerId]) -> Option<PeerId> {
    let first = ranks.first().copied()?;
    ranks.iter().zip(first.0..).all(|(rank, expected)| rank.0 == expected).then_some(first)
}

/// How a rank is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Over the near fabric, which gives it this number.
    Near(PeerId),
    Far,
}

impl Routes {
    /// `node` is the ranks that the near fabric connects, in the order of its own numbers.
    pub(crate) fn new(ranks: u32, node: &[PeerId]) -> Result<Routes, SetupError> {
        if node.len() >= usize::from(FAR) {
            return Err(SetupError::NodeTooLarge { got: node.len() });
        }
        let mut table = vec![FAR; ranks as usize].into_boxed_slice();
        for (number, rank) in (0..).zip(node) {
            let route = table.get_mut(rank.index());
            let route = route.ok_or(SetupError::NoSuchRank { rank: rank.0, ranks })?;
            if *route != FAR {
                return Err(SetupError::Twice { rank: rank.0 });
            }
            *route = number;
        }
        let mut routes = Routes { first: 0, count: 0, ranks, table, moved: FxHashMap::default() };
        if let Some(first) = first_of_row(node) {
            (routes.first, routes.count, routes.table) = (first.0, node.len() as u32, [].into());
        }
        Ok(routes)
    }

    #[inline(always)]
    pub(crate) fn of(&self, rank: PeerId) -> Route {
        match rank.0.wrapping_sub(self.first) {
            number if number < self.count => Route::Near(PeerId(number)),
            _ => self.look_up(rank),
        }
    }

    #[inline(never)]
    fn look_up(&self, rank: PeerId) -> Route {
        assert!(rank.0 < self.ranks, "rank {rank} of {}", self.ranks);
        match self.table.get(rank.index()) {
            None | Some(&FAR) => Route::Far,
            Some(&number) => Route::Near(PeerId(number.into())),
        }
    }

    pub(crate) fn is_far(&self, rank: PeerId) -> bool {
        rank.0 < self.ranks && self.of(rank) == Route::Far
    }

    /// Whether ranks of the job are on other nodes.
    pub(crate) fn leave_node(&self) -> bool {
        (0..self.ranks).any(|rank| self.of(PeerId(rank)) == Route::Far)
    }

    /// From now on the far fabric leads to a rank of this node.
    pub(crate) fn make_far(&mut self, rank: PeerId, near: PeerId) {
        if self.table.is_empty() {
            let route = |rank| match self.of(PeerId(rank)) {
                Route::Near(number) => number.0 as u16,
                Route::Far => FAR,
            };
            self.table = (0..self.ranks).map(route).collect();
            self.count = 0;
        }
        self.table[rank.index()] = FAR;
        self.moved.insert(rank, near);
    }

    /// The number that the near fabric gives a rank that was of this node.
    pub(crate) fn before(&self, rank: PeerId) -> Option<PeerId> {
        self.moved.get(&rank).copied()
    }
}

/// Why two fabrics do not make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// More ranks on a node than routes can name.
    #[error("{got} ranks on one node; {max} are possible", max = FAR - 1)]
    NodeTooLarge {
        /// How many there are.
        got: usize,
    },
    /// A rank of the node that the job does not have.
    #[error("rank {rank} is said to be of this node, and the job has {ranks}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A rank that the near fabric is said to have two numbers for.
    #[error("rank {rank} is named twice among those of this node")]
    Twice {
        /// The rank.
        rank: u32,
    },
    /// The two fabrics are of different ranks.
    #[error("the near fabric is that of {near}, the far one that of rank {far}")]
    Different {
        /// The rank by the near fabric, if it is one.
        near: String,
        /// The rank by the far fabric.
        far: u32,
    },
    /// The operating system refused something.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: rustix::io::Errno,
    },
}

/// Why a rank keeps its route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It is this process's own rank.
    #[error("rank {0} is this process")]
    Myself(u32),
    /// The end of its link was not reported yet, or its process may still write here.
    #[error("the last incarnation of rank {0} is not drained yet; poll and try again")]
    NotDrained(u32),
    /// The operating system refused what a wait for the far fabric needs.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(of: &[u32]) -> Vec<PeerId> {
        of.iter().map(|&rank| PeerId(rank)).collect()
    }

    #[test]
    fn ranks_of_the_node_have_its_numbers_and_all_others_are_far() {
        let mut routes = Routes::new(6, &ranks(&[4, 1])).unwrap();
        let near = |number| Route::Near(PeerId(number));
        let of = |routes: &Routes| (0..6).map(|rank| routes.of(PeerId(rank))).collect::<Vec<_>>();
        let far = Route::Far;
        assert_eq!(of(&routes), [far, near(1), far, far, near(0), far]);
        assert!(routes.leave_node() && !routes.is_far(PeerId(6)));
        routes.make_far(PeerId(1), PeerId(1));
        assert_eq!(of(&routes), [far, far, far, far, near(0), far]);
        assert_eq!([1, 4].map(|rank| routes.before(PeerId(rank))), [Some(PeerId(1)), None]);
        assert!(!Routes::new(2, &ranks(&[1, 0])).unwrap().leave_node());
    }

    #[test]
    fn what_makes_no_routes_is_refused() {
        let new = |ranks: u32, node: &[PeerId]| Routes::new(ranks, node).err();
        assert_eq!(new(2, &ranks(&[0, 2])), Some(SetupError::NoSuchRank { rank: 2, ranks: 2 }));
        assert_eq!(new(2, &ranks(&[1, 0, 1])), Some(SetupError::Twice { rank: 1 }));
        let all: Vec<PeerId> = (0..u32::from(FAR)).map(PeerId).collect();
        assert_eq!(new(70_000, &all), Some(SetupError::NodeTooLarge { got: 65_535 }));
        assert_eq!(new(70_000, &all[1..]), None);
    }

    #[test]
    fn a_rank_of_another_node_takes_nothing_where_those_of_this_one_follow_each_other() {
        let row = ranks(&[7, 8, 9]);
        let mut routes = Routes::new(1000, &row).unwrap();
        assert_eq!((routes.table.len(), routes.moved.capacity()), (0, 0));
        let near: Vec<u32> = (0..1000).filter(|&rank| !routes.is_far(PeerId(rank))).collect();
        assert_eq!(near, [7, 8, 9]);
        assert_eq!(routes.of(PeerId(9)), Route::Near(PeerId(2)));
        routes.make_far(PeerId(8), PeerId(1));
        let near: Vec<u32> = (0..1000).filter(|&rank| !routes.is_far(PeerId(rank))).collect();
        assert_eq!(near, [7, 9]);
        assert_eq!(routes.of(PeerId(9)), Route::Near(PeerId(2)));
        let scattered = Routes::new(1000, &ranks(&[7, 9])).unwrap();
        assert_eq!(size_of_val(&*scattered.table), 2000);
        assert!(!Routes::new(3, &ranks(&[0, 1, 2])).unwrap().leave_node());
    }
}
