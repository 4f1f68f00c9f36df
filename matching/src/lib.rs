//! The match engine of Taffrail: which receive gets which message.
//!
//! Pure state: no I/O, no clock. The rules are those of MPI (point-to-point matching and order, MPI
//! 4.1 sections 3.2.4 and 3.5) and of libfabric's tagged interface with directed and multi receives
//! (`fi_tagged(3)`, `FI_DIRECTED_RECV` and `FI_MULTI_RECV` in `fi_getinfo(3)` and `fi_msg(3)`):
//!
//! - a message goes to the receive posted first among those that fit;
//! - a receive gets the message that arrived first among those that fit.
//!
//! Order and duplicates of messages are not its business: the policy has judged them before
//! (*policy-judges-arrival*).
//!
//! [`Matcher`] has the calls. A message costs: [`Matcher::post`] and [`Matcher::arrive`] in either
//! order, with [`Matcher::store_unexpected`] in between if the message comes first.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod buckets;
mod hash;
mod index;
mod line;
mod matcher;
mod names;
mod pieces;
mod posted;
mod slab;
mod unexpected;

pub use matcher::Matcher;
pub use names::{Arrival, Counts, Data, Envelope, MessageId, PostId, Posted, Posting};
pub use pieces::Pieces;
pub use posted::Waiting;
