//! Two that call each other: in every order of their steps, one connection is left.

use super::*;

/// A step of one of two fabrics.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Act {
    Call,
    /// Accepts connections and reads HELLOs.
    Listen,
    /// Answers them, or does not.
    Welcome,
    /// Advances its call, or answer, by one step.
    Advance,
}

const ACTS: [Act; 7] =
    [Act::Call, Act::Advance, Act::Listen, Act::Welcome, Act::Advance, Act::Listen, Act::Welcome];

fn act(fabric: &mut ShmFabric, act: Act, other: &str) {
    match act {
        Act::Call => {
            // As `call`, without its first steps.
            let mut peer_slots = fabric.peer_slots.take().unwrap();
            fabric.slot_for(&mut peer_slots, other).unwrap();
            fabric.peer_slots = Some(peer_slots);
        }
        Act::Listen => fabric.peer_slots.as_mut().unwrap().listen(&fabric.watch),
        Act::Welcome => drop(fabric.welcome()),
        Act::Advance => drop(fabric.advance(1)),
    }
}

/// `order` has a bit for each step: the process that makes it.
fn cross(order: u32) {
    let mut fabrics = two(3);
    let addresses = [0, 1].map(|k: usize| fabrics[k].address().to_owned());
    let mut next = [0; 2];
    for step in 0..2 * ACTS.len() {
        let side = (order >> step & 1) as usize;
        act(&mut fabrics[side], ACTS[next[side]], &addresses[1 - side]);
        next[side] += 1;
    }
    assert_eq!(next, [ACTS.len(); 2]);
    let [low, high] = &mut fabrics;
    let mut said = [Said::default(), Said::default()];
    let met = |fabrics: &[&mut ShmFabric], _: &[Said]| {
        fabrics.iter().all(|fabric| fabric.is_met(PeerId(1)))
    };
    until(&mut [low, high], &mut said, &format!("order {order:b}"), met);
    // A process that another test is just starting has copies of our descriptors, so that the end of a connection may
    // be seen later.
    let nobody_waits = |fabrics: &[&mut ShmFabric], _: &[Said]| {
        fabrics.iter().all(|fabric| {
            fabric.peer_slots.as_ref().is_some_and(|peer_slots| peer_slots.waiting.is_empty())
        })
    };
    until(&mut [low, high], &mut said, &format!("order {order:b}: somebody waits"), nobody_waits);
    // Whatever is left of the other call has no effect.
    for _ in 0..5 {
        low.check(&mut said[0]);
        high.check(&mut said[1]);
    }
    assert_eq!(said, [Said::default(), Said::default()], "order {order:b}");
    for fabric in [&*low, &*high] {
        let peer_slots = fabric.peer_slots.as_ref().unwrap();
        assert!(
            matches!(peer_slots.slots[2], PeerSlot::Free),
            "order {order:b}: two peer slots for one"
        );
        assert!(peer_slots.waiting.is_empty(), "order {order:b}: somebody waits");
    }
    assert!(is_one_connection(low, high), "order {order:b}");
    talk(low, PeerId(1), high, PeerId(1));
}

/// Whether what one says over its connection comes out of the other's.
fn is_one_connection(a: &ShmFabric, b: &ShmFabric) -> bool {
    let link = |fabric: &ShmFabric| fabric.pairs[1].cold.mapped.as_ref().unwrap().link.clone();
    link(a).send_region(7, 4096, 4096, a.inbox.fd()).unwrap();
    let heard = link(b).receive().unwrap();
    link(b).send_forget(7).unwrap();
    heard.is_some() && link(a).receive().unwrap().is_some()
}

#[test]
fn in_every_order_of_steps_one_connection_is_left() {
    let steps = 2 * ACTS.len();
    let orders = (0..1u32 << steps).filter(|order| order.count_ones() as usize == ACTS.len());
    let mut tried = 0;
    for order in orders {
        cross(order);
        tried += 1;
    }
    assert_eq!(tried, 3432);
}

#[test]
fn in_threads_one_connection_is_left() {
    for _ in 0..200 {
        let fabrics = two(3);
        let addresses = [0, 1].map(|k: usize| fabrics[k].address().to_owned());
        let mut fabrics = std::thread::scope(|scope| {
            let ends = fabrics.into_iter().enumerate().map(|(k, mut fabric)| {
                let other = &addresses[1 - k];
                scope.spawn(move || {
                    for _ in 0..fastrand::u32(..2000) {
                        std::hint::spin_loop();
                    }
                    let peer = fabric.call(other).unwrap();
                    let mut said = [Said::default()];
                    let met = |fabrics: &[&mut ShmFabric], _: &[Said]| fabrics[0].is_met(peer);
                    until(&mut [&mut fabric], &mut said, "they meet", met);
                    assert_eq!((peer, said), (PeerId(1), [Said::default()]));
                    fabric
                })
            });
            let ends: Vec<_> = ends.collect();
            ends.into_iter().map(|end| end.join().unwrap()).collect::<Vec<_>>()
        });
        let [a, b] = &mut fabrics[..] else { unreachable!("there are two") };
        talk(a, PeerId(1), b, PeerId(1));
    }
}

#[test]
fn a_call_that_is_crossed_by_one_that_dies_fails() {
    let [mut low, mut high] = two(3);
    let gone = low.address().to_owned();
    high.call(&gone).unwrap();
    // The lower one has called as well, and its hello is there, when it ends.
    low.call(high.address()).unwrap();
    drop(low);
    let mut said = [Said::default()];
    until(&mut [&mut high], &mut said, "its end", |_, said| !said[0].failed.is_empty());
    let [(PeerId(1), Fault::Unreachable { address, .. })] = &said[0].failed[..] else {
        panic!("{said:?}")
    };
    assert_eq!(*address, gone);
}
