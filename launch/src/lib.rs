//! The launcher as a library: what the `taffrail` command is made of, for programs that start
//! their own ranks.

pub mod eventlog;
#[doc(hidden)]
pub mod info;
pub mod log;
#[doc(hidden)]
pub mod mpi;
#[doc(hidden)]
pub mod mpirun;
#[doc(hidden)]
pub mod pages;
mod print;
pub mod run;
mod search_path;
#[doc(hidden)]
pub mod stack;

pub use print::{print, print_usage};
pub use run::{AgentArgs, Args, Bind, FailureOptions, NodeOptions, agent, guard, run};
