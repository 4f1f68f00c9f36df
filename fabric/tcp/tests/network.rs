//! Connections that the fabric makes by itself: admission, the side that connects, and costs.

#[path = "common/lazy.rs"]
mod lazy;
#[path = "common/raw.rs"]
mod raw;

use lazy::{Count, contact, fabrics, identity, listener};
use raw::{Event, Notes, head, pattern};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use taffrail_fabric::{
    Arming, Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Refused, Source, Wait,
};
use taffrail_tcp::handshake::{Client, ClientStep, Identity, Standing};
use taffrail_tcp::{Config, Contact, Dropped, Secret, TcpFabric};

/// Polls all until this holds.
fn until(
    fabrics: &mut [TcpFabric],
    notes: &mut [Notes],
    what: &str,
    mut done: impl FnMut(&mut [TcpFabric], &[Notes]) -> bool,
) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done(fabrics, notes) {
        for (fabric, notes) in fabrics.iter_mut().zip(notes.iter_mut()) {
            fabric.poll(notes);
        }
        assert!(Instant::now() < deadline, "stuck: {what}");
        std::thread::yield_now();
    }
}

fn notes(n: usize) -> Vec<Notes> {
    (0..n).map(|_| Notes::default()).collect()
}

fn messages(notes: &Notes) -> usize {
    notes.events.iter().filter(|event| matches!(event, Event::Message(..))).count()
}

fn say(fabric: &mut TcpFabric, to: u32, seq: u32) {
    let sent = fabric.send(PeerId(to), head(1, seq), Source::Bytes(&pattern(seq as usize, 100)));
    sent.expect("room");
}

#[test]
fn the_first_message_makes_the_connection_and_no_other_is_made() {
    let (mut fabrics, mut notes) = (fabrics(3, Config::DEFAULT), notes(3));
    say(&mut fabrics[0], 1, 1);
    assert!(!fabrics[0].flushed(PeerId(1)), "it is to be polled for");
    until(&mut fabrics, &mut notes, "the first message", |_, notes| messages(&notes[1]) == 1);
    say(&mut fabrics[1], 0, 2);
    until(&mut fabrics, &mut notes, "the answer", |_, notes| messages(&notes[0]) == 1);
    // That the link is there is no news: there was one as far as anybody could see.
    for (at, from, seq) in [(0, 1, 2), (1, 0, 1)] {
        let message = Event::Message(from, head(1, seq), pattern(seq as usize, 100), 0);
        assert_eq!(notes[at].take(), [message]);
    }
    drop(fabrics.remove(0));
    let rest = &mut notes[1..];
    until(&mut fabrics, rest, "the end of rank 0", |_, notes| !notes[0].events.is_empty());
    assert_eq!(notes[1].take(), [Event::Link(0, LinkEvent::Closed)]);
    assert_eq!(notes[2].take(), [], "rank 2 has never spoken to it");
}

#[test]
fn both_may_call_at_once() {
    for round in 0..40 {
        let (mut fabrics, mut notes) = (fabrics(2, Config::DEFAULT), notes(2));
        for seq in 0..3 {
            say(&mut fabrics[0], 1, seq);
            // Sometimes the other one begins a little later.
            for _ in 0..round % 4 {
                fabrics[round % 2].poll(&mut notes[round % 2]);
            }
            say(&mut fabrics[1], 0, seq);
        }
        until(&mut fabrics, &mut notes, "three messages each", |_, notes| {
            notes.iter().all(|notes| messages(notes) == 3)
        });
        for (at, from) in [(0, 1), (1, 0)] {
            let message = |seq| Event::Message(from, head(1, seq), pattern(seq as usize, 100), 0);
            assert_eq!(notes[at].take(), [message(0), message(1), message(2)]);
        }
    }
}

#[test]
fn who_is_not_there_is_unreachable_at_once_and_can_be_named_anew() {
    let (mine, other) = (listener(), listener());
    let gone = other.address();
    drop(other);
    let contacts = vec![contact(mine.address(), 0), contact(gone, 0), Contact::default()];
    let mut fabric =
        TcpFabric::open(identity(0, 0), mine, contacts, Config::DEFAULT).expect("few ranks");
    let mut lonely = Notes::default();
    let vacant = fabric.send(PeerId(2), Head::default(), Source::Bytes(b"where?"));
    assert_eq!(vacant, Err(Refused::Failed(Fault::Vacant)));
    say(&mut fabric, 1, 1);
    let deadline = Instant::now() + Duration::from_secs(10);
    while lonely.events.is_empty() && Instant::now() < deadline {
        fabric.poll(&mut lonely);
    }
    let [Event::Link(1, LinkEvent::Broken(fault))] = &lonely.take()[..] else { panic!("no end") };
    assert!(fault.to_string().contains(&gone.to_string()), "{fault}");
    let late = fabric.send(PeerId(1), Head::default(), Source::Bytes(b"too late"));
    assert_eq!(late, Err(Refused::Failed(fault.clone())));
    // It was started again.
    let other = listener();
    fabric.contact(PeerId(1), contact(other.address(), 1));
    let contacts = vec![Contact::default(), Contact::default(), Contact::default()];
    let again = TcpFabric::open(identity(1, 1), other, contacts, Config::DEFAULT);
    let (mut all, mut notes) = (vec![fabric, again.expect("few ranks")], notes(2));
    say(&mut all[0], 1, 2);
    until(&mut all, &mut notes, "a message", |_, notes| messages(&notes[1]) == 1);
    assert_eq!(notes[0].take(), [Event::Link(1, LinkEvent::Up(Incarnation(1)))]);
    assert_eq!(all[0].incarnation(PeerId(1)), Incarnation(1));
}

#[test]
fn a_restarted_rank_calls_and_the_old_one_is_not_let_in_any_more() {
    let config = Config { patience: Duration::from_secs(1), ..Config::DEFAULT };
    let (mut all, mut sinks) = (fabrics(2, config), notes(2));
    say(&mut all[0], 1, 1);
    until(&mut all, &mut sinks, "a message", |_, notes| messages(&notes[1]) == 1);
    let mut old = all.pop().expect("rank 1");
    let address = all[0].address().expect("it listens");
    let contacts = vec![contact(address, 0), Contact::default()];
    all.push(TcpFabric::open(identity(1, 1), listener(), contacts, config).expect("few ranks"));
    sinks = notes(2);
    say(&mut all[1], 0, 2);
    until(&mut all, &mut sinks, "its message", |_, notes| messages(&notes[0]) == 1);
    let news = sinks[0].take();
    let [Event::Link(1, LinkEvent::Broken(_)), Event::Link(1, LinkEvent::Up(up)), _] = &news[..]
    else {
        panic!("{news:?}")
    };
    assert_eq!(*up, Incarnation(1));
    // The old one lives on, notices that its connection is lost, and calls.
    let mut old_notes = Notes::default();
    let deadline = Instant::now() + Duration::from_secs(10);
    while old_notes.events.is_empty() && Instant::now() < deadline {
        old.poll(&mut old_notes);
        all[0].poll(&mut sinks[0]);
    }
    let ended = old_notes.events.last().cloned();
    let Some(Event::Link(0, LinkEvent::Broken(fault))) = ended else { panic!("{ended:?}") };
    assert!(fault.to_string().contains("later incarnation"), "{fault}");
    assert_eq!(sinks[0].take(), [], "and the new one's link is not concerned");
}

/// A raw client of a job, up to the answer to its first packet.
fn knock(stream: &mut TcpStream, me: &Identity) -> (Client, [u8; 40]) {
    let (client, hello) = Client::new(me, 0, Incarnation(0), [3; 32]);
    stream.write_all(&hello).expect("it takes the first packet");
    let mut challenge = [0; 40];
    // Dropped before or instead.
    let _ = stream.read_exact(&mut challenge);
    (client, challenge)
}

#[test]
fn a_caller_without_proof_is_dropped_and_counted_and_others_stay() {
    let config =
        Config { handshake: Duration::from_millis(300), max_handshakes: 8, ..Config::DEFAULT };
    let (mut all, mut sinks) = (fabrics(3, config), notes(3));
    say(&mut all[0], 1, 0);
    until(&mut all, &mut sinks, "a message", |_, notes| messages(&notes[1]) == 1);
    let address = all[0].address().expect("it listens");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hostile = scope.spawn(|| {
            let call = || {
                let stream = TcpStream::connect(address).expect("a listener");
                stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                stream
            };
            let ends = |stream: &mut TcpStream| {
                let mut bytes = Vec::new();
                // Ended or reset: both are an end.
                let _ = stream.read_to_end(&mut bytes);
                bytes.len()
            };
            let mut stream = call();
            // It may be dropped before all is written.
            let _ = stream.write_all(&vec![b'x'; 100_000]);
            assert_eq!(ends(&mut stream), 0, "garbage, much of it");
            let mut stream = call();
            stream.write_all(b"TAFFRAIL").expect("a socket");
            stream.shutdown(Shutdown::Write).expect("a socket");
            assert_eq!(ends(&mut stream), 0, "truncated");
            let mut stream = call();
            knock(&mut stream, &Identity { job: [1; 16], ..identity(2, 0) });
            assert_eq!(ends(&mut stream), 0, "another job");
            let mut stream = call();
            let me = Identity { secret: Secret::new([1; 32]), ..identity(2, 0) };
            let (mut client, challenge) = knock(&mut stream, &me);
            let standing = Standing { session: 1, ..Standing::default() };
            let Ok(ClientStep::Send(proof)) = client.take(&challenge, &me, &standing) else {
                panic!("no challenge")
            };
            stream.write_all(&proof).expect("a socket");
            assert_eq!(ends(&mut stream), 0, "a wrong secret");
            let mut stream = call();
            let (_, hello) = Client::new(&identity(2, 0), 0, Incarnation(0), [3; 32]);
            stream.write_all(&[&hello[..], b"and more"].concat()).expect("a socket");
            assert_eq!(ends(&mut stream), 0, "oversized");
            // Byte by byte, too slowly; and many that say nothing at all.
            let mut slow: Vec<_> = (0..20).map(|_| call()).collect();
            let mut stream = call();
            for byte in b"TAFFRAIL\x01\0\0\0\x02" {
                let _ = stream.write_all(&[*byte]);
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(ends(&mut stream), 0, "too late");
            assert!(slow.iter_mut().all(|stream| ends(stream) == 0), "silent ones");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut seq = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) && !hostile.is_finished() {
            seq += 1;
            say(&mut all[0], 1, seq);
            until(&mut all, &mut sinks, "a message meanwhile", |_, notes| {
                messages(&notes[1]) == 1 + seq as usize
            });
        }
        hostile.join().expect("all were dropped");
    });
    let Dropped { garbage, other_job, wrong_secret, truncated, oversized, late, crowded } =
        all[0].dropped();
    assert_eq!((garbage, other_job, wrong_secret, truncated, oversized), (1, 1, 1, 1, 1));
    assert_eq!(late + crowded, 21, "{late} and {crowded}");
    // A rank that connects now is let in.
    sinks[0].take();
    say(&mut all[2], 0, 1);
    until(&mut all, &mut sinks, "another rank's message", |_, notes| messages(&notes[0]) == 1);
}

#[test]
fn two_jobs_with_different_secrets_do_not_meet() {
    let config = Config { patience: Duration::from_millis(200), ..Config::DEFAULT };
    let (mut all, mut sinks) = (fabrics(2, config), notes(2));
    let mine = listener();
    let contacts =
        vec![contact(mine.address(), 0), contact(all[1].address().expect("it listens"), 0)];
    let me = Identity { secret: Secret::new([1; 32]), ..identity(0, 0) };
    all[0] = TcpFabric::open(me, mine, contacts, config).expect("few ranks");
    say(&mut all[0], 1, 1);
    until(&mut all, &mut sinks, "the end of the link", |_, notes| !notes[0].events.is_empty());
    let news = sinks[0].take();
    let [Event::Link(1, LinkEvent::Broken(fault @ Fault::Unreachable { .. }))] = &news[..] else {
        panic!("{news:?}")
    };
    assert!(fault.to_string().contains("secret"), "{fault}");
    assert_eq!(sinks[1].take(), []);
    assert!(all[1].dropped().wrong_secret > 0);
}

#[test]
fn a_sleeper_wakes_for_a_call_and_for_an_attempt_that_is_due() {
    let (mut all, mut sinks) = (fabrics(2, Config::DEFAULT), notes(2));
    assert_eq!(all[1].arm(), Arming::Armed);
    say(&mut all[0], 1, 1);
    let start = Instant::now();
    all[1].sleep(Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(10), "a call has come");
    until(&mut all, &mut sinks, "the message", |_, notes| messages(&notes[1]) == 1);
    assert_eq!(all[1].arm(), Arming::Armed);
    all[1].disarm();
}

/// A process that has sent a message need not poll for it to arrive, where messages wait for their connection outside.
#[test]
fn a_message_is_refused_until_its_connection_is_up() {
    let config = Config { accepts_unconnected: false, ..Config::DEFAULT };
    let mut fabrics = fabrics(2, config).into_iter();
    let (mut a, mut b) = (fabrics.next().unwrap(), fabrics.next().unwrap());
    let (mut of_a, mut of_b) = (Count::default(), Count::default());
    let mut refused = 0;
    while let Err(why) = a.send(PeerId(1), Head::default(), Source::Bytes(b"ahoy")) {
        assert_eq!(why, Refused::Busy);
        refused += 1;
        b.poll(&mut of_b);
        a.poll(&mut of_a);
    }
    assert!(refused > 0 && a.was_linked(PeerId(1)));
    while of_b.0 == 0 {
        b.poll(&mut of_b);
    }
}
