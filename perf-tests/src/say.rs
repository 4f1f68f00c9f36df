//! Lines for people, on standard error: each in one write, and nothing is lost if nobody reads.

use std::fmt::Display;
use std::io::Write;

/// Says one line.
pub fn note(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says one line, as a warning.
pub fn warn(line: impl Display) {
    note(format_args!("warning: {line}"));
}
