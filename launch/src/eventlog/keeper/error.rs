//! Why the events of ranks cannot be kept, or not be had.

use crate::eventlog::channel::ChannelError;
use crate::eventlog::packet::Told;
use std::io::Error;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use taffrail_logging::store::{FileError, MemoryError};

/// Why the events of ranks cannot be kept, or not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// There is no memory for rings or stores.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The logger cannot be started.
    #[error("cannot start the event logger {program}: {error}")]
    Start {
        /// Its program.
        program: PathBuf,
        /// The error of the operating system.
        error: Error,
    },
    /// The logger has ended by itself while it was started; starting it again does not help.
    #[error("the event logger ended with {0}; it has said why on standard error")]
    Ended(ExitStatus),
    /// The connection to the logger is broken. After [`ChannelError::Closed`] it can be started again.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The logger has refused; starting it again does not help.
    #[error(transparent)]
    Refused(Told),
    /// The process does not answer, and counts as gone.
    #[error("process {pid} has neither answered nor used a processor for {} s (was it stopped?)", .patience.as_secs_f32())]
    Silent {
        /// Its number.
        pid: i32,
        /// For how long.
        patience: Duration,
    },
    /// The answer is not there yet. The same is to be tried again later, when there is news.
    #[error("there is no answer yet")]
    Unanswered,
    /// No logger is left that has the events.
    #[error(
        "all {copies} event loggers are gone, and what they had with them: no rank can be started again"
    )]
    Lost {
        /// How many there were.
        copies: u32,
    },
    /// What the logger has handed out is not as it should be.
    #[error(transparent)]
    Events(#[from] FileError),
    /// A file that the logger has handed out cannot be read.
    #[error("cannot read events that the event logger handed out: {0}")]
    Read(Error),
}
