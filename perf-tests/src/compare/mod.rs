//! The `compare` command: Taffrail, every other transport on the machine and the machine's own
//! limits, measured in turn, so that they see the same minutes.

mod command;
mod results;
mod table;
mod targets;

pub use command::Compare;
pub use results::{Results, Row, What, rows};
pub use targets::judge;
