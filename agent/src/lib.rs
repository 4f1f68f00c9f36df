//! The protocol between the launcher of a job and the agents on its nodes (`docs/spec/agent.md`): frames, leases,
//! the roster, placement, and both ends as state machines without I/O and without a clock.
//!
//! - [`wire`]: the frames and their codec.
//! - [`Agent`]: what an agent does: starts ranks while its lease holds, ends them when it does not.
//! - [`Launcher`]: what the launcher does: places ranks, grants leases, publishes the roster, starts ranks elsewhere.
//! - [`lease`]: who may do what when, each end on its own clock.
//! - [`roster`]: who of the job lives, as a table and as words of memory that ranks map.
//! - [`network`]: which network ranks use between nodes.
//! - [`hosts`], [`place`], [`sets`]: where ranks run and fall back to.
//!
//! - `client` (feature of that name): what a rank reads of its job over nodes, and the memory behind it.
//!
//! Inputs and outputs are plain values: the command, the simulator and the tests drive the same code.

#![deny(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
mod mutant;

pub mod agent;
#[cfg(all(feature = "client", not(loom)))]
pub mod client;
pub mod hosts;
pub mod launcher;
pub mod lease;
pub mod network;
pub mod place;
pub mod roster;
mod secret;
pub mod sets;
mod sync;
pub mod wire;

#[cfg(all(test, not(loom)))]
mod sim;

pub use agent::Agent;
pub use launcher::Launcher;
pub use secret::Secret;
pub use taffrail_fabric::Incarnation;

/// The number of a node of a job: 0 for the first host.
pub type NodeId = u16;

/// Most nodes of a job.
pub const NODES_MAX: usize = 1024;

/// Most ranks of a job.
pub const RANKS_MAX: usize = 4096;

/// Most values that one life of a rank may put.
pub const VALUES_MAX: u32 = 4096;

/// One life of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankIncarnation {
    /// The rank.
    pub rank: u32,
    /// Which start of it.
    pub incarnation: Incarnation,
}

impl RankIncarnation {
    /// Incarnation `incarnation` of rank `rank`.
    pub fn new(rank: u32, incarnation: u32) -> Self {
        RankIncarnation { rank, incarnation: Incarnation(incarnation) }
    }
}

impl std::fmt::Display for RankIncarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, incarnation {}", self.rank, self.incarnation.0)
    }
}
