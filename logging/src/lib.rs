//! Sender-based message logging, pessimistic or causal, as state machines without I/O and without a clock.
//!
//! A rank that is killed is started again and *replayed*: its messages come out of its senders'
//! logs, and whatever was left to chance comes out of the log of its *events*, so that it arrives
//! where it was. What follows is Bouteiller et al., MPICH-V2 (SC'03), sections 4.1 and 4.5 and
//! appendix A, with the correlated sets of Bouteiller et al. (Euro-Par'11), section 3. `docs/logging.md`
//! has the protocol, its invariants and its formats.
//!
//! - [`Recorder`]: which events there are, numbered by the rank's event clock; [`Event`], and the
//!   [`Record`](event::RECORD) it is stored as.
//! - [`Replay`]: the logged outcomes that a restarted rank gets, call by call.
//! - [`Numbers`]: the numbers of all messages, sent and expected.
//! - [`Outbound`]: the payload log, what is held, sent again or not sent.
//! - [`Inbound`]: incarnations of peers, and messages that are not here whole; [`Admit`]: what becomes of a message.
//! - [`Gate`]: whether a message may leave the correlated set.
//! - [`Causal`]: in place of the gate, events that travel with the messages that depend on them.
//! - [`Cut`]: which events of the members of a set are stable together.
//! - [`Restart`]: what two ranks exchange when one of them was restarted.
//! - [`Position`]: where a rank is when it takes a checkpoint.
//! - [`mutants`]: mistakes made on purpose, for the simulator alone.
//!
//! Inputs and outputs are plain values: the engine, the simulator and the tests drive the same code.
//!
//! Where events are kept, with the I/O for it, is in [`store`] (feature `store`, on by default).

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod admit;
pub mod causal;
mod checkpoint;
mod checksum;
mod cut;
pub mod event;
mod gate;
mod inbound;
pub mod mutants;
mod numbers;
mod outbound;
mod recorder;
mod replay;
mod restart;
#[cfg(feature = "store")]
pub mod store;

pub use admit::Admit;
pub use causal::{Causal, CausalError, Determinant};
pub use checkpoint::{PeerPosition, Position, PositionError};
pub use cut::{Cut, CutError, Set};
pub use event::{Event, RecordError};
pub use gate::{Gate, Ticket};
pub use inbound::{Inbound, Meeting};
pub use numbers::{ChannelNumbers, Next, Numbers, PeerNumbers};
pub use outbound::{Entry, Outbound, Payload, Run, Sending};
pub use recorder::{LoggedEvent, Recorder};
pub use replay::{Answer, RecvOutcome, Replay, ReplayError, Reserved};
pub use restart::{Received, Restart, RestartError, RestartPhase};

/// The number of a rank.
pub type Rank = u32;

/// A message as its receiver names it: where it is from, and its number in its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MsgId {
    /// The sending rank.
    pub source: Rank,
    /// The context.
    pub context: u16,
    /// The number in the channel (source, receiver, context): consecutive, wrapping.
    pub seq: u32,
}

/// Whether number `a` of a channel comes before `b`. Numbers wrap: they are compared within half of
/// their range, which no channel ever has under way.
#[inline]
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
