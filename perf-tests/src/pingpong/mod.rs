//! The `pingpong` command: round trips timed one by one, over Taffrail and over a plain socket between the same two
//! ranks.

mod command;
mod fi_pingpong;
mod socket;
mod way;

pub use command::{Over, Pingpong, Row};
