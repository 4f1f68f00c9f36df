//! The table of what was sent: in pages on the tape, which leave memory as what was sent does, but for the
//! last messages to each peer.
//!
//! ```text
//!  0       2       4               8               16              24              32
//!  +-------+-------+---------------+---------------+---------------+---------------+---
//!  |context|   0   |      seq      |      tag      |      at       | length, flags | ...
//!  +-------+-------+---------------+---------------+---------------+---------------+---
//! ```
//!
//! A page has [`ENTRIES`] entries, in the order of sending, in the byte order of the machine: it is read
//! by the process that wrote it, and by the next of the same rank.

use super::Log;
use super::departure::Leaving;
use super::tape::Kept;
use crate::engine::peer::Queued;
use crate::{Endpoint, Error, Rank};
use std::sync::Arc;
use taffrail_fabric::Fabric;
use taffrail_logging::{Entry, Received, Ticket};

/// Entries of a page.
const ENTRIES: usize = 128;
/// Bytes of an entry.
const ENTRY: usize = 32;
/// Bytes of a page.
const PAGE: usize = ENTRIES * ENTRY;

/// Where the pages of each peer are, in the order of sending.
pub(super) type Pages = Vec<Vec<u64>>;

/// A page whose messages are to be sent again, as far as its peer lacks them.
pub(crate) struct Again {
    at: u64,
    has: Arc<Received>,
    ticket: Ticket,
}

impl Log {
    /// Whether what was sent to a peer fills a page, which is to be written before there is more.
    #[inline(always)]
    pub(super) fn fills_page(&self, rank: Rank) -> bool {
        self.outbound.entries(rank) >= ENTRIES
    }

    /// Writes what was sent to a peer as a page.
    ///
    /// # Errors
    /// [`Error::Memory`] when the log is full.
    #[cold]
    #[inline(never)]
    pub(super) fn write_page(&mut self, fabric: &mut impl Fabric, rank: Rank) -> Result<(), Error> {
        self.tape.prepare(fabric, PAGE, PAGE)?;
        let mut bytes = Vec::with_capacity(PAGE);
        self.outbound.take(rank).for_each(|entry| bytes.extend_from_slice(&encode(&entry)));
        debug_assert_eq!(bytes.len(), PAGE, "one is written as soon as there is one");
        let at = self.tape.begin_whole(PAGE);
        self.tape.write(fabric, &bytes);
        self.pages[rank as usize].push(at);
        Ok(())
    }

    /// All pages of a peer, to be sent again.
    pub(super) fn again(&self, rank: Rank, has: &Received, ticket: &Ticket) -> Vec<Again> {
        let has = Arc::new(has.clone());
        let pages = self.pages[rank as usize].iter();
        pages.map(|&at| Again { at, has: has.clone(), ticket: ticket.clone() }).collect()
    }

    /// The messages of a page that its peer lacks.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room for it, or the file cannot be read.
    fn read_page(&mut self, fabric: &impl Fabric, page: &Again) -> Result<Vec<Leaving>, Error> {
        let mut bytes = [0; PAGE];
        self.tape.read(fabric, page.at, &mut bytes)?;
        let lacking = entries(&bytes).filter(|entry| !page.has.covers(entry.context, entry.seq));
        Ok(lacking.map(|entry| Leaving::new(page.ticket.clone(), &entry)).collect())
    }

    /// Drops what a committed checkpoint of a peer covers (*no-early-discard*). A page goes when all of its
    /// messages do.
    ///
    /// # Errors
    /// [`Error::Memory`] when a page cannot be read from the file.
    pub(super) fn drop_covered(
        &mut self,
        fabric: &mut impl Fabric,
        rank: Rank,
        committed: &Received,
    ) -> Result<(), Error> {
        let mut bytes = [0; PAGE];
        let (mut stay, mut result) = (Vec::new(), Ok(()));
        for page in std::mem::take(&mut self.pages[rank as usize]) {
            // What cannot be read may be asked for, so it stays.
            result = result.and_then(|()| self.tape.read(fabric, page, &mut bytes));
            let covered = |entry: Entry<Kept>| committed.covers(entry.context, entry.seq);
            if result.is_err() || !entries(&bytes).all(covered) {
                stay.push(page);
                continue;
            }
            for Entry { payload: kept, .. } in entries(&bytes) {
                self.tape.release(fabric, kept.at, kept.bytes());
            }
            self.tape.release(fabric, page, PAGE);
        }
        self.pages[rank as usize] = stay;
        result?;
        for Entry { payload: kept, .. } in self.outbound.collect(rank, committed) {
            self.tape.release(fabric, kept.at, kept.bytes());
        }
        self.tape.release_empty(fabric);
        Ok(())
    }

    /// Where the log for a peer is: the places of its pages, then the entries of no page.
    ///
    /// ```text
    ///  0               8               16
    ///  +---------------+---------------+---      ---+---------------------+---
    ///  | pages         | place of one  | ...        | entry, as in a page | ...
    ///  +---------------+---------------+---      ---+---------------------+---
    /// ```
    pub(super) fn table(&self, rank: Rank) -> Vec<u8> {
        let pages = &self.pages[rank as usize];
        let mut bytes = Vec::with_capacity(8 + 8 * pages.len() + PAGE);
        bytes.extend_from_slice(&(pages.len() as u64).to_ne_bytes());
        pages.iter().for_each(|at| bytes.extend_from_slice(&at.to_ne_bytes()));
        for entry in self.outbound.log(rank) {
            bytes.extend_from_slice(&encode(entry));
        }
        bytes
    }
}

/// The messages of a [table](Log::table), in the order of sending. `page` reads a page at its place; of one
/// that is not there any more nobody will ask.
///
/// # Errors
/// Those of `page`; `None` in the place of an error when this is no table.
pub(super) fn messages<E>(
    table: &[u8],
    mut page: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
) -> Option<Result<Vec<Entry<Kept>>, E>> {
    let (count, rest) = table.split_first_chunk::<8>()?;
    let places = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(8)?;
    let (places, last) = rest.split_at_checked(places)?;
    let mut all = Vec::new();
    let mut bytes = [0; PAGE];
    for place in places.as_chunks::<8>().0 {
        match page(u64::from_ne_bytes(*place), &mut bytes) {
            Ok(true) => all.extend(entries(&bytes)),
            Ok(false) => {}
            Err(error) => return Some(Err(error)),
        }
    }
    let (last, []) = last.as_chunks::<ENTRY>() else { return None };
    all.extend(last.iter().map(decode));
    Some(Ok(all))
}

fn entries(page: &[u8]) -> impl Iterator<Item = Entry<Kept>> {
    page.as_chunks::<ENTRY>().0.iter().map(decode)
}

impl Endpoint {
    /// Puts the messages of a page in its place at the front of a peer's queue, if one is there.
    pub(crate) fn open_pages(&mut self, rank: Rank) {
        while let Some(Queued::Page(_)) = self.core.peers[rank as usize].queue.front() {
            let Endpoint { line, core, .. } = self;
            let queue = &mut core.peers[rank as usize].queue;
            let (Some(Queued::Page(page)), Some(log)) = (queue.pop_front(), &mut core.log) else {
                return;
            };
            let leaving = log.read_page(line, &page);
            let leaving = leaving.unwrap_or_else(|error| super::departure::lost(&error));
            for message in leaving.into_iter().rev() {
                queue.push_front(Queued::Logged(message));
            }
        }
    }
}

fn encode(entry: &Entry<Kept>) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..2].copy_from_slice(&entry.context.to_ne_bytes());
    bytes[4..8].copy_from_slice(&entry.seq.to_ne_bytes());
    let words = bytes[8..].as_chunks_mut::<8>().0;
    for (word, value) in words.iter_mut().zip(entry.payload.to_words()) {
        *word = value.to_ne_bytes();
    }
    bytes
}

fn decode(bytes: &[u8; ENTRY]) -> Entry<Kept> {
    let context = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let seq = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let words = bytes[8..].as_chunks::<8>().0;
    let payload = Kept::from_words([0, 1, 2].map(|k| u64::from_ne_bytes(words[k])));
    Entry { context, seq, payload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(context: u16, seq: u32, words: [u64; 3]) {
            let entry = Entry { context, seq, payload: Kept::from_words(words) };
            prop_assert_eq!(decode(&encode(&entry)), entry);
        }
    }
}
