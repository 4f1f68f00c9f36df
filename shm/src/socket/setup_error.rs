//! Why a set of processes could not be connected.

use std::time::Duration;
use taffrail_fabric::words::numbered;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use taffrail_fabric::{Denied, Fault, MemoryError};

use super::packet::Malformed;
use crate::memory::OpenError;

/// Why a set of processes could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The list of addresses does not fit the job.
    #[error("rank {rank} of {ranks} ranks was given {got} addresses; one for each rank is needed")]
    Addresses {
        /// The own rank.
        rank: u32,
        /// Ranks in the job.
        ranks: u32,
        /// Addresses given.
        got: usize,
    },
    /// Nobody of the own user listens at a peer's address.
    #[error(
        "rank {rank} cannot be reached at {address:?}: {why}; look whether its process ended, and \
         whether both run as one user in one network namespace (containers: --network=host)"
    )]
    Unreachable {
        /// The peer.
        rank: u32,
        /// The address published for it.
        address: String,
        /// What the system said.
        why: String,
    },
    /// A peer hung up instead of answering.
    #[error(
        "rank {rank} closed the connection instead of answering; it ended, or its own log says why \
         it refused (another job, another version)"
    )]
    HungUp {
        /// The peer.
        rank: u32,
    },
    /// A peer answered with what does not fit.
    #[error("rank {rank} sent a wrong answer: {bad}")]
    WrongAnswer {
        /// The peer.
        rank: u32,
        /// The field that is wrong.
        bad: Malformed,
    },
    /// The time is over and peers are missing.
    #[error("{} did not appear within {waited:?}{}", numbered("rank", .ranks), refused_text(.refused))]
    Missing {
        /// The peers that are missing.
        ranks: Vec<u32>,
        /// How long they were waited for.
        waited: Duration,
        /// Processes that connected and were refused, each with the reason.
        refused: Vec<String>,
    },
    /// Waiting longer for peers makes no sense.
    #[error("{0}")]
    Hopeless(String),
    /// The setup was made for another kind of job.
    #[error("this was set up as {is}, so it cannot become {wanted} (Config.open)")]
    Kind {
        /// What it is.
        is: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Another process listens under the name that was to be this one's.
    #[error(
        "another process still listens as {name:?} after {waited:?}; look whether the rank's process \
         before this one has ended, and all that it had forked"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// An address or a name is none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// More files would have to be open than may be.
    #[error(
        "too many open files: {limit} may be open in this process, and each rank of a node needs \
         about 5; raise the limit (ulimit -n)"
    )]
    Descriptors {
        /// The limit of open files, as text.
        limit: String,
    },
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Something is not to be had on this machine.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A peer's memory cannot be used.
    #[error("the memory that rank {rank} sent cannot be used: {fault}")]
    PeerMemory {
        /// The rank of the memory.
        rank: u32,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The operating system refused.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

impl SetupError {
    /// What rank `rank` has sent cannot be mapped.
    pub(crate) fn open(rank: u32, error: OpenError) -> Self {
        match error {
            OpenError::Os { call, errno } => SetupError::from_os(call, errno),
            OpenError::NoAddressSpace(short) => SetupError::Memory(short),
            other => SetupError::PeerMemory { rank, fault: other.into() },
        }
    }

    /// The error for peers that cannot be watched.
    pub(crate) fn watch(error: std::io::Error) -> Self {
        SetupError::from_os("epoll", Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    pub(super) fn from_os(call: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::MFILE | Errno::NFILE => SetupError::descriptors(),
            _ => SetupError::Os { call, errno },
        }
    }

    pub(crate) fn descriptors() -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        SetupError::Descriptors {
            limit: limit.map_or_else(|| "no limit on what".into(), |limit| limit.to_string()),
        }
    }
}

fn refused_text(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; refused: {}", refused.join(", ")) }
}
