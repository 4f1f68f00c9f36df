//! The `mpi` command: the same MPI program over its MPI's own transport and over Taffrail, with and
//! without logging, measured in turn; and the `mpi-kill` command: what a kill costs one.

mod command;
mod installed;
mod kills;
mod program;
mod results;
mod table;
mod targets;

pub use command::Mpi;
pub use installed::{Installed, Places};
pub use kills::MpiKill;
pub(crate) use program::Program;
pub(crate) use results::What as Transport;
