//! The copies that a store has: of each node and its ranks the last one that is whole, and what has come of later ones.

use super::super::stream::wrong;
use super::checkpoints::{HeldCheckpoints, WholeCheckpoint};
use super::moves::BroughtLogs;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Result as IoResult;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// One copy: all events of some ranks of a node, by one connection.
pub struct CopyOf {
    number: u64,
    home: u32,
    epoch: u64,
    connection: TcpStream,
    ranks: BTreeMap<u32, CopyOfRank>,
}

pub struct CopyOfRank {
    file: Arc<File>,
    /// The events up to this clock belong to the copy. None: none do yet.
    clock: Option<u64>,
}

impl CopyOf {
    /// All its ranks have events that belong to it.
    fn is_whole(&self) -> bool {
        self.ranks.values().all(|of| of.clock.is_some())
    }
}

/// All copies.
#[derive(Default)]
pub struct Held {
    copies: Vec<CopyOf>,
    next: u64,
    /// Orders whose copies were handed out: the ranks live elsewhere, and nothing more is taken of those.
    pub closed: BTreeSet<u64>,
    pub checkpoints: HeldCheckpoints,
    pub brought: BroughtLogs,
}

impl Held {
    /// A copy begins. It takes the place of one that the same ranks have once it has all of them.
    pub fn begin(
        &mut self,
        home: u32,
        epoch: u64,
        connection: TcpStream,
        files: Vec<(u32, Arc<File>)>,
    ) -> IoResult<u64> {
        let newest = self.copies.iter().filter(|copy| copy.home == home).map(|copy| copy.epoch);
        if self.closed.contains(&epoch) || newest.max().is_some_and(|newest| newest > epoch) {
            return Err(wrong("order", "one that is in force", epoch));
        }
        let is_of = |copy: &&CopyOf| {
            copy.home == home && copy.ranks.keys().eq(files.iter().map(|(rank, _)| rank))
        };
        for before in self.copies.iter().filter(is_of) {
            let _ = before.connection.shutdown(Shutdown::Both);
        }
        self.drop_superseded(home, epoch, &files);
        self.next += 1;
        let ranks = files.into_iter().map(|(rank, file)| (rank, CopyOfRank { file, clock: None }));
        let (number, ranks) = (self.next, ranks.collect());
        self.copies.push(CopyOf { number, home, epoch, connection, ranks });
        Ok(number)
    }

    /// Drops what nothing is handed out of any more, of the copies of these ranks, when one by this order begins. Their connections
    /// have ended, and so they get no more events. What has come of an incomplete copy may be stable: it stays until all of its ranks
    /// have later events by the same order. Incomplete copies by former orders were never reported as whole.
    fn drop_superseded(&mut self, home: u32, epoch: u64, files: &[(u32, Arc<File>)]) {
        let is_of = |copy: &CopyOf| {
            copy.home == home && copy.ranks.keys().eq(files.iter().map(|(rank, _)| rank))
        };
        let whole = self.copies.iter().filter(|copy| is_of(copy) && copy.is_whole());
        let whole: BTreeSet<u64> = whole.map(|copy| copy.epoch).collect();
        let mut later = BTreeSet::new();
        let mut used = BTreeSet::new();
        for copy in self.copies.iter().rev().filter(|copy| is_of(copy)) {
            let begun = copy.ranks.iter().filter(|(_, of)| of.clock.is_some());
            let has_last = begun.filter(|(rank, _)| later.insert((copy.epoch, **rank))).count() > 0;
            if has_last && (copy.epoch == epoch || whole.contains(&copy.epoch)) {
                used.insert(copy.number);
            }
        }
        self.copies.retain(|copy| !is_of(copy) || used.contains(&copy.number));
    }

    /// These events belong to a copy from now on, all at once.
    pub fn cut(&mut self, number: u64, clocks: &[(u32, u64)]) -> IoResult<()> {
        let superseded = || wrong("connection", "the last one of its ranks", "one before it");
        let at = self.copies.iter().position(|copy| copy.number == number);
        let at = at.ok_or_else(superseded)?;
        let (home, epoch) = (self.copies[at].home, self.copies[at].epoch);
        let later = |copy: &CopyOf| {
            copy.home == home
                && copy.number > number
                && copy.ranks.keys().eq(self.copies[at].ranks.keys())
        };
        if self.closed.contains(&epoch) || self.copies.iter().any(later) {
            return Err(superseded());
        }
        let ranks = &mut self.copies[at].ranks;
        for (rank, clock) in clocks {
            if let Some(of) = ranks.get_mut(rank) {
                of.clock = Some(*clock);
            }
        }
        if self.copies[at].is_whole() {
            let ranks: Vec<u32> = self.copies[at].ranks.keys().copied().collect();
            self.copies.retain(|copy| {
                copy.number == number || copy.home != home || !copy.ranks.keys().eq(&ranks)
            });
        }
        Ok(())
    }

    /// The events of a rank by this order. Nothing is added to them any more.
    pub fn close(&mut self, rank: u32, epoch: u64) -> Option<(Arc<File>, u64)> {
        if let Some(brought) = self.brought.of(rank, epoch) {
            return Some((brought.events.clone(), brought.clock));
        }
        let of_order = self.copies.iter().filter(|copy| copy.epoch == epoch);
        let found = of_order.rev().find_map(|copy| {
            let of = copy.ranks.get(&rank)?;
            Some((of.file.clone(), of.clock?))
        })?;
        self.closed.insert(epoch);
        for copy in self.copies.iter().filter(|copy| copy.epoch == epoch) {
            let _ = copy.connection.shutdown(Shutdown::Both);
        }
        self.checkpoints.close(epoch);
        Some(found)
    }

    /// The last checkpoint of a rank by this order.
    pub fn checkpoint(&self, rank: u32, epoch: u64) -> Option<WholeCheckpoint> {
        match self.brought.of(rank, epoch) {
            Some(brought) => brought.checkpoint.clone(),
            None => self.checkpoints.of(rank, epoch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const HOME: u32 = 3;

    /// A copy of ranks 1 and 2 begins.
    fn begin(held: &mut Held, epoch: u64) -> u64 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let files = [1, 2].map(|rank| (rank, Arc::new(tempfile::tempfile().unwrap())));
        held.begin(HOME, epoch, connection, files.into()).unwrap()
    }

    fn numbers(held: &Held) -> Vec<u64> {
        held.copies.iter().map(|copy| copy.number).collect()
    }

    /// The link flaps while a large log is sent.
    #[test]
    fn copies_that_begin_again_and_again_do_not_pile_up() {
        let mut held = Held::default();
        let whole = begin(&mut held, 5);
        held.cut(whole, &[(1, 10), (2, 20)]).unwrap();
        for _ in 0..20 {
            let next = begin(&mut held, 5);
            assert_eq!(numbers(&held), [whole, next]);
        }
        // Other orders, which are never carried out.
        for epoch in 6..20 {
            let next = begin(&mut held, epoch);
            held.cut(next, &[(1, 11)]).unwrap();
            assert_eq!(numbers(&held), [whole, next]);
        }
        let next = begin(&mut held, 20);
        held.cut(next, &[(1, 12), (2, 22)]).unwrap();
        assert_eq!(numbers(&held), [next]);
        assert!(held.cut(whole, &[(1, 13)]).is_err(), "its place is taken");
        assert_eq!(held.close(2, 20).map(|(_, clock)| clock), Some(22));
    }

    /// Events that have come count as stable, also where other ranks of the copy have none yet.
    #[test]
    fn what_has_come_of_an_incomplete_copy_is_kept_until_later_events_come() {
        let mut held = Held::default();
        let whole = begin(&mut held, 5);
        held.cut(whole, &[(1, 10), (2, 20)]).unwrap();
        for clock in 11..31 {
            let next = begin(&mut held, 5);
            held.cut(next, &[(1, clock)]).unwrap();
            assert!(held.copies.len() <= 3, "{:?}", numbers(&held));
        }
        begin(&mut held, 5);
        assert_eq!(held.copies.len(), 3, "{:?}", numbers(&held));
        assert_eq!(held.close(1, 5).map(|(_, clock)| clock), Some(30));
        assert_eq!(held.close(2, 5).map(|(_, clock)| clock), Some(20));
    }
}
