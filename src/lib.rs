//! Taffrail: tagged messages between the processes of a job, over shared memory.

#![warn(missing_docs)]

pub mod collectives;
mod endpoint;
mod error;
mod job;
mod names;
#[doc(hidden)]
pub mod pmi;

pub use endpoint::{AmMessage, Endpoint, Scope, Settings};
pub use error::Error;
pub use job::Job;
pub use names::{Dest, Pattern, Rank, Request, Status};
pub use taffrail_fabric::{Denied, Fault, MemoryError};

/// Contexts `0..CONTEXTS` are the user's; the rest is the library's own.
pub const CONTEXTS: u16 = 0xff00;
