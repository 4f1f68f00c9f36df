//! Where events are kept: the ring that a rank writes them to, the file that the event logger empties
//! it into, and the logger between the two.
//!
//! `docs/logging.md`, sections 8 to 10, has the formats and what each durability promises. The memory
//! of rings and stores belongs to somebody who outlives the logger, so that a logger that was killed
//! is replaced by another that goes on where it stopped.

#[cfg(not(loom))]
mod disk;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod logger;
#[cfg(not(loom))]
mod memory;
#[cfg(all(test, loom))]
mod model;
mod ring;
mod sync;

#[cfg(not(loom))]
pub use disk::{CommitError, Disk, Write};
#[cfg(not(loom))]
pub use file::{Behind, EventFile, FILE_HEADER, FileError, Owner, file_header, read_events};
#[cfg(not(loom))]
pub use logger::{CopyError, Ledger, LedgerError, Logger, Report, Turn};
#[cfg(not(loom))]
pub use memory::{Memory, MemoryError, create_memory};
pub use ring::{Durability, Full, RingError, RingReader, RingShape, RingView, RingWriter, Words};
