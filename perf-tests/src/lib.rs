//! Measurements of Taffrail and, beside it, of what else is installed: the parts of the
//! `taffrail-perf` command.

pub mod app;
pub mod compare;
pub mod cpus;
pub mod determinants;
pub mod error;
pub mod files;
pub mod growth;
pub mod held;
pub mod launching;
pub mod limits;
pub mod logging;
pub mod machine;
pub mod matching;
pub mod mpi;
pub mod netpipe;
pub mod network;
pub mod options;
pub mod others;
pub mod ours;
pub mod outputs;
pub mod overcommit;
pub mod pair;
pub mod peers;
pub mod pingpong;
pub mod plot;
pub mod poll;
pub mod progress;
pub mod provenance;
pub mod rate;
pub mod recovery;
pub mod rounds;
pub mod say;
pub mod session;
pub mod settled;
pub mod stats;
pub mod table;
pub mod tune;
pub mod verdict;
mod ways;
pub mod whereabouts;

pub use error::Error;
