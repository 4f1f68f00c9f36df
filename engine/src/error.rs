//! What an operation can fail with: what was expected, what was there, what to do.

use crate::{Data, Rank, Request};
use taffrail_fabric::words::counted;
use taffrail_fabric::{Denied, Fault, MemoryError};

/// Why a call has done nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// It needs the end of a read or write of the file of the log, or peers that read from what the log gave up: it is to be made
    /// again, after some progress.
    Waits,
    /// It has failed.
    Failed(Error),
}

impl From<Error> for NotNow {
    fn from(error: Error) -> Self {
        NotNow::Failed(error)
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer of the operation is gone.
    #[error("rank {rank} failed: {fault}")]
    PeerFailed {
        /// The rank that failed.
        rank: Rank,
        /// What became of it.
        fault: Fault,
    },
    /// The message was longer than the receive; the first `room` bytes were delivered.
    #[error(
        "message of {} from rank {source_rank} truncated: the receive has {}",
        counted(*.len, "byte"),
        counted(*.room, "byte")
    )]
    Truncated {
        /// Length of the message.
        len: usize,
        /// Length of the receive.
        room: usize,
        /// The sender.
        source_rank: Rank,
        /// The tag of the message.
        tag: u64,
        /// The number beside its payload.
        data: Data,
    },
    /// Ranks called a collective operation with different lengths.
    #[error(
        "rank {source_rank} brought {} to a collective operation, this rank expected {expected}; every rank \
         must pass the same length",
        counted(*.got, "byte")
    )]
    Uneven {
        /// Bytes this rank's slice calls for.
        expected: usize,
        /// Bytes that came.
        got: usize,
        /// Where they came from.
        source_rank: Rank,
    },
    /// The operation was cancelled.
    #[error("the operation was cancelled")]
    Cancelled,
    /// No such rank in this job.
    #[error("no rank {rank} in a job of {size}")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many there are.
        size: u32,
    },
    /// The request was finished before, or never was.
    #[error("{0:?} is finished already; a request is used up by the call that returns its result")]
    StaleRequest(Request),
    /// The endpoint was opened by a process that has forked since, and this is the child.
    #[error("this endpoint belongs to the parent of this forked process; open one of your own")]
    UsedAfterFork,
    /// The payload of an active message is longer than such may be.
    #[error("payload of {}; an active message holds {limit}: send the rest as a message",
        counted(*.got, "byte")
    )]
    TooLong {
        /// Bytes asked for.
        got: usize,
        /// Bytes possible.
        limit: usize,
    },
    /// Memory could not be registered, allocated or found.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A way of moving bytes is not to be had.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The job's messages are logged, and this cannot be.
    #[error("{what} cannot be logged and replayed: {remedy}")]
    NotLogged {
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A checkpoint was to be taken, and something is under way that it cannot hold.
    #[error("no checkpoint can be taken: {what}; wait for it, or receive it, before")]
    Pending {
        /// What is under way.
        what: String,
    },
    /// A program that was started again does something else than before.
    #[error(
        "the replay has come to {call}, and the log says {log}: the program is not determined by its \
         messages (does it look at the clock, at random numbers, or at how much progress was made?)"
    )]
    Diverged {
        /// What the program does now.
        call: &'static str,
        /// What the log has.
        log: String,
    },
    /// A setting in the environment makes no sense.
    #[error("{name}={got}: expected {expected}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What would have been right.
        expected: String,
        /// What was there.
        got: String,
    },
    /// What was measured of this host cannot be used.
    #[error(
        "{}: {key}: {why}; measure again with `taffrail-perf tune`, or go without \
         (TAFFRAIL_TUNING=off)",
        file.display()
    )]
    Tuning {
        /// The file.
        file: std::path::PathBuf,
        /// The key in it that is wrong.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// There is no way to an endpoint.
    #[error("no way to {address:?}: {why}")]
    Unreachable {
        /// Its address, as it was given.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// The start-up exchange with the launcher failed.
    #[error("start-up of the job failed: {0}")]
    Bootstrap(String),
    /// The transport could not be set up.
    #[error("set-up of the transport failed: {0}")]
    Setup(String),
}

/// The fault of a peer that does not keep the protocol.
pub(crate) fn broken(place: &'static str, expected: impl ToString, got: impl ToString) -> Fault {
    Fault::Protocol { place, expected: expected.to_string(), got: got.to_string() }
}
