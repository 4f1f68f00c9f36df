//! `taffrail eventlog`: keeps the events of ranks, as a process of its own (`docs/logging.md`,
//! section 10).
//!
//! [`Keeper`] is the side of whoever starts the ranks: it holds the memory that outlives the logger,
//! and starts the logger, again when it was killed.

mod channel;
mod keeper;
mod packet;
mod running;
mod serve;

#[cfg(fuzzing)]
#[doc(hidden)]
pub use packet::{Packet, decode};

pub use channel::ChannelError;
pub use keeper::{Download, Keeper, KeeperError, Keeping};
pub use packet::{Malformed, Told, What};
pub use serve::{Args, Kept, eventlog};
