use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Of a tag, at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot(u8, u64);

impl Payload for Spot {
    fn distance(&self, other: &Spot) -> Option<u64> {
        (self.0 == other.0).then(|| other.1.wrapping_sub(self.1))
    }

    fn behind(&self, distance: u64) -> Spot {
        Spot(self.0, self.1.wrapping_add(distance))
    }
}

fn entry(context: u16, seq: u32) -> Entry<Spot> {
    Entry { context, seq, payload: Spot(0, u64::from(seq) * 10) }
}

fn all(out: &Outbound<Spot>) -> Vec<Entry<Spot>> {
    out.log(1).flat_map(Run::entries).collect()
}

/// What is sent to rank 1, and the numbers for it.
struct Sender(Outbound<Spot>, Numbers);

impl Sender {
    fn new(ready: bool) -> Self {
        Sender(Outbound::new(2, ready), Numbers::new(2))
    }

    fn number(&mut self, context: u16) -> (u32, Sending) {
        self.0.number(&mut self.1, 1, context)
    }

    fn send(&mut self, context: u16) -> (u32, Sending) {
        let (seq, sending) = self.number(context);
        self.0.keep(1, entry(context, seq));
        (seq, sending)
    }
}

#[test]
fn a_lost_peer_gets_what_it_lacks_and_nothing_else() {
    let mut out = Sender::new(true);
    for seq in 0..4 {
        assert_eq!(out.send(7), (seq, Sending::Transmit));
    }
    assert_eq!(out.send(8), (0, Sending::Transmit));
    out.0.lost(1);
    assert_eq!(out.send(7), (4, Sending::Hold));
    let has = Received { channels: vec![(7, 3)], missing: vec![(7, 1)] };
    let again: Vec<_> = out.0.restarted(1, has).collect();
    assert_eq!(again, [entry(7, 1), entry(7, 3), entry(8, 0), entry(7, 4)]);
    assert_eq!(out.send(7), (5, Sending::Transmit));
}

#[test]
fn a_restarted_rank_logs_what_its_peer_has_without_sending_it() {
    let mut out = Sender::new(false);
    assert_eq!(out.send(0), (0, Sending::Hold));
    let has = Received { channels: vec![(0, 3)], missing: vec![(0, 2)] };
    assert_eq!(out.0.restarted(1, has).count(), 0, "it has number 0");
    assert_eq!(out.send(0), (1, Sending::Suppress));
    assert_eq!(out.send(0), (2, Sending::Transmit), "it has only a part of number 2");
    assert_eq!(out.send(0), (3, Sending::Transmit));
    assert_eq!(all(&out.0).len(), 4, "all of it can be asked for again");
    out.0.lost(1);
    assert_eq!(out.0.restarted(1, Received::default()).count(), 4);
}

#[test]
fn nothing_stands_in_the_way_when_all_that_a_peer_had_was_numbered_again() {
    let mut out = Sender::new(false);
    assert!(!out.0.transmits_all(1), "it has not said what it has");
    let has = Received { channels: vec![(0, 2), (3, 1)], missing: vec![(3, 0)] };
    assert_eq!(out.0.restarted(1, has).count(), 0);
    assert_eq!(out.number(0), (0, Sending::Suppress));
    assert_eq!(out.number(3), (0, Sending::Transmit), "it was missing");
    assert_eq!(out.number(0), (1, Sending::Suppress));
    assert!(!out.0.transmits_all(1), "number 1 was suppressed just now");
    assert_eq!(out.number(0), (2, Sending::Transmit));
    assert!(out.0.transmits_all(1));
    assert_eq!(out.number(0), (3, Sending::Transmit));
    out.0.lost(1);
    assert!(!out.0.transmits_all(1));
}

#[test]
fn only_a_committed_checkpoint_drops_anything() {
    let mut out = Sender::new(true);
    for _ in 0..5 {
        out.send(0);
    }
    let committed = Received { channels: vec![(0, 4)], missing: vec![(0, 1)] };
    let dropped = out.0.collect(1, &committed);
    let dropped: Vec<_> = dropped.into_iter().flat_map(Run::entries).collect();
    assert_eq!(dropped, [entry(0, 0), entry(0, 2), entry(0, 3)]);
    assert_eq!(all(&out.0), [entry(0, 1), entry(0, 4)]);
}

#[test]
fn what_is_alike_and_as_far_apart_is_one_run() {
    let mut out = Outbound::new(2, true);
    let spots = [(0, 8), (0, 24), (0, 40), (0, 48), (0, 64), (1, 80), (1, 80), (1, 80), (1, 72)];
    for (seq, (tag, at)) in (u32::MAX - 1..=u32::MAX).chain(0..).zip(spots) {
        out.keep(1, Entry { context: 0, seq, payload: Spot(tag, at) });
    }
    out.keep(1, Entry { context: 1, seq: 7, payload: Spot(1, 64) });
    let runs: Vec<_> = out.log(1).map(|run| (run.first.payload.1, run.count, run.step)).collect();
    assert_eq!(runs, [(8, 3, 16), (48, 2, 16), (80, 3, 0), (72, 1, 0), (64, 1, 0)]);
}

proptest! {
    #[test]
    fn what_was_kept_is_there(
        steps in vec((0..3u16, 0..2u8, 0..3u64, 0..300u32), 0..40),
        expected in vec(0..1000u32, 3),
        missing in vec((0..3u16, 0..1000u32), 0..4),
    ) {
        let (mut out, mut kept, mut at) = (Outbound::new(2, true), Vec::new(), 0);
        let mut numbers = Numbers::new(2);
        for (context, tag, far, count) in steps {
            for _ in 0..count {
                let seq = numbers.next(1, context).commit();
                let entry = Entry { context, seq, payload: Spot(tag, at) };
                out.keep(1, entry);
                kept.push(entry);
                at += far;
            }
        }
        prop_assert_eq!(&all(&out), &kept);
        prop_assert!(out.log(1).all(|run| (1..=MAX_RUN).contains(&run.count)));
        let channels = (0..).zip(expected).collect();
        let committed = Received { channels, missing };
        let is_covered = |entry: &Entry<Spot>| committed.covers(entry.context, entry.seq);
        let (covered, stay): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_covered);
        let dropped = out.collect(1, &committed).into_iter().flat_map(Run::entries);
        prop_assert_eq!(dropped.collect::<Vec<_>>(), covered);
        prop_assert_eq!(&all(&out), &stay);
        prop_assert_eq!(out.restarted(1, committed).collect::<Vec<_>>(), stay);
    }
}

#[test]
fn numbers_wrap_around() {
    let has = Received { channels: vec![(0, 5)], missing: vec![] };
    assert!(has.covers(0, u32::MAX), "just before 0");
    assert!(has.covers(0, 4) && !has.covers(0, 5) && !has.covers(1, 0));
}

/// A peer's checkpoint lacks the middle one of three messages that are a run. Whether the run is taken for covered.
fn is_a_gap_covered() -> bool {
    let run = Run { first: entry(5, 7), count: 3, step: 10 };
    let received = Received { channels: vec![(5, 20)], missing: vec![(5, 8)] };
    assert!(run.is_covered(&Received { missing: Vec::new(), ..received.clone() }));
    run.is_covered(&received)
}

#[test]
fn a_run_with_a_gap_is_not_covered() {
    assert!(!is_a_gap_covered());
}

#[cfg(mutants)]
#[test]
fn what_is_missing_is_collected_by_a_mutant() {
    assert!(crate::mutants::with(crate::mutants::Mutant::MissingCollected, is_a_gap_covered));
}
