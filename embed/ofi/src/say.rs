//! What this library says on standard error.

pub use taffrail::words::say;
