//! A network that does nothing by itself: the owner of the schedule chooses each next step.
//!
//! [`SimNet`] lists the [steps](Step) that are possible, and does the one that it is given: a message arrives, in part or
//! whole; bytes of a get move; the end of a send reaches its sender; a link breaks and comes up again; a process dies and
//! is started again. Between two steps nothing happens but what processes call. There is no clock and no chance in
//! it: a run is a function of its settings, its steps and its calls.
//!
//! Each process has a [`SimFabric`], with constants that its type has as parameters, and a [`SimRoster`]. What they promise is the contract
//! of `docs/spec/seam.md`, which the suite of `taffrail_fabric::conformance` checks; and within it they do all that one of
//! the fabrics does that we know of.

mod coverage;
mod handing;
mod leases;
mod links;
mod messages;
mod mutant;
mod net;
mod possible;
mod ram;
mod roster;
mod segments;
mod settings;
mod sim_fabric;
mod state;
mod step;
mod transfers;
mod watch;

pub use coverage::{Coverage, Situation};
pub use mutant::Mutant;
pub use net::SimNet;
pub use roster::SimRoster;
pub use settings::Settings;
pub use sim_fabric::SimFabric;
pub use state::Violation;
pub use step::{Amount, Step};
pub use watch::{Frame, Watch};
