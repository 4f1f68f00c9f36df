//! Senders that are far ahead of their receiver.

use super::installed;
use super::programs::{choose, provider};
use super::*;

/// Messages of 8 bytes, which take 7 MB together.
const MESSAGES: &str = "30000";
/// The memory that unreceived messages may take.
const LIMIT_MIB: u64 = 2;

/// Nobody is cut off, all comes, and the memory of the receiver stays within what the user allows.
#[test]
fn a_sender_that_is_far_ahead_waits() {
    let Some(mpich) = installed::mpich().filter(|_| provider().is_some()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = mpich.compile_ours("flood", folder.path());
    let program = program.to_str().unwrap();
    let mut taffrail = taffrail(&["mpi", "-n", "2", program, MESSAGES]);
    taffrail.env("TAFFRAIL_UNEXPECTED_MAX", format!("{LIMIT_MIB}M"));
    let job = ended(choose(mpich.choose(&mut taffrail)));
    assert_eq!(job.status, Some(0), "{job:?}");
    let grown = job.out.lines().find_map(|line| line.strip_prefix("grown by "));
    let kib: u64 = grown.unwrap().strip_suffix(" KiB").unwrap().parse().unwrap();
    // What libraries allocate comes on top.
    assert!(kib < (LIMIT_MIB + 6) << 10, "{kib} KiB");
}
