//! Two fabrics as one: a near one for the ranks of this node, a far one for all others.
//!
//! [`Composite`] knows no fabric by its type. It has a route for each rank; every call that concerns a peer goes to the
//! fabric of the peer's route, and what the two fabrics report goes to one sink, under the ranks of the job.
//! `docs/spec/seam.md` says what it promises beyond the contract of [`Fabric`](taffrail_fabric::Fabric).

#![warn(missing_docs)]

mod composite;
mod leases;
mod regions;
mod routes;
mod segments;
mod side;
mod turns;
mod wait;

mod mutant;
#[cfg(test)]
mod tests;

pub use composite::Composite;
pub use routes::{RouteError, SetupError};
