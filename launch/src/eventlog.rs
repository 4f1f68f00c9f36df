//! `taffrail eventlog`: keeps the events of ranks, as a process of its own (`docs/logging.md`,
//! section 10).
//!
//! [`Keeper`] is the side of whoever starts the ranks: it holds the memory that outlives the logger,
//! and starts the logger, again when it was killed.

mod announcing;
mod channel;
mod checkpoint_copier;
mod copies;
mod copy_store;
mod forward;
mod keeper;
mod packet;
mod running;
mod sending;
mod serve;
mod stream;

#[cfg(fuzzing)]
#[doc(hidden)]
pub use packet::{Packet, decode};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use stream::CopyFrame;

pub use announcing::Announcing;
pub use channel::ChannelError;
pub use checkpoint_copier::{CheckpointCopier, CheckpointSource, RankLog};
pub use copies::{CopiesArgs, copies};
pub use copy_store::{CopiedCheckpoint, CopyStore};
pub use keeper::{Download, Elsewhere, Keeper, KeeperError, Keeping, Target};
pub use packet::{Malformed, Told, What};
pub use running::{CopyNews, Heard, Patience};
pub use serve::{Args, Kept, eventlog};
