use super::*;
use crate::Event;
use crate::store::sync::AtomicU64;
use crate::store::{Durability, RingShape, RingWriter};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

const CAPACITY: u64 = 16;

type Words64 = Rc<Vec<AtomicU64>>;

impl Words for Words64 {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self[at]
    }

    fn four(&self, at: usize) -> [&AtomicU64; 4] {
        [0, 1, 2, 3].map(|n| &self[at + n])
    }
}

/// A set whose members write while the logger looks. Each event may depend on all before it.
struct Set {
    writers: Vec<RingWriter<Words64>>,
    /// Whose events they were, in the order in which they were written.
    order: Vec<usize>,
    random: fastrand::Rng,
    /// One poll in this many is preceded by another event.
    rarely: u32,
}

impl Set {
    fn write(&mut self) {
        while self.random.u32(..self.rarely) == 0 {
            let rank = self.random.usize(..self.writers.len());
            if self.writers[rank].push(&Event::Nothing { polls: 1 }).is_err() {
                return;
            }
            self.order.push(rank);
        }
    }
}

/// A ring as the logger sees it: something happens before each look at its counter.
struct Watched {
    words: Words64,
    set: Rc<RefCell<Set>>,
}

impl Words for Watched {
    fn count(&self) -> usize {
        self.words.len()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // The word `written`.
        if at == 16 {
            self.set.borrow_mut().write();
        }
        &self.words[at]
    }

    fn four(&self, at: usize) -> [&AtomicU64; 4] {
        self.words.four(at)
    }
}

fn set(ranks: u32, rarely: u32, seed: u64) -> (Rc<RefCell<Set>>, Vec<RingReader<Watched>>) {
    let shape = |rank| {
        let durability = Durability::Disk;
        RingShape { rank, job: 1, capacity: CAPACITY, durability }
    };
    let rings = (0..ranks).map(|rank| {
        let words: Words64 = Rc::new((0..shape(rank).bytes() / 8).map(|_| 0.into()).collect());
        shape(rank).lay_out(&words);
        words
    });
    let rings: Vec<Words64> = rings.collect();
    let writers = (0..)
        .zip(&rings)
        .map(|(rank, words)| RingWriter::attach(words.clone(), shape(rank)).unwrap());
    let random = fastrand::Rng::with_seed(seed);
    let set = Set { writers: writers.collect(), order: Vec::new(), random, rarely };
    let set = Rc::new(RefCell::new(set));
    let readers = (0..).zip(rings).map(|(rank, words)| {
        RingReader::attach(Watched { words, set: set.clone() }, shape(rank), 0).unwrap()
    });
    (set.clone(), readers.collect())
}

/// How many events of each member are among the first of all.
fn clocks(order: &[usize], ranks: u32) -> Vec<u64> {
    let of = |rank| order.iter().filter(|one| **one == rank as usize).count() as u64;
    (0..ranks).map(of).collect()
}

proptest! {
    /// All events of a cut are the first that were written, by any rank.
    #[test]
    fn a_cut_has_no_event_without_those_before_it(
        ranks in 1..6u32,
        rarely in 2..200u32,
        seed: u64,
    ) {
        let (set, mut readers) = set(ranks, rarely, seed);
        let mut made = 0;
        while made < 20 {
            let known: Vec<u64> = readers.iter().map(RingReader::taken).collect();
            let looked = moment(readers.iter(), known.iter().copied()).unwrap();
            let Snapshot::Still(cut) = looked else { continue };
            if ranks > 1 {
                let events = cut.iter().sum::<u64>() as usize;
                prop_assert_eq!(&cut, &clocks(&set.borrow().order[..events], ranks));
            }
            readers.iter_mut().zip(cut).for_each(|(reader, clock)| reader.keep(clock));
            made += 1;
        }
    }
}

/// However much they write: they stop when their rings are full.
#[test]
fn members_that_write_all_the_time_come_to_a_cut() {
    let (set, readers) = set(3, 1, 5);
    let cut = loop {
        match moment(readers.iter(), [0; 3].into_iter()).unwrap() {
            Snapshot::Still(cut) => break cut,
            other => assert_eq!(other, Snapshot::Moving),
        }
    };
    assert_eq!(cut, clocks(&set.borrow().order, 3));
    assert!(cut.contains(&CAPACITY), "{cut:?}");
}
