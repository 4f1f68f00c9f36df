//! The frames of `docs/spec/agent.md`, sections 2 and 3: bytes in, a validated copy out.

mod bytes;
mod decode;
mod encode;
mod frame;
mod shape;
mod stream;

#[cfg(all(test, not(loom)))]
mod tests;

pub use decode::decode;
pub use encode::TooLong;
pub use frame::{
    Binding, BringOrder, CopyOrder, Durability, End, EventKind, Frame, Hello, LastCheckpoint,
    LeftBehind, Level, Logging, LoggingProtocol, Member, MemberEvent, Program, RankCare, Reach,
    RosterUpdate, Stream, WaveWords, Welcome,
};
pub use shape::{Direction, HEADER, HELD_MAX};
pub use stream::{Decoder, GREETING_MAX, Item, PREAMBLE, VERSION, preamble};

/// A field that is not what the format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: expected {expected}, got {got}")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
    /// The right value.
    pub expected: String,
    /// The value that was there.
    pub got: String,
}

impl Malformed {
    /// This field has a wrong value.
    pub fn new(field: &'static str, expected: impl ToString, got: impl ToString) -> Self {
        Malformed { field, expected: expected.to_string(), got: got.to_string() }
    }
}
