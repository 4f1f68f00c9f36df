//! NetPIPE's measurement over Taffrail: its sizes, repetitions, buffers and output format.

mod buffers;
mod checkpoints;
mod command;
mod format;
mod run;
mod schedule;

pub use buffers::Buffers;
pub use checkpoints::Checkpoints;
pub use command::{Netpipe, Row};
pub use format::{file_line, integrity_file_line, line_end, line_start};
pub use run::{Mode, Trials, estimate, measure};
pub use schedule::{Point, RUN_SECONDS, STOP_SECONDS, Sizes, TRIALS, repetitions};
