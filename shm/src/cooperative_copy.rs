//! A get that both sides move: the reader pulls pieces from the front, the owner of the memory
//! pushes pieces from the back. `docs/wire.md`, section 4.
//!
//! Both halves are state machines that move at most one piece in a step; how bytes are moved is
//! the caller's business. Every word carries the get's serial number, so that a late owner can neither take
//! a piece of the next get nor be believed to have finished one.

use taffrail_fabric::Fault;

use crate::sync::{AtomicU64, Ordering};

/// A piece's length in bytes; doubled until a get has no more pieces than can be counted.
const PIECE: u64 = 128 << 10;
const MAX_PIECES: u64 = u16::MAX as u64;

/// Where the two sides meet. All zeros is the cell before the first get.
#[repr(C)]
pub(crate) struct Cell {
    /// `serial << 32 | back << 16 | front`: pieces taken from either end.
    taken: AtomicU64,
    /// `serial << 32 | pieces`: how many of its pieces the owner has finished.
    finished: AtomicU64,
    /// The serial of the get in which the owner's copy has failed.
    refused: AtomicU64,
}

#[cfg(not(loom))]
impl Cell {
    /// The cell at `at`.
    ///
    /// # Safety
    /// 24 bytes at `at`, aligned to 8, stay mapped for `'a`, and are only used as a cell.
    pub unsafe fn at<'a>(at: *mut u8) -> &'a Cell {
        debug_assert!(at.cast::<Cell>().is_aligned());
        // SAFETY: the caller's promise; atomics may be shared with other writers.
        unsafe { &*at.cast::<Cell>() }
    }
}

/// How a step of the reader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A piece was moved; there may be more.
    Moved,
    /// Only pieces that the owner has taken are left: do something else, then step again.
    Waiting,
    /// All bytes are there (or the get was [stopped](Pull::stop)), and the owner does not touch the
    /// memory any more.
    Done,
}

/// Why a get ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PullError {
    /// A piece could not be moved. The owner does not touch the memory any more.
    Move(Fault),
    /// The cell holds what no owner writes: the peer must be cut off.
    Protocol(Fault),
}

/// The reader's side of a get.
#[derive(Debug)]
pub(crate) struct Pull {
    serial: u32,
    pieces: Pieces,
    /// Pieces taken from the front, as stored in the cell.
    front: u64,
    /// Pieces taken and finished by the owner, as last seen.
    back: u64,
    finished: u64,
    /// Pieces of the owner's that were read again here.
    again: u64,
    stopped: bool,
    owner_is_dead: bool,
    failure: Option<Fault>,
}

impl Pull {
    /// Begins get number `serial` of `len` bytes; the owner may be asked to help from now on.
    ///
    /// Serials count up from 1 in each cell (0 is skipped when they wrap), and a cell holds one get
    /// at a time: the one before has ended.
    pub fn start(cell: &Cell, serial: u32, len: u64) -> Self {
        debug_assert!(serial != 0, "serial 0 is the empty cell");
        cell.taken.store(Taken { serial, front: 0, back: 0 }.pack(), Ordering::Release);
        Pull {
            serial,
            pieces: Pieces::of(len),
            front: 0,
            back: 0,
            finished: 0,
            again: 0,
            stopped: false,
            owner_is_dead: false,
            failure: None,
        }
    }

    /// Moves the next piece with `move_piece(offset, length)`, both in bytes, if there is one.
    ///
    /// # Errors
    /// [`PullError`]; the get has ended then, and is not to be stepped again.
    pub fn step<E: Into<Fault>>(
        &mut self,
        cell: &Cell,
        move_piece: impl FnOnce(u64, usize) -> Result<(), E>,
    ) -> Result<Step, PullError> {
        let protocol = |bad| {
            cell.taken.store(0, Ordering::Release);
            PullError::Protocol(bad)
        };
        if let Some(index) = self.take(cell).map_err(protocol)? {
            return Ok(self.do_move(cell, index, move_piece));
        }
        let owner_is_gone = self.look_at_owner(cell).map_err(protocol)?;
        if self.finished + self.again < self.back && !self.is_ended() {
            if !owner_is_gone {
                return Ok(Step::Waiting);
            }
            let index = self.pieces.count - 1 - (self.finished + self.again);
            self.again += 1;
            return Ok(self.do_move(cell, index, move_piece));
        }
        if self.finished < self.back && !owner_is_gone {
            return Ok(Step::Waiting);
        }
        match self.failure.take() {
            Some(error) => Err(PullError::Move(error)),
            None => Ok(Step::Done),
        }
    }

    /// The owner's process is known to have ended: what it took and did not finish is read again,
    /// which works if its memory can still be reached, and fails otherwise.
    pub fn owner_died(&mut self) {
        self.owner_is_dead = true;
    }

    /// Lets neither side take more pieces. The get ends when the owner has finished its current piece.
    pub fn stop(&mut self, cell: &Cell) {
        self.stopped = true;
        // What this finds wrong, the next step finds, too.
        let _ = self.close(cell);
    }

    fn is_ended(&self) -> bool {
        self.stopped || self.failure.is_some()
    }

    fn do_move<E: Into<Fault>>(
        &mut self,
        cell: &Cell,
        index: u64,
        move_piece: impl FnOnce(u64, usize) -> Result<(), E>,
    ) -> Step {
        let (offset, len) = self.pieces.range(index);
        if let Err(error) = move_piece(offset, len) {
            self.failure = Some(error.into());
            let _ = self.close(cell);
            return Step::Waiting;
        }
        Step::Moved
    }

    /// Takes a piece from the front, if one is left.
    fn take(&mut self, cell: &Cell) -> Result<Option<u64>, Fault> {
        loop {
            let taken = self.look(cell)?;
            if taken.front + taken.back == self.pieces.count {
                return Ok(None);
            }
            let next = Taken { front: taken.front + 1, ..taken };
            if exchange(cell, taken, next) {
                self.front = next.front;
                return Ok(Some(taken.front));
            }
        }
    }

    /// Takes all pieces that are left, without moving them.
    fn close(&mut self, cell: &Cell) -> Result<(), Fault> {
        loop {
            let taken = self.look(cell)?;
            let next = Taken { front: self.pieces.count - taken.back, ..taken };
            if exchange(cell, taken, next) {
                self.front = next.front;
                return Ok(());
            }
        }
    }

    /// What is taken, if it can be true: the owner adds to `back`, and to nothing else.
    fn look(&mut self, cell: &Cell) -> Result<Taken, Fault> {
        let taken = Taken::unpack(cell.taken.load(Ordering::Acquire));
        let fits = taken.serial == self.serial
            && taken.front == self.front
            && (self.back..=self.pieces.count - self.front).contains(&taken.back);
        if !fits {
            return Err(Fault::Protocol {
                place: "assist, taken",
                expected: format!(
                    "serial {}, front {}, back {} to {}",
                    self.serial,
                    self.front,
                    self.back,
                    self.pieces.count - self.front
                ),
                got: format!("serial {}, front {}, back {}", taken.serial, taken.front, taken.back),
            });
        }
        self.back = taken.back;
        Ok(taken)
    }

    /// Reads the owner's progress, and returns whether the owner has stopped.
    fn look_at_owner(&mut self, cell: &Cell) -> Result<bool, Fault> {
        // First whether it refused: it counts what it finished before it says so.
        let refused = cell.refused.load(Ordering::Acquire) == u64::from(self.serial);
        let word = cell.finished.load(Ordering::Acquire);
        let finished = if word >> 32 == u64::from(self.serial) { word & 0xffff_ffff } else { 0 };
        if !(self.finished..=self.back).contains(&finished) {
            return Err(Fault::Protocol {
                place: "assist, finished",
                expected: format!("{} to {}", self.finished, self.back),
                got: finished.to_string(),
            });
        }
        if self.again == 0 {
            self.finished = finished;
        }
        Ok(refused || self.owner_is_dead)
    }
}

/// How a step of the owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushStep {
    /// A piece was moved; there may be more.
    Moved,
    /// Nothing is left to take, or the get is over.
    Over,
}

/// The owner's side of a get.
#[derive(Debug)]
pub(crate) struct Push {
    serial: u32,
    pieces: Pieces,
    front: u64,
    back: u64,
    is_over: bool,
}

impl Push {
    /// Joins get number `serial` of `len` bytes.
    pub fn new(serial: u32, len: u64) -> Self {
        Push { serial, pieces: Pieces::of(len), front: 0, back: 0, is_over: serial == 0 }
    }

    /// Moves the next piece with `move_piece(offset, length)`, both in bytes, if there is one.
    ///
    /// # Errors
    /// What `move_piece` returned. The reader then moves that piece itself, and this side is over.
    pub fn step<E>(
        &mut self,
        cell: &Cell,
        move_piece: impl FnOnce(u64, usize) -> Result<(), E>,
    ) -> Result<PushStep, E> {
        let Some(index) = self.take(cell) else {
            self.is_over = true;
            return Ok(PushStep::Over);
        };
        let (offset, len) = self.pieces.range(index);
        match move_piece(offset, len) {
            Ok(()) => {
                let finished = u64::from(self.serial) << 32 | self.back;
                cell.finished.store(finished, Ordering::Release);
                Ok(PushStep::Moved)
            }
            Err(error) => {
                self.is_over = true;
                cell.refused.store(u64::from(self.serial), Ordering::Release);
                Err(error)
            }
        }
    }

    /// Takes a piece from the back, if one is left. A reader can write anything into the cell; what
    /// it cannot do is make this side take more pieces than there are.
    fn take(&mut self, cell: &Cell) -> Option<u64> {
        while !self.is_over {
            let taken = Taken::unpack(cell.taken.load(Ordering::Acquire));
            let fits = taken.serial == self.serial
                && taken.back == self.back
                && taken.front >= self.front
                && taken.front + taken.back < self.pieces.count;
            if !fits {
                return None;
            }
            self.front = taken.front;
            if exchange(cell, taken, Taken { back: taken.back + 1, ..taken }) {
                self.back += 1;
                return Some(self.pieces.count - self.back);
            }
        }
        None
    }
}

/// The word `taken`, in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    serial: u32,
    front: u64,
    back: u64,
}

impl Taken {
    fn unpack(word: u64) -> Self {
        Taken { serial: (word >> 32) as u32, front: word & 0xffff, back: word >> 16 & 0xffff }
    }

    fn pack(self) -> u64 {
        u64::from(self.serial) << 32 | self.back << 16 | self.front
    }
}

fn exchange(cell: &Cell, from: Taken, to: Taken) -> bool {
    cell.taken.compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// How a get is cut; both sides compute the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    len: u64,
    piece: u64,
    count: u64,
}

impl Pieces {
    fn of(len: u64) -> Self {
        let mut piece = PIECE;
        while len.div_ceil(piece) > MAX_PIECES {
            piece *= 2;
        }
        Pieces { len, piece, count: len.div_ceil(piece) }
    }

    /// Offset and length of a piece in bytes.
    fn range(self, index: u64) -> (u64, usize) {
        let offset = index * self.piece;
        (offset, (self.len - offset).min(self.piece) as usize)
    }
}

#[cfg(test)]
mod tests;
