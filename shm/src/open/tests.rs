//! Lines of one process that call each other, one step at a time.

use super::*;
use crate::layout::Layout;
use crate::setup::{Config, Setup};
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, Refused, Sink, Source, Take, Token};

mod crossing;
mod leaving;
mod strangers;
mod waiting;

pub(super) const SOON: Duration = Duration::from_secs(20);

/// An open job with this number of peer slots.
pub(super) fn fabric(peer_slots: u32) -> ShmFabric {
    patient_line(peer_slots, SOON)
}

pub(super) fn patient_line(peer_slots: u32, patience: Duration) -> ShmFabric {
    let setup =
        Setup::new(Config { open: true, outbox_max: 0, patience, ..Config::new(0, peer_slots) });
    setup.unwrap().open().unwrap()
}

/// Two fabrics, the one with the lower address first.
pub(super) fn two(peer_slots: u32) -> [ShmFabric; 2] {
    let mut fabrics = [fabric(peer_slots), fabric(peer_slots)];
    fabrics.sort_by_key(|fabric| fabric.address);
    fabrics
}

/// What a fabric has reported.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Said {
    pub messages: Vec<(PeerId, u64, Vec<u8>)>,
    pub completed: Vec<(Token, Result<(), Fault>)>,
    pub failed: Vec<(PeerId, Fault)>,
}

impl Sink for Said {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        self.messages.push((from, head.tag, body.here().to_vec()));
        Take::Done
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent, and this fabric sends at once");
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.completed.push((token, result));
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        self.failed.push((peer, end_of(event)));
    }
}

/// Why a link has ended.
fn end_of(event: LinkEvent) -> Fault {
    match event {
        LinkEvent::Closed => Fault::Closed,
        LinkEvent::Broken(why) => why,
        LinkEvent::Up(_) => panic!("{event:?}, and no end"),
    }
}

/// Polls and checks all fabrics until `done`.
pub(super) fn until(
    fabrics: &mut [&mut ShmFabric],
    said: &mut [Said],
    what: &str,
    done: impl Fn(&[&mut ShmFabric], &[Said]) -> bool,
) {
    let start = Instant::now();
    while !done(fabrics, said) {
        for (fabric, said) in fabrics.iter_mut().zip(said.iter_mut()) {
            fabric.poll(said);
            fabric.check(said);
        }
        assert!(start.elapsed() < SOON, "{what}: {said:?}");
    }
}

/// Sends a number and gets it whole, both ways, once.
pub(super) fn talk(a: &mut ShmFabric, to_b: PeerId, b: &mut ShmFabric, to_a: PeerId) {
    let mut said = [Said::default(), Said::default()];
    for (tag, len) in [(1, 0), (2, 8), (3, 44), (4, 100), (5, 268), (6, 5000), (7, 65536)] {
        let bytes = vec![tag as u8; len];
        let head = Head { kind: 1, tag, ..Head::default() };
        a.send(to_b, head, Source::Bytes(&bytes)).unwrap();
        b.send(to_a, head, Source::Bytes(&bytes)).unwrap();
        let came = |_: &[&mut ShmFabric], said: &[Said]| said.iter().all(|s| s.messages.len() == 1);
        until(&mut [a, b], &mut said, "messages", came);
        assert_eq!(said[0].messages, [(to_b, tag, bytes.clone())]);
        assert_eq!(said[1].messages, [(to_a, tag, bytes)]);
        said.iter_mut().for_each(|s| s.messages.clear());
    }
    assert_eq!(said, [Said::default(), Said::default()]);
}

#[test]
fn a_process_that_is_called_gives_the_caller_a_peer_slot() {
    let [mut a, mut b, mut c] = [fabric(4), fabric(200), fabric(4)];
    let mut said = [Said::default(), Said::default(), Said::default()];
    // Peer slots and lengths of rings differ.
    let (to_c, to_b) = (a.call(c.address()).unwrap(), a.call(b.address()).unwrap());
    assert_eq!((to_c, to_b), (PeerId(1), PeerId(2)));
    assert_eq!(a.send(to_b, Head::default(), Source::Bytes(&[1])), Err(Refused::Busy));
    let parts = [&[1][..], &[2; 7000]];
    assert_eq!(a.send(to_b, Head::default(), Source::Parts(&parts)), Err(Refused::Busy));
    assert_eq!(a.fault(to_b), None);
    assert!(!a.is_met(to_b));
    let met = |fabrics: &[&mut ShmFabric], _: &[Said]| {
        fabrics[0].is_met(PeerId(1)) && fabrics[0].is_met(PeerId(2))
    };
    until(&mut [&mut a, &mut b, &mut c], &mut said, "they meet", met);
    let to_a = b.call(a.address()).unwrap();
    assert_eq!(to_a, PeerId(1));
    assert_eq!(b.address_of(to_a), Some(a.address()));
    assert_eq!(a.address_of(to_b), Some(b.address()));
    assert_ne!(Layout::new(4).slots(), Layout::new(200).slots());
    talk(&mut a, to_b, &mut b, to_a);
    talk(&mut a, to_c, &mut c, PeerId(1));
    assert_eq!(said, [Said::default(), Said::default(), Said::default()]);
}

#[test]
fn the_same_address_has_the_same_peer_slot() {
    let [mut a, b] = [fabric(3), fabric(3)];
    let address = a.address().to_owned();
    assert_eq!(a.call(&address), Ok(PeerId(0)));
    let peer = a.call(b.address()).unwrap();
    assert_eq!(a.call(b.address()), Ok(peer));
    assert_eq!(a.peers(), 3);
    talk_to_itself(&mut a);
}

fn talk_to_itself(fabric: &mut ShmFabric) {
    let mut said = [Said::default()];
    let me = fabric.me();
    fabric.send(me, Head::default(), Source::Bytes(b"self")).unwrap();
    until(&mut [fabric], &mut said, "its own message", |_, said| said[0].messages.len() == 1);
}

#[test]
fn what_cannot_be_called_is_an_error_that_says_why() {
    let mut a = fabric(2);
    let error = a.call("not an address").unwrap_err().to_string();
    assert!(error.contains("printable ASCII"), "{error}");
    let there = fabric(2);
    a.call(there.address()).unwrap();
    let error = a.call("taffrail-another").unwrap_err().to_string();
    assert!(error.contains("all 2 peer slots are taken, 0 of them by"), "{error}");
    drop(there);
    let mut said = [Said::default()];
    until(&mut [&mut a], &mut said, "it is gone", |_, said| said[0].failed.len() == 1);
    let error = a.call("taffrail-another").unwrap_err().to_string();
    assert!(error.contains("1 of them by processes that are gone"), "{error}");
    assert!(error.contains("taffrail-another") && error.contains("forget"), "{error}");
    a.forget(PeerId(1));
    assert_eq!(a.call("taffrail-another"), Ok(PeerId(1)));
}

#[test]
fn somebody_who_is_not_there_fails_once() {
    let mut a = fabric(3);
    let peer = a.call("taffrail-nobody").unwrap();
    let mut said = [Said::default()];
    until(&mut [&mut a], &mut said, "nobody is there", |_, said| !said[0].failed.is_empty());
    for _ in 0..100 {
        a.poll(&mut said[0]);
        a.check(&mut said[0]);
    }
    let [(failed, why)] = &said[0].failed[..] else { panic!("{said:?}") };
    assert_eq!(*failed, peer);
    let text = why.to_string();
    assert!(text.contains("taffrail-nobody") && text.contains("nobody listens there"), "{text}");
    assert_eq!(
        a.send(peer, Head::default(), Source::Bytes(&[])),
        Err(Refused::Failed(why.clone()))
    );
    assert_eq!(a.call("taffrail-nobody"), Ok(peer), "until it is forgotten");
}

#[test]
fn somebody_who_says_nothing_fails_when_the_patience_is_over() {
    let patience = Duration::from_millis(30);
    let [mut a, silent] = [patient_line(3, patience), fabric(3)];
    let start = Instant::now();
    let peer = a.call(silent.address()).unwrap();
    let mut said = [Said::default()];
    until(&mut [&mut a], &mut said, "its end", |_, said| !said[0].failed.is_empty());
    assert!(start.elapsed() >= patience);
    assert_eq!(said[0].failed[0].0, peer);
    assert!(said[0].failed[0].1.to_string().contains("did not answer within 30ms"), "{said:?}");
}

#[test]
fn a_vacant_peer_slot_is_not_looked_at() {
    let mut a = fabric(1000);
    assert_eq!(a.dirty_words, 1);
    assert!(!a.has_call_in_poll());
    let vacant = Err(Refused::Failed(Fault::Vacant));
    assert_eq!(a.send(PeerId(999), Head::default(), Source::Bytes(&[])), vacant);
    assert_eq!(a.address_of(PeerId(999)), None);
    for peer_slot in 1..65 {
        a.call(&format!("taffrail-nobody-{peer_slot}")).unwrap();
    }
    assert_eq!(a.dirty_words, 2);
}

impl ShmFabric {
    fn has_call_in_poll(&self) -> bool {
        !self.failed_peers.is_empty()
    }
}

/// More peers than are polled all the time: the others are found by their bits.
#[test]
fn many_peers_are_all_heard() {
    let mut hub = fabric(40);
    let mut others: Vec<ShmFabric> = (0..30).map(|_| fabric(3)).collect();
    // Half of them is called, half comes by itself.
    for (k, other) in others.iter_mut().enumerate() {
        match k % 2 {
            0 => hub.call(other.address()).unwrap(),
            _ => other.call(hub.address()).unwrap(),
        };
    }
    let mut all: Vec<&mut ShmFabric> = others.iter_mut().chain([&mut hub]).collect();
    let mut said: Vec<Said> = all.iter().map(|_| Said::default()).collect();
    let met = |fabrics: &[&mut ShmFabric], _: &[Said]| {
        let (hub, others) = fabrics.split_last().unwrap();
        (1..31).all(|peer_slot| hub.is_met(PeerId(peer_slot)))
            && others.iter().all(|other| other.is_met(PeerId(1)))
    };
    until(&mut all, &mut said, "they meet", met);
    for round in 0..50 {
        for other in all.split_last_mut().unwrap().1 {
            let head = Head { tag: round, ..Head::default() };
            other.send(PeerId(1), head, Source::Bytes(&[7; 20])).unwrap();
        }
        let came = |_: &[&mut ShmFabric], said: &[Said]| said[30].messages.len() == 30;
        until(&mut all, &mut said, "messages", came);
        let mut from: Vec<u32> = said[30].messages.drain(..).map(|(from, ..)| from.0).collect();
        from.sort_unstable();
        assert_eq!(from, Vec::from_iter(1..31));
    }
}
