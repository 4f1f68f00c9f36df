//! The command line of the event logger.

use std::path::PathBuf;
use taffrail_logging::store::MAX_COPIES;

/// How to keep events.
#[derive(clap::Args)]
pub struct Args {
    /// What events survive: killed processes, the end of the node, or all but one event logger
    #[arg(long, value_enum)]
    pub(super) durability: Kept,
    /// Where event files are kept, a folder for each job
    #[arg(long, value_name = "DIR", required_if_eq("durability", "disk"))]
    pub(super) dir: Option<PathBuf>,
    /// How many event loggers have a copy
    #[arg(long, value_name = "K", required_if_eq("durability", "node"))]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COPIES)))]
    pub(super) copies: Option<u32>,
    /// Which of them this is, from 0
    #[arg(long, value_name = "N", required_if_eq("durability", "node"))]
    pub(super) copy: Option<u32>,
    /// Events are stable when the copy store of another node has them, too, which it is told on its connection
    #[arg(long, requires = "copy")]
    pub(super) elsewhere: bool,
}

/// Where events are kept, and so what they survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kept {
    /// In memory that whoever starts the ranks holds
    Process,
    /// In files, synced before events are announced as stable
    Disk,
    /// In memory of several event loggers; events are stable when all of them have them
    Node,
}
