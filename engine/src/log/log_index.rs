//! The table of what was sent: runs of messages that differ in little, in pages on the payload log, which leave
//! memory as what was sent does, but for the last runs to each peer.
//!
//! ```text
//!  0       2       4               8               16              24              32              40
//!  +-------+-------+---------------+---------------+---------------+---------------+---------------+---
//!  |context| count |      seq      |      tag      |      at       | length, flags |     step      | ...
//!  +-------+-------+---------------+---------------+---------------+---------------+---------------+---
//! ```
//!
//! A run is `count` messages of which the first is at `at` and has the number `seq`; each other has the next
//! number and is `step` behind the one before. A page has [`PAGE_RUNS`] runs, in the order of sending, in the byte
//! order of the machine: it is read by the process that wrote it, and by the next of the same rank.

use super::Logging;
use super::host::{Host, PAGE_RUNS};
use super::leaving::LoggedSend;
use super::leaving::Resend;
use super::payload_log::LogEntry;
use crate::peer::{Peer, Queued, Waiting};
use crate::{NotNow, Rank};
use std::sync::Arc;
use std::task::Poll;
use taffrail_fabric::SendMemory;
use taffrail_logging::{Entry, Received, Run, mutant};

/// Bytes of a run.
const RUN: usize = 40;
/// Bytes of the longest page.
const PAGE_MAX: usize = PAGE_RUNS * RUN;

impl<H: Host> Logging<H> {
    /// Whether what was sent to a peer fills a page, which is to be written before there is more.
    #[inline(always)]
    pub(crate) fn fills_page(&self, rank: Rank) -> bool {
        self.outbound.runs(rank) >= self.page_runs
    }

    /// Writes what was sent to a peer as a page.
    ///
    /// # Errors
    /// As [`prepare`](super::payload_log::PayloadLog::prepare).
    #[cold]
    #[inline(never)]
    pub(crate) fn write_page(
        &mut self,
        fabric: &mut impl SendMemory,
        rank: Rank,
    ) -> Result<(), NotNow> {
        let page = self.page_bytes();
        self.payload_log.prepare(fabric, page, page)?;
        let mut bytes = Vec::with_capacity(page);
        self.outbound.take(rank).for_each(|run| bytes.extend_from_slice(&encode(&run)));
        debug_assert_eq!(bytes.len(), page, "one is written as soon as there is one");
        let at = self.payload_log.begin_whole(page, 0);
        self.payload_log.write(fabric, &bytes);
        self.pages[rank as usize].push(at);
        Ok(())
    }

    fn page_bytes(&self) -> usize {
        self.page_runs * RUN
    }

    /// All pages of a peer, to be sent again.
    pub(crate) fn again(&self, rank: Rank, has: &Received) -> Vec<Resend> {
        let has = Arc::new(has.clone());
        let pages = self.pages[rank as usize].iter().skip(usize::from(mutant!(PageSkipped)));
        pages.map(|&at| Resend { at, has: has.clone() }).collect()
    }

    /// The messages of a page that its peer lacks.
    ///
    /// # Errors
    /// [`NotNow::Waits`] until it is here; [`Error::Memory`](crate::Error::Memory) when the file cannot be read.
    pub(super) fn read_page(
        &mut self,
        fabric: &mut impl SendMemory,
        page: &Resend,
    ) -> Result<Vec<LoggedSend>, NotNow> {
        let bytes = self.payload_log.read(fabric, page.at, self.page_bytes())?;
        let lacking = entries(&bytes).filter(|entry| !page.has.covers(entry.context, entry.seq));
        Ok(lacking.map(LoggedSend::new).collect())
    }

    /// Puts the messages of the page at the front of a peer's queue in its place. `false` when no page is there,
    /// and [`Pending`](Poll::Pending) until it is read.
    pub(super) fn replace_page(
        &mut self,
        memory: &mut impl SendMemory,
        peer: &mut Peer,
    ) -> Poll<bool> {
        let Some(Waiting { frame: Queued::Page(page), .. }) = peer.front() else {
            return Poll::Ready(false);
        };
        let leaving = match self.read_page(memory, page) {
            Ok(leaving) => leaving,
            Err(NotNow::Waits) => return Poll::Pending,
            Err(NotNow::Failed(error)) => super::resend::lost::<H>(&error),
        };
        peer.pop_front();
        for message in leaving.into_iter().rev() {
            peer.push_front(Waiting::free(Queued::Logged(message)));
        }
        Poll::Ready(true)
    }

    /// Drops what a committed checkpoint of a peer covers (*no-early-discard*). A page goes when all of its
    /// messages do. `seen` pages of the peer were looked at and stay.
    ///
    /// # Errors
    /// [`NotNow::Waits`] until the next page is read; [`Error::Memory`](crate::Error::Memory) when it cannot be read from
    /// the file: what cannot be read may be asked for, so it stays.
    pub(crate) fn drop_covered(
        &mut self,
        fabric: &mut impl SendMemory,
        rank: Rank,
        committed: &Received,
        seen: &mut usize,
    ) -> Result<(), NotNow> {
        while let Some(&page) = self.pages[rank as usize].get(*seen) {
            let bytes = self.payload_log.read(fabric, page, self.page_bytes())?;
            let mut covered = runs(&bytes).map(|run| run.is_covered(committed));
            let goes = if mutant!(PageDroppedEarly) {
                covered.any(|is_covered| is_covered)
            } else {
                covered.all(|is_covered| is_covered)
            };
            if !goes {
                *seen += 1;
                continue;
            }
            self.pages[rank as usize].remove(*seen);
            runs(&bytes).for_each(|run| self.payload_log.release(fabric, run));
            self.payload_log.release_bytes(fabric, page, bytes.len());
        }
        for run in self.outbound.collect(rank, committed) {
            self.payload_log.release(fabric, run);
        }
        self.payload_log.release_empty(fabric);
        Ok(())
    }

    /// Where the log for a peer is: the places of its pages, then the runs of no page.
    ///
    /// ```text
    ///  0               8               16
    ///  +---------------+---------------+---      ---+---------------------+---
    ///  | pages         | place of one  | ...        | entry, as in a page | ...
    ///  +---------------+---------------+---      ---+---------------------+---
    /// ```
    pub(crate) fn table(&self, rank: Rank) -> Vec<u8> {
        if mutant!(LogNotInCheckpoint) {
            return 0_u64.to_ne_bytes().to_vec();
        }
        let none = Vec::new();
        let pages = if mutant!(PagesNotInCheckpoint) { &none } else { &self.pages[rank as usize] };
        let mut bytes = Vec::with_capacity(8 + 8 * pages.len() + PAGE_MAX);
        bytes.extend_from_slice(&(pages.len() as u64).to_ne_bytes());
        pages.iter().for_each(|at| bytes.extend_from_slice(&at.to_ne_bytes()));
        for run in self.outbound.log(rank) {
            bytes.extend_from_slice(&encode(&run));
        }
        bytes
    }
}

/// The messages of a [table](Logging::table) with pages of this number of runs, in the order of sending. `page` reads a page at its place; of one
/// that is not there any more nobody will ask.
///
/// # Errors
/// Those of `page`; `None` in the place of an error when this is no table.
pub(crate) fn messages<E>(
    table: &[u8],
    page_runs: usize,
    mut page: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
) -> Option<Result<Vec<Entry<LogEntry>>, E>> {
    let (count, rest) = table.split_first_chunk::<8>()?;
    let places = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(8)?;
    let (places, last) = rest.split_at_checked(places)?;
    if !last.len().is_multiple_of(RUN) {
        return None;
    }
    let mut all = Vec::new();
    let mut bytes = vec![0; page_runs * RUN];
    for place in places.as_chunks::<8>().0 {
        match page(u64::from_ne_bytes(*place), &mut bytes) {
            Ok(true) => all.extend(entries(&bytes)),
            Ok(false) => {}
            Err(error) => return Some(Err(error)),
        }
    }
    all.extend(entries(last));
    Some(Ok(all))
}

fn entries(page: &[u8]) -> impl Iterator<Item = Entry<LogEntry>> {
    runs(page).flat_map(Run::entries)
}

fn runs(page: &[u8]) -> impl Iterator<Item = Run<LogEntry>> {
    page.as_chunks::<RUN>().0.iter().map(decode)
}

#[expect(clippy::expect_used, reason = "a run has up to 128 messages")]
fn encode(run: &Run<LogEntry>) -> [u8; RUN] {
    let Run { first: Entry { context, seq, payload }, count, step } = run;
    let count = u16::try_from(*count).expect("a run has few messages");
    let mut bytes = [0; RUN];
    bytes[..2].copy_from_slice(&context.to_ne_bytes());
    bytes[2..4].copy_from_slice(&count.to_ne_bytes());
    bytes[4..8].copy_from_slice(&seq.to_ne_bytes());
    let [tag, at, len] = payload.to_words();
    let words = bytes[8..].as_chunks_mut::<8>().0;
    for (word, value) in words.iter_mut().zip([tag, at, len, *step]) {
        *word = value.to_ne_bytes();
    }
    bytes
}

fn decode(bytes: &[u8; RUN]) -> Run<LogEntry> {
    let context = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let count = u16::from_ne_bytes([bytes[2], bytes[3]]);
    let seq = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let words = bytes[8..].as_chunks::<8>().0;
    let [tag, at, len, step] = [0, 1, 2, 3].map(|k| u64::from_ne_bytes(words[k]));
    let payload = LogEntry::from_words([tag, at, len]);
    Run { first: Entry { context, seq, payload }, count: count.into(), step }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(context: u16, count: u16, seq: u32, words: [u64; 3], step: u64) {
            let first = Entry { context, seq, payload: LogEntry::from_words(words) };
            let run = Run { first, count: count.into(), step };
            prop_assert_eq!(decode(&encode(&run)), run);
        }
    }
}
