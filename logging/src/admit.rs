//! What a policy says of a message that has come, before it is matched (*policy-judges-arrival*).

use crate::Reserved;

/// What becomes of a message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It is matched.
    Match,
    /// It is kept for whom, by the replay, it is.
    Reserved(Reserved),
    /// It is here in part: this is the whole of it, or the beginning.
    Refill,
    /// It is here already.
    Duplicate,
    /// Its number is not the one that it must have: it breaks the protocol.
    OutOfOrder {
        /// The number that the next message of its channel must have.
        expected: u32,
    },
}
