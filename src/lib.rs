//! Taffrail: tagged messages between the processes of a job, over lock-free shared memory.
//!
//! A program joins a [`Job`] and opens an [`Endpoint`]; the endpoint sends and receives messages
//! that are named by rank, context and tag ([`Dest`], [`Pattern`]). Started by `taffrail run`, by an
//! MPI launcher that speaks PMI-1, or alone.
//!
//! - Blocking: [`Endpoint::send`], [`Endpoint::recv`] and their like.
//! - Non-blocking: [`Endpoint::scope`] on borrowed buffers; `*_raw` calls on pointers, for runtimes.
//! - With a completion queue: [`Endpoint::report`], [`Endpoint::next_ended`].
//! - Without copies: [`Endpoint::alloc`], [`Endpoint::loan`], [`Endpoint::recv_view`].
//! - One-sided: [`Endpoint::register`], [`Endpoint::get`], [`Endpoint::put`].
//! - Active messages: [`Endpoint::send_am`], [`Endpoint::on_am`].
//! - [`collectives`] on top of these.
//!
//! Nothing happens behind the program's back: no thread, no signal handler, no memory hook.
//! Progress is made in calls.

#![warn(missing_docs)]

pub mod collectives;
mod endpoint;
#[doc(hidden)]
pub mod environment;
mod explain;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod job;
mod job_fabric;
mod nodes;
#[doc(hidden)]
pub mod pmi;
mod scope;
mod settings;
mod spin;
mod tuning;
pub mod units;
mod wait;
#[doc(hidden)]
pub mod words;

use taffrail_engine as engine;

pub use endpoint::{Endpoint, Transport};
pub use engine::CONTEXTS;
pub use engine::Error;
pub use engine::active::AmMessage;
pub use engine::claim::Claimed;
pub use engine::loan::Buffer;
pub use engine::memory::Access;
pub use engine::multi::Landed;
pub use engine::one_sided::RemoteMemory;
#[doc(hidden)]
pub use engine::rendezvous_path::RndvPath as Way;
pub use engine::request::Completion;
pub use engine::view::View;
pub use engine::{Atomic, AtomicOp, AtomicType};
pub use engine::{Data, Dest, Pattern, Rank, Request, Status};
pub use engine::{Ended, Over};
pub use job::Job;
pub use job_fabric::JobFabric;
pub use scope::Scope;
pub use settings::Settings;
pub use taffrail_fabric::{Denied, Fault, MemoryError, RegionId};
pub use taffrail_logging::causal::Counters;
pub use tuning::{Announced, Tuning};
