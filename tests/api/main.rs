//! Calls of an endpoint, in jobs whose ranks are threads of this process.
//!
//! Most tests are written once, for any [`World`](world::World), and run over shared memory, over the loopback, and over
//! fabrics that make trouble within their contract. What only shared memory has is a plain test beside them.

mod common;
#[path = "../common/progress.rs"]
mod progress;
#[macro_use]
mod world;

mod active;
mod cancelling;
mod claims;
mod collectives;
mod conformance;
mod deaths;
mod finalizing;
mod flow;
mod fork;
mod loan_returns;
mod loans;
mod matching;
mod multi_receive;
mod one_sided;
mod open;
mod point_to_point;
mod random;
mod reporting;
mod requests;
mod waiting;
