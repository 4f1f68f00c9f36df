//! An event logger that copies to the copy store of another node, and what that has when loggers, stores and nodes are killed.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use taffrail_agent::Secret;
use taffrail_agent::client::memory::create_secret;
use taffrail_launch::eventlog::{CopyNews, CopyStore, Elsewhere, Target};
use taffrail_logging::store::Unpacked;

fn of_node(node: u32, secret: u8) -> Elsewhere {
    let secret: OwnedFd = create_secret(&Secret([secret; 32])).unwrap();
    Elsewhere { secret, node, nodes: 2 }
}

fn store(secret: u8) -> CopyStore {
    let program = Path::new(env!("CARGO_BIN_EXE_taffrail"));
    CopyStore::start(program, JOB, &of_node(1, secret), "lo").unwrap()
}

/// Loggers of node 0, of which the last copies to another node.
fn copying(sets: &[usize]) -> Keeper {
    let mut keeper = keeper(sets, &Keeping::Node { copies: 2 });
    keeper.copy_elsewhere(of_node(0, 7));
    keeper.start().unwrap();
    keeper
}

fn copy_to(keeper: &mut Keeper, epoch: u64, store: &CopyStore) {
    let address = store.address().to_owned();
    keeper.copy_to(Target { epoch, node: 1, address }).unwrap();
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
    keeper.copy_to(nowhere).unwrap();
    assert_eq!(news(&mut keeper), CopyNews::Copied { epoch: 2 });
    assert!(soon(|| stable(&keeper, 0) > 0));
    kill(&mut of_keeper);
}
