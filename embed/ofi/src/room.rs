//! How much address space the program has left.

use crate::say::say;
use rustix::process::{Resource, getrlimit};

/// What peers and the program may still need, in bytes: a peer's memory takes 16 MiB of addresses.
const ENOUGH: u64 = 48 << 20;

/// Says so if the limit of address space leaves little: an MPI does not say why it ends then.
pub fn say_if_little() {
    let Some(limit) = getrlimit(Resource::As).current else { return };
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let left = limit.saturating_sub(pages * rustix::param::page_size() as u64);
    if left < ENOUGH {
        say(&format!(
            "the limit of address space leaves {} MiB, and each peer needs about 16: if the program fails, \
             raise the limit (ulimit -v {})",
            left >> 20,
            limit / 1024
        ));
    }
}
