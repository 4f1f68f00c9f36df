//! The `logging` command: what logging messages costs, beside the same without, what the machine
//! allows and what Open MPI takes, measured in turn.

mod causal;
mod command;
mod results;
mod table;
mod targets;

pub use command::Logging;
pub use results::{Results, Row, What, rows};
pub use targets::judge;
