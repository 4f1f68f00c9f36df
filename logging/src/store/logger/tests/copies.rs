//! Several loggers, each with a copy of everything.

use super::*;
use crate::store::Full;

const COPIES: u32 = 3;

fn held(ranks: u32) -> Held {
    Held::new(Durability::Node { copies: COPIES }, ranks, 8)
}

/// A logger with the number `copy`, which begins with what `from` has; the first ones with nothing.
fn logger(held: &Held, copy: u32, from: Option<&Logger>) -> Logger {
    let mut logger = Logger::new(Disk::Memory);
    for rank in 0..held.ranks() {
        let events = from.map_or(Unpacked::default(), |from| handed_out(from, rank).1);
        let ring = RingReader::attach(held.memory(rank), held.shape(rank), copy).unwrap();
        logger.serve_copy(held.set(), ring, events).unwrap();
    }
    logger
}

#[test]
fn what_is_stable_is_in_every_copy() {
    let held = held(2);
    let mut loggers: Vec<_> = (0..COPIES).map(|copy| logger(&held, copy, None)).collect();
    let [mut a, mut b] = [0, 1].map(|rank| held.writer(rank));
    push(&mut a, 8);
    push(&mut b, 3);
    for logger in &mut loggers {
        assert_eq!((a.stable(), b.stable(), a.push(&event(9))), (Ok(0), Ok(0), Err(Full)));
        assert!(logger.turn().busy);
    }
    assert_eq!((a.stable(), b.stable()), (Ok(8), Ok(3)));
    push(&mut a, 1);
}

/// All but one are killed again and again, in the midst of whatever they do: what is stable stays, and
/// the copy that is left has all of it.
#[test]
fn all_but_one_may_be_lost() {
    let held = held(2);
    let mut random = fastrand::Rng::with_seed(7);
    let mut loggers: Vec<_> = (0..COPIES).map(|copy| logger(&held, copy, None)).collect();
    let mut writers = [0, 1].map(|rank| held.writer(rank));
    let mut stable = [0, 0];
    for _ in 0..500 {
        for writer in &mut writers {
            for _ in 0..random.u64(..5) {
                let _ = writer.push(&event(writer.written() + 1));
            }
        }
        loggers[random.usize(..3)].turn();
        let now = [0, 1].map(|rank: usize| writers[rank].stable().unwrap());
        assert!((0..2).all(|rank| now[rank] >= stable[rank]), "{now:?} after {stable:?}");
        stable = now;
        if random.u8(..4) != 0 {
            continue;
        }
        let left = random.usize(..3);
        for rank in 0..2 {
            let kept = loggers[left].kept(rank).unwrap();
            assert!(
                kept >= stable[rank as usize],
                "copy {left} of rank {rank}: {kept} of {stable:?}"
            );
        }
        for lost in (0..3).filter(|&copy| copy != left) {
            if random.bool() {
                loggers[lost] = logger(&held, lost as u32, Some(&loggers[left]));
            }
        }
        assert_eq!([0, 1].map(|rank| writers[rank].stable().unwrap()), stable);
    }
    loggers.iter_mut().for_each(|logger| drop(logger.turn()));
    assert!(writers.iter().all(|writer| writer.written() > 100));
    for logger in &loggers {
        for (rank, writer) in (0..).zip(&writers) {
            assert_eq!(writer.stable(), Ok(writer.written()));
            assert_eq!(logger.kept(rank), Some(writer.written()));
            assert_eq!(copied(logger, rank), writer.written());
        }
    }
}
