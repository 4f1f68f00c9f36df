//! What the suite of all fabrics does not ask for: routes, turns, and links that are not on a route.

use super::parts::{Nodes, Plain, Seen, Sockets, counted, nears, poll, send};
use crate::turns::INTERVAL_MAX;
use crate::{Composite, RouteError, SetupError};
use taffrail_fabric::conformance::Bench;
use taffrail_fabric::loopback::mesh;
use taffrail_fabric::{
    Arming, Fabric, Fault, Head, LinkEvent, Memory, PeerId, Refused, RemoteKey, Source, Token,
    UserBuf, Wait,
};

/// Without a far link the far fabric is polled by checks and nothing else. With the first message to a far rank that
/// changes.
pub fn no_link_no_poll() {
    let mut all = counted(false);
    let mut seen = Seen::default();
    for seq in 0..1000 {
        send(&mut all[0], 1, seq).expect("room");
        all[1].poll(&mut seen);
        all[1].poll(&mut seen);
        assert_eq!(all[1].arm(), Arming::Armed);
        all[1].disarm();
    }
    assert_eq!(seen.messages.len(), 1000);
    assert_eq!(all[1].far().polls, 0, "polls of a fabric without links");
    // Somebody connects.
    all[1].check(&mut seen);
    assert_eq!(all[1].far().polls, 1);
    all[1].poll(&mut seen);
    assert_eq!(all[1].far().polls, 1);
    all[1].far_mut().is_active = true;
    send(&mut all[2], 1, 7).expect("room");
    all[1].poll(&mut seen);
    assert_eq!((seen.messages.last(), all[1].far().polls), (Some(&(2, 7)), 2));
    // The last link ends.
    all[1].far_mut().is_active = false;
    (0..100).for_each(|_| poll(&mut all[1], &mut seen));
    assert_eq!(all[1].far().polls, 3);
}

/// While near messages come, far ones are taken as well, by few polls.
pub fn both_have_their_turn() {
    let mut all = counted(true);
    let mut seen = Seen::default();
    let rounds = 100 * INTERVAL_MAX;
    let (mut sent, before) = (0, all[1].far().polls);
    for seq in 0..rounds as u32 {
        send(&mut all[0], 1, seq).expect("room");
        sent += u32::from(send(&mut all[2], 1, sent).is_ok());
        all[1].poll(&mut seen);
    }
    let polls = all[1].far().polls - before;
    assert!((150..=250).contains(&polls), "{polls} far polls in {rounds} turns");
    let of = |rank| seen.messages.iter().filter(move |(from, _)| *from == rank);
    assert_eq!(of(0).count(), rounds);
    assert!(of(2).count() > 1000, "{} far messages in {rounds} turns", of(2).count());
    assert!(of(2).map(|(_, seq)| *seq).eq(0..of(2).count() as u32));
    // What wakes a wait is there at the first poll.
    for seq in 0..100 {
        while all[1].arm() == Arming::Ready {
            all[1].poll(&mut seen);
        }
        all[1].disarm();
        send(&mut all[3], 1, seq).expect("room");
        assert_eq!(all[1].arm(), Arming::Ready);
        all[1].poll(&mut seen);
        assert_eq!(seen.messages.last(), Some(&(3, seq)));
        (0..seq).for_each(|_| poll(&mut all[1], &mut seen));
    }
}

/// A rank of the node that comes over the far fabric is heard by nobody, and its link there ends.
pub fn strangers_are_refused() {
    let mut all = Plain(Nodes::Pairs).mesh(4);
    let mut seen = Seen::default();
    send(&mut all[1].far, 0, 66).expect("a loopback connects all");
    send(&mut all[1], 0, 1).expect("room");
    send(&mut all[2], 0, 2).expect("room");
    for _ in 0..10 * INTERVAL_MAX {
        all[0].poll(&mut seen);
    }
    assert_eq!(seen.messages, [(1, 1), (2, 2)]);
    let refused = send(&mut all[1].far, 0, 67);
    assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
    assert_eq!(seen.links, []);
    send(&mut all[1], 0, 3).expect("the link on the route is another one");
}

/// A rank of the node is reached over the far fabric once its last link has ended, not before.
pub fn moves_when_drained() {
    let mut all = Plain(Nodes::Pairs).mesh(4);
    let (mut seen, one) = (Seen::default(), PeerId(1));
    assert_eq!(all[0].leave_node(PeerId(0)), Err(RouteError::Myself(0)));
    assert_eq!(all[0].leave_node(PeerId(2)), Ok(()), "it is far already");
    assert_eq!(all[0].leave_node(one), Err(RouteError::NotDrained(1)));
    send(&mut all[0], 1, 0).expect("its route is as it was");
    let last = all.swap_remove(1);
    let Composite { near, far, .. } = last;
    drop(near);
    assert_eq!(all[0].leave_node(one), Err(RouteError::NotDrained(1)), "the end was not reported");
    all[0].poll(&mut seen);
    assert_eq!(seen.links, [(1, LinkEvent::Closed)]);
    let refused = send(&mut all[0], 1, 1);
    assert_eq!(refused, Err(Refused::Failed(Fault::Closed)));
    assert_eq!(all[0].leave_node(one), Ok(()));
    send(&mut all[0], 1, 2).expect("the far fabric leads to it now");
    let mut far = far;
    send(&mut far, 0, 3).expect("room");
    (0..2 * INTERVAL_MAX).for_each(|_| poll(&mut all[0], &mut seen));
    assert_eq!(seen.messages, [(1, 3)]);
    assert!(!all[0].drained(one, all[0].incarnation(one)));
    drop(far);
    (0..2 * INTERVAL_MAX).for_each(|_| poll(&mut all[0], &mut seen));
    assert_eq!(seen.links.len(), 2);
    assert!(all[0].drained(one, all[0].incarnation(one)));
}

/// A key leads over its own rail, or nowhere.
pub fn keys_lead_over_their_rail() {
    let mut all = Plain(Nodes::Pairs).mesh(4);
    let mut bytes = [7; 64];
    // SAFETY: the bytes are there to the end.
    let memory = Memory::host(unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) });
    let region = all[0].register(memory).expect("loopbacks register everything");
    let keys = [1, 2].map(|rank| all[0].key(PeerId(rank), region, 0).expect("a region"));
    assert_eq!(keys.map(|key| key.rail()), [0, 1]);
    let mut get = |rank: usize, key: RemoteKey| {
        let mut into = [0; 64];
        let mut seen = Seen::default();
        // SAFETY: the bytes are there when the get has ended, below.
        let buf = unsafe { UserBuf::new(into.as_mut_ptr(), into.len()) };
        all[rank].get(PeerId(0), &key, 0, buf, Token(5))?;
        (0..2 * INTERVAL_MAX).for_each(|_| poll(&mut all[rank], &mut seen));
        assert_eq!(seen.moved, [(Token(5), Ok(()))]);
        Ok(into)
    };
    for (rank, key) in [(1, keys[0]), (2, keys[1])] {
        assert_eq!(get(rank, key), Ok([7; 64]));
    }
    for (rank, key) in [(1, keys[0].on_rail(1)), (2, keys[1].on_rail(0))] {
        let got: Result<[u8; 64], Refused> = get(rank, key);
        assert!(matches!(got, Err(Refused::Denied(_))), "{key:?} at rank {rank}: {got:?}");
    }
}

/// What a full socket has left is not out of this process's hands.
pub fn a_backlog_is_not_flushed() {
    let mut all = Sockets(Nodes::Pairs).mesh(4);
    let long = vec![1; 60_000];
    while all[0].send(PeerId(2), Head::default(), Source::Bytes(&long)).is_ok() {}
    assert!(!all[0].flushed(PeerId(2)), "the socket is full");
    assert!(all[0].flushed(PeerId(3)) && all[0].flushed(PeerId(1)));
}

#[test]
fn routes_turns_and_links() {
    no_link_no_poll();
    both_have_their_turn();
    strangers_are_refused();
    moves_when_drained();
    keys_lead_over_their_rail();
    a_backlog_is_not_flushed();
}

#[test]
fn fabrics_of_two_ranks_are_no_composite() {
    let error = |far: usize, node: &[u32]| {
        let (near, _) = nears(2, Nodes::Pairs).swap_remove(0);
        let node: Vec<PeerId> = node.iter().map(|&rank| PeerId(rank)).collect();
        Composite::new(near, mesh(4).swap_remove(far), 4, &node).err()
    };
    // Rank 0 has number 1.
    assert_eq!(error(0, &[1, 0]), None);
    assert!(matches!(error(0, &[0, 1]), Some(SetupError::Different { far: 0, .. })));
    assert!(matches!(error(1, &[1, 0]), Some(SetupError::Different { far: 1, .. })));
    assert!(matches!(error(0, &[0]), Some(SetupError::Different { .. })));
    assert_eq!(error(0, &[9, 0]), Some(SetupError::NoSuchRank { rank: 9, ranks: 4 }));
}

#[test]
fn without_other_nodes_a_wait_is_the_near_fabrics() {
    let mut all = Plain(Nodes::Pairs).mesh(2);
    let fd = |fabric: &Composite<_, _>| {
        use std::os::fd::AsRawFd;
        (Wait::fd(fabric).as_raw_fd(), Wait::fd(fabric.near()).as_raw_fd())
    };
    let (own, near) = fd(&all[0]);
    assert_eq!(own, near);
    assert_eq!(all[0].arm(), Arming::Armed);
    send(&mut all[1], 0, 1).expect("room");
    all[0].sleep(std::time::Duration::from_secs(20));
    let mut seen = Seen::default();
    all[0].poll(&mut seen);
    assert_eq!(seen.messages, [(1, 1)]);
}
