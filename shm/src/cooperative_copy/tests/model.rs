//! All interleavings of a reader and an owner. Pieces are loom cells: moving one twice, or looking
//! at one that is still being moved, is a race that loom reports.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

struct Buffer {
    cell: Cell,
    pieces: Vec<UnsafeCell<u32>>,
}

impl Buffer {
    fn of(pieces: usize) -> Arc<Buffer> {
        Arc::new(Buffer { cell: cell(), pieces: (0..pieces).map(|_| UnsafeCell::new(0)).collect() })
    }

    fn len(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    fn fill(&self, offset: u64) -> Result<(), Fault> {
        // SAFETY: loom checks that no one else touches the piece.
        self.pieces[(offset / PIECE) as usize].with_mut(|piece| unsafe { *piece += 1 });
        Ok(())
    }

    fn touch(&self, offset: u64) {
        self.pieces[(offset / PIECE) as usize].with_mut(|_| ());
    }

    fn counts(&self) -> Vec<u32> {
        // SAFETY: as in `fill`.
        self.pieces.iter().map(|piece| piece.with(|piece| unsafe { *piece })).collect()
    }
}

fn pull_all(pull: &mut Pull, buffer: &Buffer) -> Result<(), PullError> {
    loop {
        match pull.step(&buffer.cell, |offset, _| buffer.fill(offset))? {
            Step::Moved => {}
            Step::Waiting => thread::yield_now(),
            Step::Done => return Ok(()),
        }
    }
}

fn push_all(push: &mut Push, buffer: &Buffer) {
    while push.step(&buffer.cell, |offset, _| buffer.fill(offset)) == Ok(PushStep::Moved) {}
}

/// An owner that takes part in get 1 as long as it can.
fn owner_of(buffer: &Arc<Buffer>) -> thread::JoinHandle<()> {
    let buffer = buffer.clone();
    thread::spawn(move || push_all(&mut Push::new(1, buffer.len()), &buffer))
}

#[test]
fn loom_assist_moves_every_piece_once_and_is_not_done_early() {
    loom::model(|| {
        let buffer = Buffer::of(3);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = owner_of(&buffer);
        assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        assert_eq!(buffer.counts(), [1, 1, 1]);
        owner.join().unwrap();
    });
}

#[test]
fn loom_assist_a_late_owner_leaves_the_next_get_alone() {
    loom::model(|| {
        let buffer = Buffer::of(2);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = owner_of(&buffer);
        assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        // The next get is into the same memory; the owner was not asked to help.
        let mut pull = Pull::start(&buffer.cell, 2, buffer.len());
        assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        assert_eq!(buffer.counts(), [2, 2]);
        owner.join().unwrap();
    });
}

#[test]
fn loom_assist_what_the_owner_could_not_move_is_moved_by_the_reader() {
    loom::model(|| {
        let buffer = Buffer::of(3);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = buffer.clone();
        let owner = thread::spawn(move || {
            let mut push = Push::new(1, owner.len());
            let first = push.step(&owner.cell, |offset, _| owner.fill(offset));
            if first == Ok(PushStep::Moved) {
                // A move that fails may have written a part of its piece.
                let _ = push.step(&owner.cell, |offset, _| {
                    owner.touch(offset);
                    Err(trouble())
                });
                let after = push.step(&owner.cell, |offset, _| owner.fill(offset));
                assert_eq!(after, Ok(PushStep::Over));
            }
        });
        assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        assert_eq!(buffer.counts(), [1, 1, 1]);
        owner.join().unwrap();
    });
}

#[test]
fn loom_assist_a_stopped_get_ends_when_the_owner_touches_nothing_more() {
    loom::model(|| {
        let buffer = Buffer::of(2);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = owner_of(&buffer);
        pull.stop(&buffer.cell);
        assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        assert!(buffer.counts().iter().all(|&moved| moved <= 1));
        owner.join().unwrap();
    });
}

#[test]
fn loom_assist_a_failed_get_ends_when_the_owner_touches_nothing_more() {
    loom::model(|| {
        let buffer = Buffer::of(2);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = owner_of(&buffer);
        let mut tried = false;
        let end = loop {
            let step = pull.step(&buffer.cell, |_, _| {
                tried = true;
                Err(trouble())
            });
            match step {
                Ok(Step::Waiting) => thread::yield_now(),
                Ok(Step::Moved) => unreachable!("every move fails"),
                end => break end,
            }
        };
        assert_eq!(end, if tried { Err(PullError::Move(trouble())) } else { Ok(Step::Done) });
        assert!(buffer.counts().iter().all(|&moved| moved <= 1));
        owner.join().unwrap();
    });
}

#[test]
fn loom_assist_a_dead_owners_piece_is_read_again() {
    loom::model(|| {
        let buffer = Buffer::of(2);
        let mut pull = Pull::start(&buffer.cell, 1, buffer.len());
        let owner = buffer.clone();
        // Dies between taking and moving.
        let owner = thread::spawn(move || Push::new(1, owner.len()).take(&owner.cell));
        let died = loop {
            match pull.step(&buffer.cell, |offset, _| buffer.fill(offset)).unwrap() {
                Step::Moved => {}
                Step::Waiting => break true,
                Step::Done => break false,
            }
        };
        let taken = owner.join().unwrap();
        assert_eq!(died, taken.is_some());
        if died {
            pull.owner_died();
            assert_eq!(pull_all(&mut pull, &buffer), Ok(()));
        }
        assert_eq!(buffer.counts(), [1, 1]);
    });
}
