//! What can go wrong, typed.

use crate::words::counted;

/// Why a message, a get or a put was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No room now: poll, then try again.
    #[error("no room towards the peer now; poll and try again")]
    Busy,
    /// The peer is gone or was cut off.
    #[error("the peer failed: {0}")]
    Failed(Fault),
    /// The payload does not fit one message.
    #[error("payload of {}, one message holds {limit}", counted(*.got, "byte"))]
    TooLong {
        /// Bytes asked for.
        got: usize,
        /// Bytes one message holds.
        limit: usize,
    },
    /// This way of moving bytes is not to be had with that peer or key.
    #[error(transparent)]
    Denied(#[from] crate::Denied),
}

/// What became of a peer, or of one transfer with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The peer's process ended, or closed its connection, without saying goodbye.
    #[error("its process ended")]
    Died,
    /// The connection with the peer ended without a goodbye. Its process may have ended, or only the way to it.
    #[error("the connection with it was lost: {0}")]
    Lost(String),
    /// The peer closed its endpoint in good order.
    #[error("it closed its endpoint")]
    Closed,
    /// The peer was called, and did not come.
    #[error("it cannot be reached at {address}: {why}")]
    Unreachable {
        /// Where it was to be found.
        address: String,
        /// What was found instead, and what to do.
        why: String,
    },
    /// There is no peer of this number, or not any more.
    #[error("nobody has this place; connect to a process to give it one")]
    Vacant,
    /// The peer wrote something that the format does not allow; it was cut off.
    #[error("it broke the protocol in {place}: expected {expected}, got {got}")]
    Protocol {
        /// Which field of which structure.
        place: &'static str,
        /// What would have been right.
        expected: String,
        /// What was there.
        got: String,
    },
    /// The operating system refused a transfer.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error, as text.
        errno: String,
    },
    /// The memory named by a key is not there any more, or never was.
    #[error("no such memory: {0}")]
    NoSuchMemory(String),
    /// The owner of memory does not let it be read, or written.
    #[error("no access to the memory: {0}")]
    NoAccess(&'static str),
}

/// Why memory could not be registered or allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Not enough of something.
    #[error("{what}: {} needed, {have}; {remedy}", counted(*.need, "byte"))]
    Short {
        /// What ran out.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// What there is, as text.
        have: String,
        /// What the user can do about it.
        remedy: &'static str,
    },
    /// The operating system refused something that is not a number of bytes.
    #[error("{what}: {why}; {remedy}")]
    Refused {
        /// What could not be had or kept.
        what: &'static str,
        /// What was refused, and the operating system's reason.
        why: String,
        /// What the user can do about it.
        remedy: &'static str,
    },
    /// The fabric has no way to do that.
    #[error("this fabric does not offer {what}; messages work")]
    NotOffered {
        /// What was asked for.
        what: &'static str,
    },
    /// There is no such region, or the range lies outside of it.
    #[error("no registered region {region} holds the byte at offset {offset}")]
    Unknown {
        /// The region asked for.
        region: u32,
        /// The offset asked for.
        offset: u64,
    },
    /// Memory of a kind that the fabric does not reach.
    #[error("{fabric} does not reach memory of the kind {kind}; copy it to host memory first")]
    Kind {
        /// The kind, by the name of its interface.
        kind: &'static str,
        /// The fabric.
        fabric: &'static str,
    },
    /// It is there, and may not be read, or written.
    #[error("the memory {name:#x} does not allow this access")]
    NoAccess {
        /// The name asked for.
        name: u64,
    },
}
