//! Connections that are cut while both processes live: nothing is lost or doubled, and nothing is said of it.

#[path = "common/lazy.rs"]
mod lazy;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "common/raw.rs"]
mod raw;
#[path = "common/traffic.rs"]
mod traffic;

use lazy::{contact, identity, listener};
use proxy::Proxy;
use raw::{Event, Notes, head, pattern};
use std::time::{Duration, Instant};
use taffrail_fabric::{
    Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Refused, Source, Token,
};
use taffrail_tcp::{Config, TcpFabric};
use traffic::{End, run};

/// Two ranks that reach each other through proxies alone.
fn behind_proxies(config: Config) -> ([TcpFabric; 2], [Proxy; 2]) {
    let listeners = [listener(), listener()];
    let proxies = [0, 1].map(|rank| Proxy::start(listeners[rank].address()));
    let contacts: Vec<_> = proxies.iter().map(|proxy| contact(proxy.address(), 0)).collect();
    let mut ranks = 0..;
    let fabrics = listeners.map(|listener| {
        let me = identity(ranks.next().expect("two"), 0);
        TcpFabric::open(me, listener, contacts.clone(), config).expect("few ranks")
    });
    (fabrics, proxies)
}

#[test]
fn connections_that_are_cut_at_random_bytes_lose_and_double_nothing() {
    let config = Config { whole: 300, ..Config::DEFAULT };
    for lowest in [0, 1000, 100_000] {
        let seed = fastrand::u64(..);
        let (mut fabrics, proxies) = behind_proxies(config);
        // From within the handshake to far behind it.
        proxies.iter().for_each(|proxy| proxy.cut_after(lowest..lowest + 60_000, seed));
        let mut ends = [End::new(seed, 1, 200), End::new(seed, 0, 200)];
        run(&mut fabrics, &mut ends, Duration::from_secs(60));
        let cuts: usize = proxies.iter().map(Proxy::cuts).sum();
        assert!(cuts >= 10, "seed {seed}: {cuts} cuts were too few to show anything");
    }
}

#[test]
fn one_direction_alone_is_resumed_as_well() {
    let seed = fastrand::u64(..);
    let (mut fabrics, proxies) = behind_proxies(Config::DEFAULT);
    proxies.iter().for_each(|proxy| proxy.cut_after(10_000..90_000, seed));
    for (there, back) in [(150, 0), (0, 150)] {
        let mut ends = [End::new(seed, 1, there), End::new(seed, 0, back)];
        run(&mut fabrics, &mut ends, Duration::from_secs(60));
    }
    assert!(proxies.iter().map(Proxy::cuts).sum::<usize>() >= 10);
}

#[test]
fn a_peer_that_does_not_poll_for_longer_than_a_heartbeat_loses_nothing() {
    let config =
        Config { heartbeat: Duration::from_secs(1), patience: Duration::ZERO, ..Config::DEFAULT };
    let [mut zero, mut one] = <[_; 2]>::try_from(lazy::fabrics(2, config)).ok().expect("two");
    let (mut notes, mut others) = (Notes::default(), Notes::default());
    let payload = pattern(1, 60_000);
    let mut sent = 0;
    let start = Instant::now();
    // Until the kernels' buffers are full, and well beyond what the kernel waits.
    while start.elapsed() < Duration::from_secs(4) {
        if zero.send(PeerId(1), head(1, sent), Source::Bytes(&payload)).is_ok() {
            sent += 1;
        }
        zero.poll(&mut notes);
        if sent < 3 {
            one.poll(&mut others);
        }
    }
    // It can send by itself.
    assert!(one.send(PeerId(0), head(1, 0), Source::Bytes(b"here")).is_ok());
    let deadline = Instant::now() + Duration::from_secs(20);
    while others.events.len() < sent as usize || notes.events.is_empty() {
        one.poll(&mut others);
        zero.poll(&mut notes);
        assert!(Instant::now() < deadline, "{} of {sent}", others.events.len());
    }
    assert_eq!(notes.take(), [Event::Message(1, head(1, 0), b"here".to_vec(), 0)]);
    for (number, event) in others.take().into_iter().enumerate() {
        assert!(matches!(event, Event::Message(0, got, ..) if got == head(1, number as u32)));
    }
}

#[test]
fn a_link_that_is_not_made_anew_breaks_when_the_patience_is_over_and_can_be_begun_again() {
    let patience = Duration::from_millis(700);
    let (mut fabrics, proxies) = behind_proxies(Config { patience, ..Config::DEFAULT });
    let [zero, one] = &mut fabrics;
    let mut notes = Notes { rest: Some(vec![0; 50_000]), ..Notes::default() };
    let mut others = Notes { rest: Some(vec![0; 50_000]), ..Notes::default() };
    lazy::send(zero, &mut notes, PeerId(1), head(1, 1), b"hello");
    lazy::send(one, &mut others, PeerId(0), head(1, 1), b"hello");
    while notes.events.is_empty() || others.events.is_empty() {
        zero.poll(&mut notes);
        one.poll(&mut others);
    }
    notes.take();
    others.take();
    // Cut in the middle of a long message, and never carried again.
    proxies.iter().for_each(|proxy| proxy.cut_after(0..1, 1));
    proxies.iter().for_each(|proxy| proxy.cut_after_more(20_000));
    let long = pattern(3, 50_000);
    // SAFETY: it is kept until the send has ended.
    let user = unsafe { taffrail_fabric::UserBytes::new(long.as_ptr(), long.len()) };
    zero.send(PeerId(1), head(1, 7), Source::User(user, Token(9))).expect("room");
    let start = Instant::now();
    let is_broken = |notes: &Notes| matches!(notes.events.last(), Some(Event::Link(..)));
    while !(is_broken(&notes) && is_broken(&others)) {
        zero.poll(&mut notes);
        one.poll(&mut others);
        assert!(start.elapsed() < Duration::from_secs(20), "{notes:?} {others:?}");
    }
    assert!(start.elapsed() >= patience);
    let events = notes.take();
    let [Event::Sent(9, Err(_)), Event::Link(1, LinkEvent::Broken(why @ Fault::Lost(_)))] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    let events = others.take();
    assert!(
        matches!(
            &events[..],
            [
                Event::Message(..),
                Event::Moved(7, Err(_)),
                Event::Link(0, LinkEvent::Broken(Fault::Lost(_)))
            ]
        ),
        "{events:?}"
    );
    let late = zero.send(PeerId(1), Head::default(), Source::Bytes(b"too late"));
    assert_eq!(late, Err(Refused::Failed(why.clone())));
    // The network carries again, and the peers get the address anew.
    proxies.iter().for_each(Proxy::carry_all);
    zero.contact(PeerId(1), contact(proxies[1].address(), 0));
    lazy::send(zero, &mut notes, PeerId(1), head(1, 2), b"again");
    while others.events.len() < 2 || notes.events.is_empty() {
        zero.poll(&mut notes);
        one.poll(&mut others);
        assert!(start.elapsed() < Duration::from_secs(40), "{notes:?} {others:?}");
    }
    let up = LinkEvent::Up(Incarnation(0));
    assert_eq!(notes.take(), [Event::Link(1, up.clone())]);
    let message = Event::Message(0, head(1, 2), b"again".to_vec(), 0);
    assert_eq!(others.take(), [Event::Link(0, up), message]);
}
