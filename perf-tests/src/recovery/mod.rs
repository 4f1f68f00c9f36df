//! What failures cost: the `faults` command runs an application some of whose ranks are killed, the
//! `recovery` command runs many of them.

mod command;
mod faults;
mod life;
mod results;
mod table;
mod targets;

pub use command::Recovery;
pub use faults::{Faults, Kill};
pub(crate) use life::Cost;
pub use life::Life;
