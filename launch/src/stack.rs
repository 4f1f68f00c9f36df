//! The limit of the stack (`ulimit -s`): with less than the commands need they would overflow it somewhere, and be
//! aborted without a word about the limit.

use crate::run::files::present;
use std::process::ExitCode;
use taffrail::words;

/// To be called first in a command: says in one line that the stack may not grow to `needed_kib`, and gives the status to
/// end with. What is needed is what reading the command line takes in a debug build, rounded up to a power of two.
///
/// # Errors
/// That status.
pub fn check(needed_kib: u64) -> Result<(), ExitCode> {
    let limit = present(libc::RLIMIT_STACK).and_then(|limit| limit.current);
    let Some(kib) = limit.map(|bytes| bytes >> 10).filter(|&kib| kib < needed_kib) else {
        return Ok(());
    };
    words::say(&format!(
        "the limit of the stack is {kib} KiB, and {needed_kib} are needed (ulimit -s)"
    ));
    Err(ExitCode::FAILURE)
}
