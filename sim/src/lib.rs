//! Ranks that fail and are replayed, simulated: every run is a function of its seed.
//!
//! The real match engine and the real state machines of message logging, put together as an engine
//! does it ([`wiring`]), run programs over a simulated network and a simulated event logger. Chance
//! decides who does the next step, which connection brings something, when events become stable, and
//! what fails when: ranks and sets, also during recovery, connections, the event logger; and when a rank
//! that is a set by itself takes a checkpoint. After every
//! step the invariants of `docs/logging.md` are checked ([`oracle`]); no run may hang; and the results
//! are those of a run without failures.
//!
//! [`fabric`] is the network that the engine itself is to run on here; nothing of the above uses it yet
//! (`docs/spec/simulator.md`).
//!
//! A seed that fails is made smaller as long as it fails, and printed with its trace and the command
//! that runs it again.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod broken;
pub mod call;
pub mod case;
pub mod check;
pub mod fabric;
pub mod job;
pub mod logger;
pub mod network;
pub mod oracle;
pub mod wiring;
pub mod workload;
pub mod world;
