//! Taffrail between the processes of one node: lock-free rings over shared memory.
//!
//! Each process owns an *inbox* (a ring for each peer that writes to it) and an *outbox* (the
//! memory that long payloads leave from); the formats are in `docs/wire.md`. [`Setup`] makes a
//! [`ShmFabric`], which is the [`Fabric`](taffrail_fabric::Fabric).

#![warn(missing_docs)]
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
mod address_space;
#[cfg(not(loom))]
mod cma;
mod cooperative_copy;
#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod fork_guard;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod layout;
#[cfg(not(loom))]
mod liveness;
#[cfg(not(loom))]
mod loaned_mapping;
#[cfg(not(loom))]
mod log_segments;
mod mailbox;
#[cfg(not(loom))]
mod membarrier;
#[cfg(not(loom))]
mod memory;
#[cfg(all(test, loom))]
mod model;
#[cfg(not(loom))]
mod open;
mod outbox;
#[cfg(not(loom))]
mod pair;
#[cfg(not(loom))]
mod regions;
#[cfg(not(loom))]
mod rejoin;
mod ring;
#[cfg(not(loom))]
mod setup;
#[cfg(not(loom))]
mod shm_fabric;
#[cfg(not(loom))]
mod socket;
mod sync;
#[cfg(not(loom))]
mod transfer;
#[cfg(not(loom))]
mod wait;

#[cfg(not(loom))]
pub use address_space::place;
#[cfg(not(loom))]
pub use fork_guard::ForkGuard;
#[cfg(not(loom))]
pub use memory::{HUGE, fill_huge, try_huge_page};
#[cfg(not(loom))]
pub use open::CallError;
#[cfg(not(loom))]
pub use setup::{Config, Setup};
#[cfg(not(loom))]
pub use shm_fabric::{Costs, ShmFabric};
#[cfg(not(loom))]
pub use socket::{OnWait, SetupError};
