//! Receive buffers of one process that the sink keeps.

use super::ram::{Pages, Span};
use std::collections::{BTreeMap, VecDeque};

/// What is in a receive buffer that is not the sink's.
const GARBAGE: u8 = 0xdb;
/// Returned receive buffers that stay readable, so that a read of one finds garbage.
const RETURNED_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Leases {
    kept: BTreeMap<u64, Span>,
    last: u64,
    returned: VecDeque<Span>,
}

impl Leases {
    pub(super) fn count(&self) -> usize {
        self.kept.len()
    }

    /// A receive buffer with these bytes, and its name.
    pub(super) fn buffer(&mut self, bytes: &[u8]) -> (u64, Span) {
        let pages = Pages::new(bytes.len()).expect("memory for a receive buffer");
        let buffer = Span::of_pages(&pages, bytes.len());
        buffer.write(0, bytes);
        self.last += 1;
        (self.last, buffer)
    }

    pub(super) fn keep(&mut self, name: u64, buffer: Span) {
        self.kept.insert(name, buffer);
    }

    /// # Panics
    /// If the sink does not keep it.
    pub(super) fn give_back(&mut self, name: u64) {
        let buffer = self.kept.remove(&name);
        self.retire(buffer.unwrap_or_else(|| panic!("lease {name} is returned, and not kept")));
    }

    /// The buffer is the fabric's again.
    pub(super) fn retire(&mut self, buffer: Span) {
        buffer.write(0, &vec![GARBAGE; buffer.len()]);
        self.returned.push_back(buffer);
        if self.returned.len() > RETURNED_MAX {
            self.returned.pop_front();
        }
    }

    /// Writes a buffer that is kept: for a mutant.
    pub(super) fn overwrite_one(&self) {
        if let Some(kept) = self.kept.values().next() {
            kept.write(0, &vec![GARBAGE; kept.len()]);
        }
    }
}
