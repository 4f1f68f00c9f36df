//! Ranks that are killed while others meet them. Their successors, and what is left of them, are
//! threads here; `tests/rejoin` does the same with processes.

use super::*;
use std::cell::RefCell;

/// A process of a rank in a job of three ranks that are restarted.
struct Life {
    owner: Owner,
    callers: Callers,
    generations: [u32; 3],
}

impl Life {
    fn new(rank: u32, incarnation: u32, generations: [u32; 3]) -> Self {
        let mut owner = Owner::new(rank, 3);
        owner.hello.incarnation = incarnation;
        owner.hello.generation = generations[rank as usize];
        Life { owner, callers: Callers::new(Listener::bind().unwrap()), generations }
    }

    fn address(&self) -> String {
        self.callers.address().to_string()
    }

    /// The incarnations of all peers that it is connected with, and the ranks that were renewed.
    fn meet(&mut self, addresses: &[String; 3], patience: Duration) -> Result<Met, SetupError> {
        let renewed = RefCell::new(Vec::new());
        let terms = Terms {
            generations: &self.generations,
            restarts: true,
            named: false,
            patience,
            renew: &|rank| renewed.borrow_mut().push(rank),
            on_wait: &|_, _| Ok(()),
        };
        let peers = self.owner.connect_on(&mut self.callers, addresses, terms)?;
        let incarnations = peers.iter().map(|peer| Some(peer.as_ref()?.hello.incarnation));
        Ok(Met { incarnations: incarnations.collect(), renewed: renewed.take(), _peers: peers })
    }
}

struct Met {
    incarnations: Vec<Option<u32>>,
    renewed: Vec<u32>,
    /// The connections stay open.
    _peers: Vec<Option<Peer>>,
}

/// All three meet, each with the addresses that it knows.
fn all_meet<'a>(lives: impl IntoIterator<Item = (&'a mut Life, &'a [String; 3])>) -> Vec<Met> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = lives
            .into_iter()
            .map(|(life, addresses)| scope.spawn(move || life.meet(addresses, SOON).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_peer_that_is_gone_is_waited_for() {
    let mut zero = Life::new(0, 0, [0, 0, 0]);
    let dead = Life::new(1, 0, [0, 0, 0]);
    let mut two = Life::new(2, 0, [0, 0, 0]);
    let old = [zero.address(), dead.address(), two.address()];
    drop(dead);
    let mut one = Life::new(1, 1, [0, 1, 0]);
    let new = [old[0].clone(), one.address(), old[2].clone()];
    // Rank 2 looks for the dead one first.
    let met = all_meet([(&mut zero, &old), (&mut one, &new), (&mut two, &old)]);
    assert_eq!(met[0].incarnations, [None, Some(1), Some(0)]);
    assert_eq!(met[1].incarnations, [Some(0), None, Some(0)]);
    assert_eq!(met[2].incarnations, [Some(0), Some(1), None]);
}

#[test]
fn a_peer_that_dies_before_it_answers_is_waited_for() {
    let mut zero = Life::new(0, 0, [0, 0, 0]);
    let dying = Life::new(1, 0, [0, 0, 0]);
    let mut two = Life::new(2, 0, [0, 0, 0]);
    let old = [zero.address(), dying.address(), two.address()];
    let mut one = Life::new(1, 1, [0, 1, 0]);
    let new = [old[0].clone(), one.address(), old[2].clone()];
    let met = std::thread::scope(|scope| {
        let (new, old) = (&new, &old);
        let successor = scope.spawn(move || {
            let mut waiting = [PollFd::from_borrowed_fd(dying.callers.fd(), PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
            // Rank 2 is in its queue, and may have said its hello.
            std::thread::sleep(Duration::from_millis(fastrand::u64(..20)));
            drop(dying);
            one.meet(new, SOON).unwrap()
        });
        let met = all_meet([(&mut zero, old), (&mut two, old)]);
        successor.join().unwrap();
        met
    });
    assert_eq!(met[0].incarnations, [None, Some(1), Some(0)]);
    assert_eq!(met[1].incarnations, [Some(0), Some(1), None]);
    assert_eq!(met[1].renewed, [1], "the dead one had our inbox");
}

/// Rank 2 was started again after rank 1 was, which does not know it, and has its new address.
#[test]
fn of_two_that_connect_to_each_other_the_later_is_right() {
    for _ in 0..100 {
        let mut zero = Life::new(0, 0, [0, 0, 0]);
        let mut one = Life::new(1, 1, [0, 1, 0]);
        let mut two = Life::new(2, 1, [0, 1, 2]);
        let addresses = [zero.address(), one.address(), two.address()];
        let met =
            all_meet([(&mut zero, &addresses), (&mut one, &addresses), (&mut two, &addresses)]);
        assert_eq!(met[1].incarnations, [Some(0), None, Some(1)]);
        assert_eq!(met[2].incarnations, [Some(0), Some(1), None]);
    }
}

#[test]
fn a_peer_that_was_met_and_died_is_replaced_by_its_successor_only() {
    let mut zero = Life::new(0, 0, [0, 0, 0]);
    let mut dying = Life::new(1, 1, [0, 1, 0]);
    let mut one = Life::new(1, 2, [0, 2, 0]);
    let mut two = Life::new(2, 0, [0, 0, 0]);
    let old = [zero.address(), dying.address(), two.address()];
    let new = [old[0].clone(), one.address(), old[2].clone()];
    let met = std::thread::scope(|scope| {
        let old = &old;
        let first = scope.spawn(move || zero.meet(old, SOON).unwrap());
        // Meets rank 0, and nobody else.
        let error = dying.meet(old, Duration::from_millis(100)).err().expect("rank 2 is missing");
        assert!(matches!(&error, SetupError::Missing { ranks, .. } if *ranks == [2]), "{error}");
        drop(dying);
        // What is left of it, and comes again.
        let mut left = Life::new(1, 1, [0, 1, 0]);
        let stray = scope.spawn(move || left.meet(old, Duration::from_millis(200)).err());
        let met = scope.spawn(|| one.meet(&new, SOON).unwrap());
        let missing = stray.join().unwrap().expect("it is refused");
        assert!(matches!(missing, SetupError::Missing { .. }), "{missing}");
        two.meet(old, SOON).unwrap();
        met.join().unwrap();
        first.join().unwrap()
    });
    assert_eq!(met.incarnations, [None, Some(2), Some(0)]);
    assert!(met.renewed.iter().filter(|rank| **rank == 1).count() >= 2, "{:?}", met.renewed);
}

#[test]
fn without_restarts_nobody_is_waited_for() {
    let (mut listeners, addresses) = listeners(2);
    listeners.remove(0);
    let error = Owner::new(1, 2).connect(&mut listeners[0], &addresses, SOON).unwrap_err();
    assert!(matches!(error, SetupError::Unreachable { rank: 0, .. }), "{error}");
}
