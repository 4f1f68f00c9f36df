//! Ranks that fail and are replayed, simulated: every run is a function of its seed.
//!
//! The product's engine with its log runs programs ([`workload`]) over a simulated network ([`fabric`]), and the product's event
//! logger over a simulated disk ([`logger`]): a [`job`]. Chance decides what happens next: which connection brings something, when events become
//! stable, and what fails when: ranks and sets, also during recovery, links, and the event logger; and when a rank that is a set by
//! itself takes a checkpoint. The invariants of `docs/logging.md` are checked at every step; no run may hang; and the results
//! are those of a run without failures (`docs/spec/simulator.md`).
//!
//! A seed that fails is made smaller as long as it fails, and printed with its trace and the command
//! that runs it again ([`job::check`]).

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod broken;
pub mod call;
pub mod case;
pub mod copies;
pub mod fabric;
pub mod job;
pub mod logger;
pub mod numbers;
pub mod profile;
pub mod violation;
pub mod workload;
