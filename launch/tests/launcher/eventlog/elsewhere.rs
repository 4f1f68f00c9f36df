//! An event logger that copies to the copy store of another node, and what that has when loggers, stores and nodes are killed.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use taffrail_agent::Secret;
use taffrail_agent::client::memory::{RefusedMemory, create_secret};
use taffrail_launch::eventlog::{CopyNews, CopyStore, Elsewhere, Target};
use taffrail_logging::store::Unpacked;

fn of_node(node: u32, secret: u8) -> Elsewhere {
    let secret: OwnedFd = create_secret(&Secret([secret; 32])).unwrap();
    let (_, refused) = RefusedMemory::create().unwrap();
    Elsewhere { secret, refused, node, nodes: 3 }
}

fn store(secret: u8) -> CopyStore {
    store_of(1, secret)
}

fn store_of(node: u32, secret: u8) -> CopyStore {
    let program = Path::new(env!("CARGO_BIN_EXE_taffrail"));
    CopyStore::start(program, JOB, &of_node(node, secret), "lo", Duration::from_secs(20)).unwrap()
}

/// Loggers of node 0, of which all but the first copy to other nodes.
fn copying(sets: &[usize]) -> Keeper {
    copying_to(1, sets)
}

fn copying_to(others: u32, sets: &[usize]) -> Keeper {
    let mut keeper = keeper(sets, &Keeping::Node { copies: others + 1 });
    keeper.copy_elsewhere(of_node(0, 7));
    keeper.start().unwrap();
    keeper
}

fn copy_to(keeper: &mut Keeper, epoch: u64, store: &CopyStore) {
    let address = store.address().to_owned();
    keeper.copy_to(1, Target { epoch, node: 1, address }).unwrap();
}

/// Waits for news of copies, with loggers that are gone started again.
fn news(keeper: &mut Keeper) -> CopyNews {
    let mut found = None;
    let heard = || {
        match keeper.news() {
            Ok(heard) => found = heard.copies.into_iter().next(),
            Err(_) => keeper.start().unwrap(),
        }
        found.is_some()
    };
    assert!(soon(heard), "nothing is heard of the copy");
    found.unwrap()
}

/// All events that a copy has are those that were written, without gaps.
fn copied(store: &mut CopyStore, rank: u32, epoch: u64) -> u64 {
    let download = store.fetch(rank, epoch).unwrap();
    let file = File::from(download.file);
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let events: Vec<_> = Unpacked::new(Owner { rank, job: JOB }, "copy", bytes).unwrap().collect();
    for (clock, got) in (1..).zip(&events) {
        assert_eq!((got.clock, got.event), (clock, event(rank, clock)));
    }
    assert_eq!(events.len() as u64, download.count);
    download.count
}

#[test]
fn a_lost_node_loses_nothing_that_was_stable() {
    for sets in [[0, 0], [0, 1]] {
        let (mut keeper, mut there) = (copying(&sets), store(7));
        let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
        pause(20_000);
        assert_eq!([0, 1].map(|rank| stable(&keeper, rank)), [0; 2], "before it is said where to");
        copy_to(&mut keeper, 1, &there);
        assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 1 });
        let mut epoch = 1;
        for turn in 0..12 {
            let before = [0, 1].map(|rank| stable(&keeper, rank));
            // A process with threads is gone later than its first thread.
            let goes_on = || {
                if keeper.lacks_one() {
                    keeper.start().unwrap();
                }
                (0..2).all(|rank| stable(&keeper, rank) > before[rank as usize])
            };
            assert!(soon(goes_on), "turn {turn}: {before:?}");
            pause(2000);
            if turn % 4 == 3 {
                // Another copy store has nothing; all of it goes there.
                kill_process(there.pid(), Signal::KILL).unwrap();
                (there, epoch) = (store(7), epoch + 1);
                copy_to(&mut keeper, epoch, &there);
                // A logger that was started again has said that of the order before.
                while news(&mut keeper) != (CopyNews::Copied { epoch }) {}
            } else {
                let logger = keeper.pids().nth(fastrand::usize(..2)).unwrap();
                kill_process(logger, Signal::KILL).unwrap();
                assert!(soon(|| !runs(&logger.as_raw_pid().to_string())));
                keeper.start().unwrap();
            }
        }
        assert!(matches!(there.fetch(0, epoch + 1), Err(KeeperError::Refused(_))));
        let promised = [0, 1].map(|rank| stable(&keeper, rank));
        for rank in [0, 1] {
            assert!(copied(&mut there, rank, epoch) >= promised[rank as usize]);
        }
        // The copy was handed out: its node gets nothing stable any more.
        pause(20_000);
        let last = [0, 1].map(|rank| stable(&keeper, rank));
        pause(20_000);
        assert_eq!([0, 1].map(|rank| stable(&keeper, rank)), last);
        for rank in [0, 1] {
            assert!(copied(&mut there, rank, epoch) >= last[rank as usize]);
        }
        ranks.iter_mut().for_each(kill);
    }
}

/// Of three loggers two copy, each to a store of its own: both have what is stable, and it waits for the slower one.
#[test]
fn nothing_is_stable_before_all_copies_have_it() {
    let (mut keeper, mut there) = (copying_to(2, &[0]), [store_of(1, 7), store_of(2, 7)]);
    let mut of_keeper = rank(&keeper, 0);
    let target = |number: usize| Target {
        epoch: number as u64,
        node: number as u32,
        address: there[number - 1].address().to_owned(),
    };
    let targets = [1, 2].map(target);
    keeper.copy_to(1, targets[0].clone()).unwrap();
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 1 });
    assert_eq!(stable(&keeper, 0), 0, "the other one has nothing");
    keeper.copy_to(2, targets[1].clone()).unwrap();
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 2 });
    assert!(soon(|| stable(&keeper, 0) > 0));
    // The second logger is killed, and knows where to copy when it is started again.
    let logger = keeper.pids().nth(2).unwrap();
    kill_process(logger, Signal::KILL).unwrap();
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 2 });
    kill_process(there[1].pid(), Signal::STOP).unwrap();
    // What was under way when it was stopped.
    std::thread::sleep(Duration::from_millis(100));
    let before = stable(&keeper, 0);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stable(&keeper, 0), before, "one of the copies lacks it");
    kill_process(there[1].pid(), Signal::CONT).unwrap();
    assert!(soon(|| stable(&keeper, 0) > before));
    let promised = stable(&keeper, 0);
    for (number, there) in (1..).zip(&mut there) {
        assert!(copied(there, 0, number) >= promised);
    }
    kill(&mut of_keeper);
}

#[test]
fn who_does_not_know_the_secret_copies_nothing() {
    let (mut keeper, there) = (copying(&[0]), store(8));
    let mut of_keeper = rank(&keeper, 0);
    copy_to(&mut keeper, 1, &there);
    assert!(matches!(news(&mut keeper), CopyNews::Lost { epoch: 1, .. }));
    assert_eq!(stable(&keeper, 0), 0);
    // Garbage is not answered.
    let mut stream = TcpStream::connect(there.address()).unwrap();
    stream.write_all(&[b'x'; 200]).unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{ended:?} {answer:?}");
    // Nowhere: what is kept here is stable then.
    let nowhere = Target { epoch: 2, node: 0, address: String::new() };
    keeper.copy_to(1, nowhere).unwrap();
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 2 });
    assert!(soon(|| stable(&keeper, 0) > 0));
    kill(&mut of_keeper);
}

/// What one copy store has is brought to another one, and then nothing more is stable by the order that it was copied by.
#[test]
fn the_log_of_a_rank_is_brought_to_another_node() {
    let (mut keeper, mut first) = (copying(&[0, 1]), store(7));
    let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
    copy_to(&mut keeper, 1, &first);
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 1 });
    assert!(soon(|| stable(&keeper, 1) > 100));
    let mut second = store_of(0, 7);
    let to =
        |second: &CopyStore, epoch| Target { epoch, node: 0, address: second.address().to_owned() };
    let heard = |first: &mut CopyStore| {
        let mut found = Vec::new();
        assert!(soon(|| {
            found = first.news().unwrap();
            !found.is_empty()
        }));
        found.remove(0)
    };
    let promised = stable(&keeper, 1);
    first.bring(1, 1, to(&second, 2)).unwrap();
    assert_eq!(heard(&mut first), CopyNews::Copied { epoch: 2 });
    // Nobody has heard that it was taken, or it is brought again by a later order: that counts, and none before it.
    for epoch in [2, 4] {
        first.bring(1, 1, to(&second, epoch)).unwrap();
        assert_eq!(heard(&mut first), CopyNews::Copied { epoch });
    }
    first.bring(1, 1, to(&second, 3)).unwrap();
    assert!(matches!(heard(&mut first), CopyNews::Lost { epoch: 3, .. }));
    let (there, last) = (copied(&mut second, 1, 4), stable(&keeper, 1));
    assert!(promised <= last && last <= there, "{promised}, {last}, {there}");
    assert!(second.fetch_checkpoint(1, 4).unwrap().is_none());
    assert!(matches!(second.fetch(1, 4), Err(KeeperError::Refused(_))), "it is handed out once");
    pause(20_000);
    assert_eq!(stable(&keeper, 1), last, "its order is closed");
    assert_eq!(copied(&mut first, 1, 1), there, "it is still here");
    assert!(matches!(second.fetch(0, 4), Err(KeeperError::Refused(_))), "the other rank's is not");
    // One that is not there, which is said of the order that was to bring it here, and a copy store that is gone.
    first.bring(1, 7, to(&second, 8)).unwrap();
    assert!(matches!(heard(&mut first), CopyNews::Lost { epoch: 7, .. }));
    kill_process(second.pid(), Signal::KILL).unwrap();
    first.bring(1, 1, to(&second, 9)).unwrap();
    assert!(matches!(heard(&mut first), CopyNews::Lost { epoch: 9, .. }));
    ranks.iter_mut().for_each(kill);
}
