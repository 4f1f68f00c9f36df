//! The `mpi` command: the same MPI program over its MPI's own transport and over Taffrail, with and
//! without logging, measured in turn.

mod command;
mod installed;
mod program;
mod results;
mod table;
mod targets;

pub use command::Mpi;
