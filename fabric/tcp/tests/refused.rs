//! Hosts that refuse connections while the processes on them live: no verdict where a membership gives those. And networks that
//! carry handshakes alone.

#[path = "common/lazy.rs"]
mod lazy;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "common/raw.rs"]
mod raw;

use lazy::{contact, identity, listener};
use proxy::Proxy;
use raw::{Event, Notes, head};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Fault, LinkEvent, PeerId};
use taffrail_tcp::{Config, TcpFabric};

const CONFIG: Config = Config { has_membership: true, ..Config::DEFAULT };

/// Two ranks that reach each other through proxies alone, and have exchanged a message.
struct Pair {
    fabrics: [TcpFabric; 2],
    notes: [Notes; 2],
    proxies: Vec<Proxy>,
    /// Of the proxies, and of the ranks.
    addresses: [(SocketAddr, SocketAddr); 2],
}

impl Pair {
    fn new(config: Config) -> Pair {
        let listeners = [listener(), listener()];
        let targets = [0, 1].map(|rank: usize| listeners[rank].address());
        let proxies: Vec<_> = targets.into_iter().map(Proxy::start).collect();
        let contacts: Vec<_> = proxies.iter().map(|proxy| contact(proxy.address(), 0)).collect();
        let addresses = [0, 1].map(|rank: usize| (proxies[rank].address(), targets[rank]));
        let mut ranks = 0..;
        let fabrics = listeners.map(|listener| {
            let me = identity(ranks.next().expect("two"), 0);
            TcpFabric::open(me, listener, contacts.clone(), config).expect("few ranks")
        });
        let mut pair = Pair { fabrics, notes: Default::default(), proxies, addresses };
        pair.say(0, b"hello");
        pair.until("a message", |notes| !notes[1].events.is_empty());
        assert_eq!(pair.notes[1].take(), [Event::Message(0, head(1, 1), b"hello".to_vec(), 0)]);
        pair
    }

    fn say(&mut self, from: usize, bytes: &[u8]) {
        let to = PeerId(1 - from as u32);
        lazy::send(&mut self.fabrics[from], &mut self.notes[from], to, head(1, 1), bytes);
    }

    fn poll(&mut self) {
        for (fabric, notes) in self.fabrics.iter_mut().zip(&mut self.notes) {
            fabric.poll(notes);
        }
        std::thread::yield_now();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&[Notes; 2]) -> bool) {
        let start = Instant::now();
        while !done(&self.notes) {
            self.poll();
            assert!(start.elapsed() < Duration::from_secs(20), "stuck: {what}: {:?}", self.notes);
        }
    }

    /// The connection is cut in the middle of a message of rank 0, and both addresses refuse connections.
    fn refuse(&mut self) {
        self.proxies.iter().for_each(|proxy| proxy.cut_after_more(10));
        self.proxies.clear();
        self.say(0, b"cut");
    }

    fn heal(&mut self) {
        let start = |(address, target)| Proxy::start_at(address, target);
        self.proxies = self.addresses.into_iter().map(start).collect();
    }
}

static REPORTS: Mutex<Vec<(u32, Option<String>)>> = Mutex::new(Vec::new());

#[test]
fn a_link_that_is_refused_for_a_while_heals_and_is_reported_meanwhile() {
    let report_link = |peer: PeerId, _, why: Option<&str>| {
        REPORTS.lock().expect("no panic").push((peer.0, why.map(str::to_owned)));
    };
    let mut pair = Pair::new(Config { report_link, ..CONFIG });
    pair.refuse();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2500) {
        pair.poll();
    }
    assert_eq!(pair.notes.each_mut().map(Notes::take), [[], []], "nothing of it is news");
    let down = std::mem::take(&mut *REPORTS.lock().expect("no panic"));
    for peer in [0, 1] {
        let refused = |(of, why): &(u32, Option<String>)| {
            *of == peer && why.as_ref().is_some_and(|why| why.contains("refused"))
        };
        assert!(down.iter().any(refused), "rank {peer}: {down:?}");
    }
    pair.heal();
    pair.until("the message that was cut", |notes| !notes[1].events.is_empty());
    assert_eq!(pair.notes[1].take(), [Event::Message(0, head(1, 1), b"cut".to_vec(), 0)]);
    pair.say(1, b"back");
    pair.until("a message back", |notes| !notes[0].events.is_empty());
    assert_eq!(pair.notes[0].take(), [Event::Message(1, head(1, 1), b"back".to_vec(), 0)]);
    let mut up = std::mem::take(&mut *REPORTS.lock().expect("no panic"));
    up.sort();
    assert_eq!(up, [(0, None), (1, None)]);
}

#[test]
fn a_link_that_stays_refused_breaks_when_the_patience_is_over() {
    let patience = Duration::from_millis(700);
    let mut pair = Pair::new(Config { patience, ..CONFIG });
    pair.refuse();
    let start = Instant::now();
    pair.until("the end", |notes| notes.iter().all(|notes| !notes.events.is_empty()));
    assert!(start.elapsed() >= patience);
    for notes in &mut pair.notes {
        let events = notes.take();
        assert!(
            matches!(&events[..], [Event::Link(_, LinkEvent::Broken(Fault::Lost(_)))]),
            "{events:?}"
        );
    }
}

/// Bytes of a handshake, both directions together.
const HANDSHAKE: usize = 80 + 40 + 64 + 72;

static REPORTS_OF_STALLED: Mutex<Vec<(u32, Option<String>)>> = Mutex::new(Vec::new());

/// As a network that swallows long packets: patience counts from the first loss, whatever connections are made since.
#[test]
fn a_link_over_which_handshakes_alone_pass_breaks_when_the_patience_is_over_or_heals() {
    let report_link = |peer: PeerId, _, why: Option<&str>| {
        REPORTS_OF_STALLED.lock().expect("no panic").push((peer.0, why.map(str::to_owned)));
    };
    let patience = Duration::from_millis(1500);
    for heals in [true, false] {
        let mut pair = Pair::new(Config { patience, report_link, ..CONFIG });
        pair.proxies.iter().for_each(|proxy| proxy.cut_after_more(10));
        pair.proxies.iter().for_each(|proxy| proxy.cut_after(HANDSHAKE..HANDSHAKE + 1, 1));
        pair.say(0, b"cut");
        let start = Instant::now();
        while start.elapsed() < patience / 2 {
            pair.poll();
        }
        let early = pair.notes.each_mut().map(Notes::take);
        assert!(early == [[], []] || start.elapsed() >= patience, "{early:?}");
        let reported = std::mem::take(&mut *REPORTS_OF_STALLED.lock().expect("no panic"));
        let [(1, Some(why))] = &reported[..] else { panic!("{reported:?}") };
        assert!(why.contains("carried nothing"), "{why}");
        if heals {
            pair.proxies.iter().for_each(Proxy::carry_all);
            pair.until("the message that was cut", |notes| !notes[1].events.is_empty());
            assert_eq!(pair.notes[1].take(), [Event::Message(0, head(1, 1), b"cut".to_vec(), 0)]);
            pair.say(1, b"back");
            pair.until("a message back", |notes| !notes[0].events.is_empty());
            assert_eq!(pair.notes[0].take(), [Event::Message(1, head(1, 1), b"back".to_vec(), 0)]);
        } else {
            pair.until("the end", |notes| !notes[0].events.is_empty());
            assert!(start.elapsed() >= patience);
            let events = pair.notes[0].take();
            let [Event::Link(1, LinkEvent::Broken(Fault::Lost(why)))] = &events[..] else {
                panic!("{events:?}")
            };
            assert!(why.contains("carried nothing"), "{why}");
        }
        drop(pair);
        let reported = std::mem::take(&mut *REPORTS_OF_STALLED.lock().expect("no panic"));
        assert_eq!(reported, [(1, None)]);
    }
}

/// The membership says that the peer has died, or has finished: before the link is lost, or behind that.
#[test]
fn a_verdict_ends_a_link_that_is_refused() {
    for is_before in [true, false] {
        let mut pair = Pair::new(CONFIG);
        if is_before {
            pair.fabrics[0].peer_finished(PeerId(1));
        }
        pair.refuse();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            pair.poll();
        }
        let early = pair.notes[0].take();
        let closed = [Event::Link(1, LinkEvent::Closed)];
        assert_eq!(early, if is_before { &closed[..] } else { &[] });
        pair.fabrics[0].peer_finished(PeerId(1));
        pair.fabrics[1].disconnect(PeerId(0), Fault::Died);
        pair.poll();
        assert_eq!(pair.notes[0].take(), if is_before { &[] } else { &closed[..] });
        let died = Event::Link(0, LinkEvent::Broken(Fault::Died));
        assert_eq!(pair.notes[1].take(), [died]);
    }
}
