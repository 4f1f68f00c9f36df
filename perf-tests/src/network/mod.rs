//! `compare` and `logging` over nodes: two ranks on two hosts, with sockets between them. Everything else is measured
//! over the same network.

mod compare;
mod logging;
mod measure;
mod programs;
mod results;
mod table;
mod targets;

pub(crate) use compare::{SIZES, compare};
pub(crate) use logging::{SIZES as LOGGING_SIZES, logging};
pub use results::{Figure, Part, Results, Row, What, rows};
