//! Pages of the table of what was sent: what a checkpoint keeps of them, and what is sent again.

use super::*;

/// The numbers of the 300 messages to rank 2 that are in a checkpoint, when one of rank 2 covers this.
fn messages_left(committed: &Received) -> Vec<u32> {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    log_messages(&mut log, &mut memory);
    log.drop_covered(&mut memory, 2, committed, &mut 0).unwrap();
    let table = log.table(2);
    let read = |at, into: &mut [u8]| {
        into.copy_from_slice(&log.payload_log.read(&mut memory, at, into.len())?);
        Ok::<_, NotNow>(true)
    };
    let messages = log_index::messages(&table, PAGE_RUNS, read).unwrap().unwrap();
    messages.iter().map(|entry| entry.seq).collect()
}

/// The numbers of those in pages that are sent again to a peer that has the first ten.
fn sent_again() -> Vec<u32> {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    log_messages(&mut log, &mut memory);
    let pages = log.again(2, &received(10, &[]));
    let messages = pages.iter().flat_map(|page| log.read_page(&mut memory, page).unwrap());
    messages.map(|message| message.seq).collect()
}

/// All before this number, but for some.
fn received(before: u32, missing: &[u32]) -> Received {
    let missing = missing.iter().map(|&seq| (5, seq)).collect();
    Received { channels: vec![(5, before)], missing }
}

#[test]
fn a_checkpoint_has_all_pages() {
    assert!(messages_left(&Received::default()).into_iter().eq(0..300));
}

#[test]
fn what_a_checkpoint_of_the_peer_does_not_cover_stays() {
    let some = messages_left(&received(10, &[]));
    assert!((10..300).all(|seq| some.contains(&seq)));
    let one = messages_left(&received(300, &[7]));
    assert!(one.contains(&7) && one.len() < 200, "{one:?}");
}

#[test]
fn all_pages_are_sent_again() {
    assert!(sent_again().into_iter().eq(10..256));
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn a_page_is_dropped_early() {
        let kept = with(Mutant::PageDroppedEarly, || messages_left(&received(10, &[])));
        assert!(!kept.contains(&100));
    }

    #[test]
    fn a_checkpoint_has_no_pages() {
        let kept = with(Mutant::PagesNotInCheckpoint, || messages_left(&Received::default()));
        assert!(kept.into_iter().eq(256..300));
    }

    #[test]
    fn a_page_is_not_sent_again() {
        assert!(with(Mutant::PageSkipped, sent_again).into_iter().eq(128..256));
    }
}
