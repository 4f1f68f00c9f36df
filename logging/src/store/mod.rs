//! Where events are kept: the ring that a rank writes them to, the files that the event logger empties
//! it into, and the logger between the two. And what else outlives a rank that is killed: its checkpoints,
//! and where its payload log is.
//!
//! `docs/logging.md`, sections 8 to 10, has the formats and what each durability promises. The memory
//! of rings and stores belongs to somebody who outlives the logger, so that a logger that was killed
//! is replaced by another that goes on where it stopped.

mod batch;
#[cfg(not(loom))]
mod cuts;
#[cfg(not(loom))]
mod disk;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod ledger;
#[cfg(not(loom))]
mod logger;
#[cfg(not(loom))]
mod memory;
#[cfg(all(test, loom))]
mod model;
mod moment;
#[cfg(not(loom))]
mod packed;
#[cfg(not(loom))]
mod places;
mod ring;
#[cfg(not(loom))]
mod spill;
mod sync;
#[cfg(not(loom))]
mod vault;

pub use batch::Batch;
#[cfg(not(loom))]
pub use cuts::CutFileError;
#[cfg(not(loom))]
pub use disk::{CommitError, Disk};
#[cfg(not(loom))]
pub use file::{Behind, FILE_HEADER, FileError, Owner, file_header, read_events};
#[cfg(not(loom))]
pub use ledger::{CopyError, LedgerError};
#[cfg(not(loom))]
pub use logger::{Logger, Report, ServeError, Served, Turn};
#[cfg(not(loom))]
pub use memory::{Memory, MemoryError, create_memory, empty_memory};
#[cfg(not(loom))]
pub use packed::{BlockError, Unpacked, packed_header};
#[cfg(not(loom))]
pub use places::{Left, Place, Places};
pub use ring::{
    Durability, Full, MOST_COPIES, RingError, RingReader, RingShape, RingView, RingWriter, Words,
    left, told,
};
#[cfg(not(loom))]
pub use spill::Spill;
#[cfg(not(loom))]
pub use vault::{Committed, Summary, Vault, VaultError};
