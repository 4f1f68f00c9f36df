//! What is said to people: lines on standard error, and counts in words.

use std::io::Write;
pub use taffrail_fabric::words::{NAMED_MAX, counted, listed, listed_of, numbered, spans};

/// Writes a line to standard error in one write, so that those of several processes do not mix.
#[cold]
pub fn say(what: &str) {
    // When nobody listens there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("taffrail: {what}\n").as_bytes());
}

/// Says something that somebody should know: to who subscribes to `tracing`, or else on standard error.
pub(crate) fn warn(what: &str) {
    use tracing::subscriber::NoSubscriber;
    if tracing::dispatcher::get_default(|dispatch| dispatch.is::<NoSubscriber>()) {
        say(what);
    } else {
        tracing::warn!("{what}");
    }
}
