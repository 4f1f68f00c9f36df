//! What the fuzz targets need beside the public interface: only there with `--cfg fuzzing`.

use crate::shm_fabric::ShmFabric;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use taffrail_fabric::PeerId;

pub use crate::socket::{Address, Hello, Malformed, Notice, decode_hello, decode_notice};

impl ShmFabric {
    /// A peer's inbox, or our own: all of it can be written by a process that keeps to no rule.
    pub fn raw_inbox(&self, of: PeerId) -> NonNull<[u8]> {
        let at = match &self.pairs[of.index()].cold.mapped {
            Some(maps) => maps._inbox.as_ptr(),
            None => self.inbox.as_ptr(),
        };
        let at = NonNull::new(at).expect("a mapping is not at address 0");
        NonNull::slice_from_raw_parts(at, self.inbox.len())
    }

    /// Our own outbox, as it is mapped now.
    pub fn raw_outbox(&self) -> NonNull<[u8]> {
        let at = NonNull::new(self.outbox.as_ptr()).expect("a mapping is not at address 0");
        NonNull::slice_from_raw_parts(at, self.outbox.len())
    }

    /// The connection to a peer, for packets that no fabric sends. `None` for ourselves.
    pub fn raw_link(&self, to: PeerId) -> Option<BorrowedFd<'_>> {
        Some(self.pairs[to.index()].cold.mapped.as_ref()?.link.as_fd())
    }
}
