//! The sequence numbers of what this rank sends.

use crate::{CONTEXTS, Rank};

/// The next number of each channel (destination, context).
#[derive(Default)]
pub(crate) struct Channels {
    size: usize,
    user: Vec<Box<[u32]>>,
    internal: Vec<Box<[u32]>>,
}

impl Channels {
    pub(crate) fn new(size: u32) -> Self {
        Channels { size: size as usize, ..Channels::default() }
    }

    /// The next number towards `to` in `context`, to be counted up when it is used.
    #[inline]
    pub(crate) fn next(&mut self, to: Rank, context: u16) -> &mut u32 {
        let (table, index) = match context < CONTEXTS {
            true => (&mut self.user, context as usize),
            false => (&mut self.internal, (context - CONTEXTS) as usize),
        };
        if table.get(index).is_none_or(|row| row.is_empty()) {
            add(table, index, self.size);
        }
        &mut table[index][to as usize]
    }
}

#[cold]
fn add(table: &mut Vec<Box<[u32]>>, index: usize, size: usize) {
    if table.len() <= index {
        table.resize_with(index + 1, Box::default);
    }
    table[index] = vec![0; size].into();
}
