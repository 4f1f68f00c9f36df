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

/// The same with causal logging: messages carry the events that are not stable.
pub const CAUSAL: &[&str] =
    &["--logging", "causal", "--sets", "rank", "--log-memory", "512M", "--events", "all"];

/// An event is stable when another node has a copy.
pub const COPIED: &[&str] = &["--durability", "node", "--copies", "2"];
