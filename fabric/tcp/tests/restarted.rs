//! Peers that were restarted, and are called where the directory of the job has them.

#[path = "common/lazy.rs"]
mod lazy;
#[path = "common/raw.rs"]
mod raw;

use lazy::{contact, identity, listener};
use raw::{Event, Notes, head};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Fault, Incarnation, LinkEvent, PeerId, Refused, Source};
use taffrail_tcp::{Config, Contact, TcpFabric};

thread_local! {
    /// Where each rank is now.
    static DIRECTORY: RefCell<Vec<Contact>> = const { RefCell::new(Vec::new()) };
}

fn look_up(peer: PeerId) -> Option<Contact> {
    DIRECTORY.with_borrow(|all| all.get(peer.index()).copied())
}

fn publish(rank: u32, contact: Contact) {
    DIRECTORY.with_borrow_mut(|all| all[rank as usize] = contact);
}

const CONFIG: Config = Config { has_membership: true, look_up, ..Config::DEFAULT };

/// Two ranks that look each other up.
fn two() -> [TcpFabric; 2] {
    let listeners = [listener(), listener()];
    let contacts: Vec<Contact> = listeners.iter().map(|of| contact(of.address(), 0)).collect();
    DIRECTORY.set(contacts.clone());
    let open = |(rank, listener)| {
        TcpFabric::open(identity(rank, 0), listener, contacts.clone(), CONFIG).expect("few ranks")
    };
    let all: Vec<TcpFabric> = (0..).zip(listeners).map(open).collect();
    all.try_into().ok().expect("two")
}

/// Polls both until this holds, or for this long.
fn poll(
    (fabrics, notes): (&mut [TcpFabric; 2], &mut [Notes; 2]),
    most: Duration,
    done: impl Fn(&[Notes; 2]) -> bool,
) -> bool {
    let start = Instant::now();
    let mut is_done = done(notes);
    while start.elapsed() < most && !is_done {
        for (fabric, notes) in fabrics.iter_mut().zip(notes.iter_mut()) {
            fabric.poll(notes);
        }
        std::thread::yield_now();
        is_done = done(notes);
    }
    is_done
}

const LONG: Duration = Duration::from_secs(20);

/// The next incarnation of rank 1, which has no address of rank 0: that is to call.
fn restart() -> (TcpFabric, Contact) {
    let listener = listener();
    let own = contact(listener.address(), 1);
    let contacts = vec![Contact::default(); 2];
    (TcpFabric::open(identity(1, 1), listener, contacts, CONFIG).expect("few ranks"), own)
}

fn is_up(incarnation: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Link(_, LinkEvent::Up(of)) if of.0 == incarnation)
}

#[test]
fn a_survivor_calls_the_next_incarnation_when_its_address_is_published() {
    let (mut fabrics, mut notes) = (two(), [Notes::default(), Notes::default()]);
    fabrics[0].send(PeerId(1), head(1, 0), Source::Bytes(b"ahoy")).unwrap();
    assert!(poll((&mut fabrics, &mut notes), LONG, |notes| !notes[1].events.is_empty()));
    fabrics[1].abandon_in_child();
    fabrics[0].disconnect(PeerId(1), Fault::Died);
    fabrics[0].connect(PeerId(1));
    let sent = fabrics[0].send(PeerId(1), head(1, 1), Source::Bytes(b"ahoy"));
    assert!(matches!(sent, Err(Refused::Failed(_))), "the directory has the dead one: {sent:?}");
    // It runs again, and listens nowhere yet.
    publish(1, Contact { address: None, incarnation: Incarnation(1) });
    fabrics[0].connect(PeerId(1));
    fabrics[0].connect(PeerId(1));
    let (again, own) = restart();
    fabrics[1] = again;
    let short = Duration::from_millis(50);
    let has_link = |notes: &[Notes; 2]| notes[0].events.iter().any(is_up(1));
    assert!(!poll((&mut fabrics, &mut notes), short, has_link));
    notes[1].take();
    publish(1, own);
    let both = |notes: &[Notes; 2]| has_link(notes) && notes[1].events.iter().any(is_up(0));
    assert!(poll((&mut fabrics, &mut notes), LONG, both));
    let ups = notes[0].events.iter().filter(|event| is_up(1)(event));
    assert_eq!(ups.count(), 1);
    assert_eq!(fabrics[0].incarnation(PeerId(1)), Incarnation(1));
    // It is there, and nothing is begun anew.
    fabrics[0].connect(PeerId(1));
    fabrics[1].send(PeerId(0), head(1, 7), Source::Bytes(b"back")).unwrap();
    let has_message = |notes: &[Notes; 2]| {
        notes[0]
            .events
            .iter()
            .any(|event| matches!(event, Event::Message(1, at, ..) if at.seq == 7))
    };
    assert!(poll((&mut fabrics, &mut notes), LONG, has_message));
}

#[test]
fn a_peer_that_has_died_without_a_link_was_not_linked() {
    let (mut fabrics, mut notes) = (two(), [Notes::default(), Notes::default()]);
    fabrics[0].disconnect(PeerId(1), Fault::Died);
    assert!(!fabrics[0].was_linked(PeerId(1)));
    let (again, own) = restart();
    fabrics[1] = again;
    publish(1, own);
    assert!(!poll((&mut fabrics, &mut notes), Duration::from_millis(30), |notes| {
        notes
            .iter()
            .any(|notes| notes.events.iter().any(|event| is_up(0)(event) || is_up(1)(event)))
    }));
    assert!(!fabrics[0].was_linked(PeerId(1)) && !fabrics[1].was_linked(PeerId(0)));
    fabrics[0].connect(PeerId(1));
    assert!(fabrics[0].was_linked(PeerId(1)), "its link is being made");
    // A process that is not the first of its rank hears of each link, also with peers that are.
    assert!(poll((&mut fabrics, &mut notes), LONG, |notes| {
        notes[0].events.iter().any(is_up(1)) && notes[1].events.iter().any(is_up(0))
    }));
}

/// A link that the peer has begun is made anew by this side, which has its address from the directory alone.
#[test]
fn who_was_called_looks_the_caller_up_when_the_connection_is_lost() {
    let (mut fabrics, mut notes) = (two(), [Notes::default(), Notes::default()]);
    fabrics[1].abandon_in_child();
    let (mut again, _) = restart();
    again.contact(PeerId(0), look_up(PeerId(0)).unwrap());
    again.send(PeerId(0), head(1, 3), Source::Bytes(b"ahoy")).unwrap();
    fabrics[1] = again;
    assert!(poll((&mut fabrics, &mut notes), LONG, |notes| notes[0].events.len() == 2));
    // It is killed, and the survivor calls the address that the directory has.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    publish(1, contact(listener.local_addr().unwrap(), 1));
    fabrics[1].abandon_in_child();
    let has_called = |_: &[Notes; 2]| listener.accept().is_ok();
    assert!(poll((&mut fabrics, &mut notes), LONG, has_called));
}
