//! What this library says on standard error.

use std::io::Write;

/// One line, in one write: other ranks say theirs at the same moment.
#[cold]
pub fn say(what: &str) {
    // When nobody listens there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("taffrail: {what}\n").as_bytes());
}
