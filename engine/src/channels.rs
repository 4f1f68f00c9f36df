//! The sequence numbers of what this rank sends.

use crate::{CONTEXTS, Rank};
use taffrail_logging::Next;

/// The next number of each channel (destination, context).
#[derive(Default)]
pub struct Channels {
    size: usize,
    user: Vec<Box<[u32]>>,
    internal: Vec<Box<[u32]>>,
}

impl Channels {
    pub(crate) fn new(size: u32) -> Self {
        Channels { size: size as usize, ..Channels::default() }
    }

    /// The next number towards `to` in `context`.
    #[inline]
    pub(crate) fn next(&mut self, to: Rank, context: u16) -> Next<'_> {
        Next::new(self.cell(to, context))
    }

    /// Goes on towards `to` in `context` with this number.
    pub(crate) fn set(&mut self, to: Rank, context: u16, next: u32) {
        *self.cell(to, context) = next;
    }

    #[inline]
    fn cell(&mut self, to: Rank, context: u16) -> &mut u32 {
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

impl Channels {
    /// The next number of each context towards `to` that any message was sent in.
    pub(crate) fn numbers(&self, to: Rank) -> impl Iterator<Item = (u16, u32)> {
        let all = (0..).zip(&self.user).chain((CONTEXTS..).zip(&self.internal));
        let numbers = all.filter_map(move |(context, row)| Some((context, *row.get(to as usize)?)));
        numbers.filter(|(_, next)| *next != 0)
    }

    /// Begins again with 0 towards `to`: another process is to have its place.
    pub(crate) fn forget(&mut self, to: Rank) {
        let rows = self.user.iter_mut().chain(&mut self.internal);
        rows.filter(|row| !row.is_empty()).for_each(|row| row[to as usize] = 0);
    }
}

#[cold]
fn add(table: &mut Vec<Box<[u32]>>, index: usize, size: usize) {
    if table.len() <= index {
        table.resize_with(index + 1, Box::default);
    }
    table[index] = vec![0; size].into();
}
