//! The engine: protocols over a fabric. `impl Endpoint`, a piece in each file.
//!
//! Down: [`send`] decides how a message leaves, [`policy::tx`] what is kept of it, [`tx_queue`] when; up: [`core`] matches
//! what arrives, and [`fetch`] moves what was only announced. [`progress`] polls and sends. [`call`] takes a call of
//! the program as far as it gets: nothing here waits.

pub(crate) mod active;
pub(crate) mod answer;
pub(crate) mod atomic;
pub(crate) mod call;
pub(crate) mod channels;
pub(crate) mod claim;
pub(crate) mod core;
pub(crate) mod departures;
pub(crate) mod direct;
pub(crate) mod fetch;
pub(crate) mod finalize;
pub(crate) mod heartbeat;
pub(crate) mod immediate;
pub(crate) mod kind;
pub(crate) mod loan;
pub(crate) mod log;
pub(crate) mod multi;
pub(crate) mod named;
pub(crate) mod one_sided;
pub(crate) mod peer;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod receive;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod sink;
pub(crate) mod spin;
pub(crate) mod store;
pub(crate) mod tx_queue;
pub(crate) mod view;
pub(crate) mod ways;

/// No eager message is longer than this, whatever the settings say.
pub(crate) const EAGER_LIMIT: usize = 1 << 20;

/// The same of a message that is logged: it is copied in any case, and each piece may leave while the
/// next is copied.
pub(crate) const EAGER_LOGGED: usize = 8 << 20;

/// A logged message that is longer than this leaves in long pieces.
pub(crate) const LONG_LOGGED: usize = 128 << 10;
