//! Searches find what a walk finds, and memory is given back.

use super::*;
use crate::Posting;

impl Unexpected<u64> {
    fn new() -> Self {
        Unexpected::with_seed(Seed::fixed(0))
    }
}

fn store(sources: u32, tags: u64) -> Unexpected<u64> {
    let mut store = Unexpected::new();
    for n in 0..u64::from(sources) * tags {
        let (source, tag) = (n as u32 % sources, n / u64::from(sources));
        store.push(&Envelope { source, tag, len: 10, ..Envelope::default() }, n);
    }
    store
}

fn take(store: &mut Unexpected<u64>, posting: Posting) -> Option<u64> {
    let number = store.find(&Key::of(&posting))?;
    store.remove(number).map(|(_, payload)| payload)
}

#[test]
fn messages_received_in_their_order_need_no_index() {
    let mut store = store(1, 1000);
    for tag in 0..1000 {
        let posting = Posting { source: Some(0), tag, ..Posting::default() };
        assert_eq!(take(&mut store, posting), Some(tag));
        assert!(store.indexes.is_empty());
    }
}

#[test]
fn a_far_search_makes_an_index_and_an_empty_store_drops_it() {
    let mut store = store(10, 100);
    for tag in (0..100).rev() {
        let any = Posting { tag, ..Posting::default() };
        assert_eq!(take(&mut store, any), Some(tag * 10), "the first of tag {tag}");
        let named = Posting { source: Some(9), ..any };
        assert_eq!(take(&mut store, named), Some(tag * 10 + 9), "source 9 of tag {tag}");
        assert_eq!(store.indexes.len(), 2);
    }
    let anything = Posting { ignore: u64::MAX, ..Posting::default() };
    for left in (1..=800).rev() {
        assert_eq!(store.waiting(), left);
        assert!(take(&mut store, anything).is_some());
    }
    assert_eq!((store.indexes.len(), store.bytes()), (0, 0));
    assert!(store.spare.len() >= 2 && store.spare.iter().all(Index::is_empty));
}

#[test]
fn an_index_that_is_not_used_makes_room() {
    let mut store = store(1, 100);
    let miss = |mask: u64| Posting { tag: 1 << 40, ignore: mask, ..Posting::default() };
    for mask in 1..=INDEXES as u64 {
        assert_eq!(take(&mut store, miss(mask)), None);
    }
    let has = |store: &Unexpected<u64>, mask: u64| store.indexes.iter().any(|c| c.keep == !mask);
    assert!((1..=INDEXES as u64).all(|mask| has(&store, mask)));
    let next = 1 << 20;
    for search in 0..200 {
        assert_eq!(take(&mut store, miss(next)), None);
        assert_eq!(store.indexes.len(), INDEXES);
        assert_eq!(has(&store, next), search >= 97, "search {search}");
    }
}

/// All but the first ones of a flood are taken, by name: memory for the rest stays, and little more.
#[test]
fn a_flood_gives_its_memory_back_while_some_wait() {
    let mut store = store(10, 1000);
    let before = store.memory();
    for tag in (1..1000).rev() {
        for source in 0..10 {
            let posting = Posting { source: Some(source), tag, ..Posting::default() };
            assert!(take(&mut store, posting).is_some());
        }
    }
    let left = store.memory();
    assert_eq!((store.waiting(), store.indexes.len()), (10, 1));
    assert!(left[0] < before[0] / 5, "{} slots of {}", left[0], before[0]);
    assert!(left[2] < 10_000, "{} index entries for 10 messages", left[2]);
    let last = Posting { source: Some(9), ..Posting::default() };
    assert_eq!(take(&mut store, last), Some(9));
}
