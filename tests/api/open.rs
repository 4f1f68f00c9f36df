//! Open jobs: endpoints that find each other by their addresses.

use crate::common::watchdog;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use taffrail::{
    Announced, Completion, Dest, Endpoint, Error, Fault, Job, Pattern, Settings, Tuning, Way,
};

const SEATS: u32 = 16;

fn endpoint() -> Endpoint {
    let settings = Settings { patience: Duration::from_secs(10), ..Settings::default() };
    Job::open(SEATS).endpoint_with(settings).unwrap()
}

/// Makes `n` endpoints in threads that know each other's addresses, and runs `f` on each with its place
/// among them.
fn among(n: usize, f: impl Fn(&mut Endpoint, usize, &[String]) + Sync) {
    let _watchdog = watchdog();
    type Post = (Sender<Vec<String>>, Receiver<Vec<String>>);
    let posts: Vec<Post> = (0..n).map(|_| channel()).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = posts.into_iter().unzip();
    let (tell, hear) = channel();
    std::thread::scope(|scope| {
        for (k, addresses) in receivers.into_iter().enumerate() {
            let (tell, f) = (tell.clone(), &f);
            scope.spawn(move || {
                let mut ep = endpoint();
                tell.send((k, ep.address().to_owned())).unwrap();
                let addresses = addresses.recv().unwrap();
                f(&mut ep, k, &addresses);
            });
        }
        let mut all = vec![String::new(); n];
        for _ in 0..n {
            let (k, address) = hear.recv().unwrap();
            all[k] = address;
        }
        senders.iter().for_each(|sender| sender.send(all.clone()).unwrap());
    });
}

/// Sends to all and receives from all, a word each; returns when nothing is under way any more.
fn exchange(ep: &mut Endpoint, me: usize, ranks: &[u32], round: u64) {
    let mut words = vec![[0u8; 16]; ranks.len()];
    let receives: Vec<_> = (ranks.iter().zip(&mut words))
        .map(|(&rank, word)| {
            let from = Pattern::new(rank, round).context(0x4000);
            // SAFETY: the vector outlives the waits.
            unsafe { ep.irecv_raw(from, word.as_mut_ptr(), word.len()).unwrap() }
        })
        .collect();
    for (to, &rank) in ranks.iter().enumerate() {
        let word = [(me as u64).to_le_bytes(), (to as u64).to_le_bytes()].concat();
        let dest = Dest::new(rank, round).context(0x4000).data(me as u32);
        // SAFETY: the bytes live until the call returns.
        unsafe { ep.inject(&dest, word.as_ptr(), word.len()).unwrap() };
    }
    for (from, receive) in receives.into_iter().enumerate() {
        let status = ep.wait(receive).unwrap();
        assert_eq!((status.source, status.data.get()), (ranks[from], Some(from as u32)));
        let expected = [(from as u64).to_le_bytes(), (me as u64).to_le_bytes()].concat();
        assert_eq!(&words[from][..], expected);
    }
}

#[test]
fn all_connect_to_all_at_once() {
    for n in [1, 2, 3, 8] {
        among(n, |ep, me, addresses| {
            // Each in another order, so that numbers differ and calls cross.
            let mut ranks = vec![0; n];
            for k in 0..n {
                let other = (k * 3 + me) % n;
                let other = if n == 3 { (k + me) % n } else { other };
                ranks[other] = ep.connect(&addresses[other]).unwrap();
            }
            assert_eq!(ranks[me], ep.rank());
            for round in 0..50 {
                exchange(ep, me, &ranks, round);
            }
            for (address, &rank) in addresses.iter().zip(&ranks) {
                assert_eq!(ep.peer_address(rank), Some(&**address));
                assert_eq!(ep.connect(address).unwrap(), rank);
            }
        });
    }
}

/// The server knows nobody's address, and answers who has come.
#[test]
fn who_comes_by_himself_is_answered() {
    const CLIENTS: usize = 6;
    among(CLIENTS + 1, |ep, me, addresses| {
        if me == 0 {
            for _ in 0..CLIENTS * 20 {
                let mut text = [0; 8];
                let status = ep.recv(Pattern::any_source(1), &mut text).unwrap();
                let client = status.data.get().unwrap() as usize;
                assert_eq!(ep.peer_address(status.source), Some(&*addresses[client]));
                ep.send((status.source, 2), &text).unwrap();
            }
            return;
        }
        let server = ep.connect(&addresses[0]).unwrap();
        for k in 0..20u64 {
            ep.send(Dest::new(server, 1).data(me as u32), &k.to_le_bytes()).unwrap();
            let mut echo = [0; 8];
            ep.recv((server, 2), &mut echo).unwrap();
            assert_eq!(u64::from_le_bytes(echo), k);
        }
    });
}

/// Every protocol, begun before there is a connection.
#[test]
fn messages_wait_for_the_connection() {
    const LENS: [usize; 6] = [0, 8, 300, 20_000, 200_000, 3_000_000];
    among(2, |ep, me, addresses| {
        let bytes = |len: usize| -> Vec<u8> { (0..len).map(|k| (k * 13) as u8).collect() };
        if me == 0 {
            let peer = ep.connect(&addresses[1]).unwrap();
            let all: Vec<_> = LENS.iter().map(|&len| bytes(len)).collect();
            let sends: Vec<_> = (0..)
                .zip(&all)
                // SAFETY: the vectors outlive the waits.
                .map(|(tag, one)| unsafe {
                    ep.isend_raw(Dest::new(peer, tag), one.as_ptr(), one.len()).unwrap()
                })
                .collect();
            ep.wait_all(&sends).unwrap();
            let mut done = [0; 1];
            ep.recv((peer, 99), &mut done).unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(50));
            let mut source = 0;
            for (tag, len) in (0..).zip(LENS) {
                let mut into = vec![0; len];
                let status = ep.recv(Pattern::any_source(tag), &mut into).unwrap();
                assert!(into == bytes(len), "{len} bytes");
                source = status.source;
            }
            ep.send((source, 99), b"!").unwrap();
        }
    });
}

#[test]
fn what_is_no_address_is_refused() {
    let mut ep = endpoint();
    let own = ep.address().to_owned();
    assert!(own.len() < 64 && own.is_ascii(), "{own}");
    assert_eq!(ep.connect(&own).unwrap(), ep.rank());
    for wrong in ["", "taffrail-\u{e9}", "two words", &"x".repeat(200)] {
        let error = ep.connect(wrong).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{wrong:?}: {error}");
    }
    // A rank that nobody has, at every way of sending.
    let nobody = Dest::new(5, 1);
    let long = vec![0; 1 << 20];
    for data in [&b"short"[..], &long] {
        let error = ep.send(nobody, data).unwrap_err();
        assert_eq!(error, Error::NoSuchRank { rank: 5, size: SEATS });
        // SAFETY: the bytes outlive the call, and no request is begun.
        let error = unsafe { ep.inject(&nobody, data.as_ptr(), data.len()).unwrap_err() };
        assert_eq!(error, Error::NoSuchRank { rank: 5, size: SEATS });
    }
}

#[test]
fn nobody_at_an_address_is_a_failure_of_that_peer() {
    let _watchdog = watchdog();
    let mut ep = endpoint();
    let gone = endpoint().address().to_owned();
    let peer = ep.connect(&gone).unwrap();
    let error = loop {
        match ep.send((peer, 1), b"hello?") {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::PeerFailed { rank, .. } if rank == peer), "{error}");
    // Others are none the worse for it.
    ep.send((0, 1), b"to myself").unwrap();
    let mut into = [0; 9];
    ep.recv((0, 1), &mut into).unwrap();
}

#[test]
fn who_leaves_is_known_to_the_others() {
    among(2, |ep, me, addresses| {
        if me == 0 {
            let peer = ep.connect(&addresses[1]).unwrap();
            ep.send((peer, 1), b"bye").unwrap();
            return;
        }
        let mut into = [0; 3];
        let status = ep.recv(Pattern::any_source(1), &mut into).unwrap();
        let error = ep.recv((status.source, 1), &mut into).unwrap_err();
        let closed = Error::PeerFailed { rank: status.source, fault: Fault::Closed };
        assert_eq!(error, closed);
    });
}

/// More come than there are peer slots: who is told no is told why, and those who are there go on.
#[test]
fn peer_slots_are_limited() {
    let _watchdog = watchdog();
    let mut small = Job::open(2).endpoint().unwrap();
    let mut first = endpoint();
    let peer = small.connect(first.address()).unwrap();
    let error = small.connect(endpoint().address()).unwrap_err();
    assert!(error.to_string().contains('2'), "{error}");
    // SAFETY: the literals are there for ever.
    unsafe { small.inject(&Dest::new(peer, 1), b"one".as_ptr(), 3).unwrap() };
    let mut text = [0; 3];
    // SAFETY: the array outlives the request.
    let receive = unsafe { first.irecv_raw(Pattern::any_source(1), text.as_mut_ptr(), 3).unwrap() };
    let deadline = Instant::now() + Duration::from_secs(60);
    while first.test(receive).unwrap().is_none() {
        small.progress();
        assert!(Instant::now() < deadline);
    }
    assert_eq!(&text, b"one");
}

/// A server of many clients, one after the other, with room for one.
#[test]
fn the_peer_slot_of_one_who_left_is_given_to_the_next() {
    let _watchdog = watchdog();
    let mut server = Job::open(2).endpoint().unwrap();
    let address = server.address().to_owned();
    for k in 0..20u32 {
        let address = address.clone();
        let client = std::thread::spawn(move || {
            let mut ep = endpoint();
            let peer = ep.connect(&address).unwrap();
            for context in [0x0000, 0x4000] {
                let to = Dest::new(peer, 1).context(context).data(k);
                ep.send(to, &[k as u8; 4000]).unwrap();
                let mut echo = [0; 4000];
                ep.recv(Pattern::new(peer, 2).context(context), &mut echo).unwrap();
                assert_eq!(echo, [k as u8; 4000]);
            }
        });
        let mut last = 0;
        for context in [0x0000, 0x4000] {
            let mut text = [0; 4000];
            let from = Pattern::any_source(1).context(context);
            let status = server.recv(from, &mut text).unwrap();
            assert_eq!((status.data.get(), text), (Some(k), [k as u8; 4000]));
            assert!(!server.forget(status.source), "it lives");
            server.send(Dest::new(status.source, 2).context(context), &text).unwrap();
            last = status.source;
        }
        client.join().unwrap();
        while !server.forget(last) {
            server.progress();
        }
        assert_eq!(server.peer_address(last), None);
    }
}

/// A watching rank gets one completion for each peer that goes, after it has received the messages of the peer.
#[test]
fn peers_that_go_are_told_once_each() {
    let _watchdog = watchdog();
    let mut server = Job::open(2).endpoint().unwrap();
    for k in 0..4u8 {
        let watch = server.watch_departures();
        server.report(watch).unwrap();
        let address = server.address().to_owned();
        let client = std::thread::spawn(move || {
            let mut ep = endpoint();
            let peer = ep.connect(&address).unwrap();
            ep.send((peer, 1), &[k; 100]).unwrap();
        });
        while !client.is_finished() {
            assert_eq!(server.next_ended().unwrap(), None);
        }
        client.join().unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        while Instant::now() < deadline {
            assert_eq!(server.next_ended().unwrap(), None, "nobody has received its message");
        }
        let mut text = [0; 100];
        server.recv(Pattern::any_source(1), &mut text).unwrap();
        assert_eq!(text, [k; 100]);
        let gone = loop {
            match server.next_ended().unwrap() {
                Some((request, Completion::Ended(Ok(status)))) if request == watch => {
                    break status.source;
                }
                None => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(server.forget(gone));
        assert_eq!(server.peer_address(gone), None);
    }
}

/// Each way long messages may come has its own reason, and what is only slower is not called unavailable.
#[test]
fn the_explanation_has_the_real_reason_of_each_way() {
    let _watchdog = watchdog();
    let announced = |read, pieces, streaming| Announced {
        bytes: vec![1 << 17, 1 << 20],
        read: Some(vec![read, 8.0 * read]),
        pieces: vec![pieces, 8.0 * pieces],
        streaming: vec![streaming, 8.0 * streaming],
        mapped: vec![pieces / 2.0, 4.0 * pieces],
    };
    let explained = |announced, way| {
        let tuning = Some(Arc::new(Tuning::new(64 << 10, 16 << 10, announced)));
        let settings = Settings { tuning, way, ..Settings::default() };
        let mut ep = Job::open(2).endpoint_with(settings).unwrap();
        let other = endpoint();
        let peer = ep.connect(other.address()).unwrap();
        let may_read = ep.reads_memory_of(peer).is_ok();
        let text = ep.explain();
        let of_peer = text.split(&format!("to rank {peer}")).nth(1).unwrap_or_default();
        let line = of_peer.lines().find(|line| line.contains("plain memory"));
        (may_read, line.unwrap_or_default().to_owned())
    };
    let (may_read, line) = explained(announced(5.0e4, 1.0e4, 2.0e4), None);
    let chosen =
        "from 131072 B on, plain memory: announced, in pieces (the first 131072 B: 10000 ns; ";
    assert!(line.contains(chosen), "{line}");
    assert!(line.contains("in pieces past the caches would take 20000 ns"), "{line}");
    assert_eq!(line.contains("not available"), !may_read, "{line}");
    assert_eq!(
        line.contains("read out of the sender's memory would take 50000 ns"),
        may_read,
        "{line}"
    );
    if may_read {
        let (_, line) = explained(announced(5.0e3, 1.0e4, 2.0e4), None);
        assert!(
            line.contains(
                "announced, read out of the sender's memory (the first 131072 B: 5000 ns"
            ),
            "{line}"
        );
        assert!(line.contains("in pieces would take 10000 ns"), "{line}");
    }
    let (_, line) = explained(announced(5.0e4, 1.0e4, 2.0e4), Some(Way::FragmentsNonTemporal));
    assert!(line.contains("announced, in pieces past the caches ("), "{line}");
}
