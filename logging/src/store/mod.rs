//! Where events are kept: the ring that a rank writes them to, the files that the event logger empties
//! it into, and the logger between the two. And what else outlives a rank that is killed: its checkpoints,
//! and where its payload log is.
//!
//! `docs/logging.md`, sections 8 to 10, has the formats and what each durability promises. The memory
//! of rings and stores belongs to somebody who outlives the logger, so that a logger that was killed
//! is replaced by another that resumes where it stopped.

mod batch;
#[cfg(not(loom))]
mod checkpoint_files;
mod copies;
#[cfg(not(loom))]
mod cuts;
#[cfg(not(loom))]
mod disk;
#[cfg_attr(loom, allow(dead_code))]
mod door;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod held;
#[cfg(not(loom))]
mod live_log;
#[cfg(not(loom))]
mod logger;
#[cfg(not(loom))]
mod memory;
#[cfg(all(test, loom))]
mod model;
#[cfg(not(loom))]
mod packed;
#[cfg(not(loom))]
mod rank_store;
mod ring;
#[cfg(not(loom))]
mod segment_map;
mod snapshot;
#[cfg(not(loom))]
mod spill;
mod sync;

pub use batch::Batch;
#[cfg(not(loom))]
pub use checkpoint_files::{
    Announcements, CheckpointError, CheckpointFiles, Committed, Extent, Summary, checkpoint_place,
};
pub use copies::{Copies, CopyStep};
#[cfg(not(loom))]
pub use cuts::CutFileError;
#[cfg(not(loom))]
pub use disk::{CommitError, Disk, Write};
#[cfg(not(loom))]
pub use file::{Behind, FILE_HEADER, FileError, Folder, Owner, file_header, hand_out, read_events};
#[cfg(not(loom))]
pub use group::Unkept;
#[cfg(not(loom))]
pub use held::{HeldError, HeldTable, create_held, read_held};
#[cfg(not(loom))]
pub use live_log::LiveLog;
#[cfg(not(loom))]
pub use logger::{Logger, Report, ServeError, Served, Turn};
#[cfg(not(loom))]
pub use memory::{Memory, MemoryError, create_memory, empty_memory};
#[cfg(not(loom))]
pub use packed::{BlockError, Unpacked, extend_packed, packed_header};
#[cfg(not(loom))]
pub use rank_store::{CopyError, LedgerError};
pub use ring::{
    Durability, Full, MAX_COPIES, RingError, RingReader, RingShape, RingView, RingWriter, Words,
    counters, left,
};
#[cfg(not(loom))]
pub use segment_map::{Left, Location, SegmentMap};
#[cfg(not(loom))]
pub use spill::{Ended, Spill};
