//! Peer slots that are given to others.

use super::*;

fn meet(a: &mut ShmFabric, b: &mut ShmFabric) -> (PeerId, PeerId) {
    let to_b = a.call(b.address()).unwrap();
    let address = a.address().to_owned();
    let mut said = [Said::default(), Said::default()];
    until(&mut [a, b], &mut said, "they meet", |fabrics, _| fabrics[0].is_met(to_b));
    (to_b, b.call(&address).unwrap())
}

#[test]
fn the_peer_slot_of_somebody_who_has_gone_is_given_to_another() {
    let [mut a, mut b, mut c] = [fabric(2), fabric(2), fabric(2)];
    let (to_b, to_a) = meet(&mut a, &mut b);
    talk(&mut a, to_b, &mut b, to_a);
    // Left unread: nothing of it may come out of the next one's ring.
    for _ in 0..20 {
        b.send(to_a, Head::default(), Source::Bytes(&[9; 30])).unwrap();
    }
    a.forget(to_b);
    assert_eq!(a.address_of(to_b), None);
    assert!(matches!(a.call(c.address()), Err(CallError::Full { .. })), "it may still write");
    assert_eq!(
        a.send(to_b, Head::default(), Source::Bytes(&[])),
        Err(Refused::Failed(Fault::Closed))
    );
    let mut said = [Said::default(), Said::default()];
    until(&mut [&mut a, &mut b], &mut said, "its end", |_, said| !said[1].failed.is_empty());
    assert_eq!(said[1].failed, [(to_a, Fault::Closed)]);
    assert_eq!(said[0], Said::default());
    assert!(matches!(a.call(c.address()), Err(CallError::Full { .. })), "it has our memory");
    b.forget(to_a);
    assert_eq!(meet(&mut a, &mut c), (PeerId(1), PeerId(1)));
    talk(&mut a, PeerId(1), &mut c, PeerId(1));
    // And that one's, as it leaves.
    drop(c);
    until(&mut [&mut a], &mut said, "its end", |_, said| !said[0].failed.is_empty());
    assert_eq!(said[0].failed, [(PeerId(1), Fault::Closed)]);
    a.forget(PeerId(1));
    assert_eq!(meet(&mut a, &mut b), (PeerId(1), PeerId(1)));
    talk(&mut a, PeerId(1), &mut b, PeerId(1));
}

#[test]
fn somebody_who_comes_back_waits_until_it_was_forgotten() {
    let [mut a, mut b] = [fabric(3), fabric(3)];
    let (to_b, to_a) = meet(&mut a, &mut b);
    a.forget(to_b);
    let again = a.call(b.address()).unwrap();
    assert_eq!(again, PeerId(2), "the old peer slot is not free yet");
    let mut said = [Said::default(), Said::default()];
    until(&mut [&mut a, &mut b], &mut said, "its end", |_, said| !said[1].failed.is_empty());
    for _ in 0..20 {
        a.check(&mut said[0]);
        b.check(&mut said[1]);
    }
    assert!(!a.is_met(again));
    b.forget(to_a);
    until(&mut [&mut a, &mut b], &mut said, "they meet", |fabrics, _| fabrics[0].is_met(again));
    let to_a = b.call(a.address()).unwrap();
    talk(&mut a, again, &mut b, to_a);
    assert_eq!(said[0], Said::default());
}

#[test]
fn a_call_can_be_given_up() {
    let [mut a, mut b] = [fabric(2), fabric(2)];
    let peer = a.call(b.address()).unwrap();
    a.forget(peer);
    let mut said = [Said::default(), Said::default()];
    for _ in 0..20 {
        a.poll(&mut said[0]);
        a.check(&mut said[0]);
        b.check(&mut said[1]);
    }
    assert_eq!(said[0], Said::default());
    // The other has had a hello: either it was never met, or it has ended.
    for (peer, _) in &said[1].failed {
        b.forget(*peer);
    }
    assert_eq!(meet(&mut a, &mut b), (PeerId(1), PeerId(1)));
    talk(&mut a, PeerId(1), &mut b, PeerId(1));
}

/// It takes us for met when it has answered, and finds that nobody waits for that any more. Until then
/// our peer slot for it is its own.
#[test]
fn somebody_who_answers_too_late_finds_us_gone() {
    let [mut a, mut b] = [patient_line(2, Duration::from_millis(10)), fabric(2)];
    let to_b = a.call(b.address()).unwrap();
    // It is about to answer.
    b.peer_slots.as_mut().unwrap().listen(&b.watch);
    assert_eq!(b.welcome(), 1);
    let mut said = [Said::default(), Said::default()];
    until(&mut [&mut a], &mut said[..1], "its end", |_, said| !said[0].failed.is_empty());
    a.forget(to_b);
    assert!(matches!(a.call("taffrail-nobody"), Err(CallError::Full { .. })), "it may still write");
    until(&mut [&mut b], &mut said[1..], "its end", |_, said| !said[0].failed.is_empty());
    assert_eq!(said[1].failed, [(PeerId(1), Fault::Died)]);
    b.forget(PeerId(1));
    assert_eq!(meet(&mut a, &mut b), (PeerId(1), PeerId(1)));
    talk(&mut a, PeerId(1), &mut b, PeerId(1));
}

#[test]
fn cutting_a_call_off_fails_it_once() {
    let [mut a, b] = [fabric(2), fabric(2)];
    let peer = a.call(b.address()).unwrap();
    a.disconnect(peer, Fault::Closed);
    let mut said = [Said::default()];
    until(&mut [&mut a], &mut said, "its end", |_, said| !said[0].failed.is_empty());
    for _ in 0..20 {
        a.poll(&mut said[0]);
        a.check(&mut said[0]);
    }
    assert_eq!(said[0].failed, [(peer, Fault::Closed)]);
}

/// A view of a peer's memory outlives the peer's place here, and the memory is not taken back before.
#[test]
fn a_view_holds_the_memory_of_somebody_forgotten() {
    let [mut a, mut b] = [fabric(2), fabric(2)];
    let (to_b, to_a) = meet(&mut a, &mut b);
    let (region, at, _keep) = b.alloc(4096).unwrap();
    // SAFETY: just allocated.
    unsafe { at.write(77) };
    let key = b.key(to_a, region, 0).unwrap();
    let (view, keep) = a.map(to_b, &key, 4096).unwrap();
    a.forget(to_b);
    let mut said = [Said::default(), Said::default()];
    until(&mut [&mut a, &mut b], &mut said, "its end", |_, said| !said[1].failed.is_empty());
    a.check(&mut said[0]);
    assert!(!b.has_let_go(to_a), "there is a view");
    // SAFETY: the view is kept.
    assert_eq!(unsafe { view.read() }, 77);
    drop(keep);
    a.check(&mut said[0]);
    assert!(b.has_let_go(to_a));
}
