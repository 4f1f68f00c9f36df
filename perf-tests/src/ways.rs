//! How messages are logged, as options of `taffrail run`: what several measurements compare.

/// One set for each node: no payload is logged between its ranks.
pub const ONE_SET: &[&str] = &["--logging", "pessimistic", "--sets", "node"];

/// A set for each rank: all payload is logged.
pub const SET_PER_RANK: &[&str] = &["--logging", "pessimistic", "--sets", "rank"];

/// The same, with memory for all of it.
pub const RESERVED: &[&str] =
    &["--logging", "pessimistic", "--sets", "rank", "--log-memory", "512M"];

/// The same, and each reception is an event.
pub const EVERY_RECEPTION: &[&str] =
    &["--logging", "pessimistic", "--sets", "rank", "--log-memory", "512M", "--events", "all"];
