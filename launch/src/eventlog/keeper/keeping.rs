//! Where events are kept.

use crate::eventlog::packet::Packet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use taffrail_logging::store::Durability;

/// Where events are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In memory that the [`Keeper`](super::Keeper) holds.
    Process,
    /// In this folder.
    Disk(PathBuf),
    /// In the memory of so many loggers, each of which has everything.
    Node {
        /// How many: 1 to 8.
        copies: u32,
    },
}

/// Each of the loggers behind the first copies to another node, which it proves the job's secret to.
#[derive(Debug)]
pub struct Elsewhere {
    /// The secret, in a file.
    pub secret: OwnedFd,
    /// Where a listener of this node counts what it refuses: a file that
    /// [`RefusedMemory`](taffrail_agent::client::memory::RefusedMemory) has made.
    pub refused: OwnedFd,
    /// The number of this node.
    pub node: u32,
    /// How many nodes there are.
    pub nodes: u32,
}

impl Elsewhere {
    /// Who it is, for a process that copies or keeps copies of the job with this digest, with the descriptors for it.
    pub(in crate::eventlog) fn introduction(&self, job: u64) -> (Packet, [BorrowedFd<'_>; 2]) {
        let packet = Packet::Secret { node: self.node, job, nodes: self.nodes };
        (packet, [self.secret.as_fd(), self.refused.as_fd()])
    }
}

/// Where it copies to: the number of the order, the node, and the address of its copy store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The number of the order.
    pub epoch: u64,
    /// The node.
    pub node: u32,
    /// The address and port; empty for none.
    pub address: String,
}

/// All events of a rank.
#[derive(Debug)]
pub struct Download {
    /// A packed store, which nobody can change.
    pub file: OwnedFd,
    /// How many they are.
    pub count: u64,
}

impl Keeping {
    /// In the words of rings.
    pub(super) fn durability(&self) -> Durability {
        match *self {
            Keeping::Process => Durability::Process,
            Keeping::Disk(_) => Durability::Disk,
            Keeping::Node { copies } => Durability::Node { copies },
        }
    }
}
