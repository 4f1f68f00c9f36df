//! Capabilities and costs, as data.

/// What a fabric can do, for all peers alike. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// The name users know it by: `shm`, `verbs`, `libfabric`.
    pub name: &'static str,
    /// The longest payload of one [`send`](crate::Fabric::send).
    pub max_message: usize,
    /// The longest payload that travels inside the message's own descriptor.
    pub inline: usize,
    /// Messages between two peers arrive in the order sent.
    pub ordered: bool,
    /// [`map`](crate::Fabric::map) works: views of a peer's memory without a copy.
    pub maps: bool,
    /// The piece size at which a stream of messages moves fastest.
    pub piece: usize,
}

/// The price of moving bytes in one way: `latency + len / rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds before the first byte moves.
    pub latency_ns: f64,
    /// Bytes for each nanosecond (GB/s) from then on.
    pub bytes_per_ns: f64,
}

impl Cost {
    /// Nanoseconds to move `len` bytes.
    pub fn of(&self, len: usize) -> f64 {
        self.latency_ns + len as f64 / self.bytes_per_ns
    }
}

/// Why a way of moving bytes is not to be had, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not available: {why}; {remedy}")]
pub struct Denied {
    /// The way that was looked at.
    pub what: &'static str,
    /// What stands in its way.
    pub why: String,
    /// What the user can do about it.
    pub remedy: &'static str,
}
