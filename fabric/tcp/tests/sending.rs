//! What leaves over a connection that takes little at a time, or nothing any more.

#[path = "common/raw.rs"]
mod raw;

use raw::{Event, Notes, connection, frame, goodbye, head, pattern, rank_0};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use taffrail_fabric::{
    Arming, Fabric, Fault, Head, Incarnation, LinkEvent, LogRange, PeerId, Refused, Segment,
    SegmentId, SendMemory, Sent, Source, Token, UserBytes, Wait,
};
use taffrail_tcp::{Config, Connection, TcpFabric};

const PEER: PeerId = PeerId(1);
const MAX: usize = 256 << 10;
/// Bytes that wait at most: a longest message, its header, and short ones behind it.
const QUEUE: usize = MAX + 64 + 24 + (16 << 10);

/// Rank 0 and the raw end of rank 1, over a socket that holds as little as the kernel permits.
fn tight() -> (TcpFabric, UnixStream) {
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    rustix::net::sockopt::set_socket_send_buffer_size(&here, 1).expect("a small buffer");
    let connections = vec![connection(1, 0, here)];
    let fabric = TcpFabric::new(PeerId(0), 2, connections, Config::default());
    (fabric.expect("connected sockets"), there)
}

/// Reads all that comes while rank 0 polls, by `each` bytes at most.
fn drain(
    fabric: &mut TcpFabric,
    notes: &mut Notes,
    end: &mut UnixStream,
    len: usize,
    each: usize,
) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut got = 0;
    end.set_nonblocking(true).expect("a socket");
    let deadline = Instant::now() + Duration::from_secs(20);
    while got < len {
        let upto = len.min(got + each);
        match end.read(&mut bytes[got..upto]) {
            Ok(0) => panic!("the end after {got} of {len} bytes"),
            Ok(now) => got += now,
            Err(_) => {
                fabric.poll(notes);
            }
        }
        assert!(Instant::now() < deadline, "stuck after {got} of {len} bytes");
    }
    assert!(end.read(&mut [0]).is_err(), "more bytes than were sent");
    bytes
}

fn user(bytes: &[u8]) -> UserBytes {
    // SAFETY: the tests keep them until the send has ended, or the fabric is dropped.
    unsafe { UserBytes::new(bytes.as_ptr(), bytes.len()) }
}

#[test]
fn frames_of_all_sources_leave_in_their_order_whatever_the_socket_takes() {
    for each in [1, 7, 100, 4096, 1 << 20] {
        let (mut fabric, mut end) = tight();
        let mut notes = Notes::default();
        let segment = fabric.take().expect("memory").expect("a segment");
        fabric.write(segment, 0, &pattern(1, 9000));
        let (long, short) = (pattern(2, 9000), pattern(3, 100));
        let foreign = pattern(4, 5000);
        let adopted = Segment { id: SegmentId(1000), bytes: user(&foreign) };
        fabric.adopt(adopted).expect("nothing to be refused");
        let log = |segment, at, len| Source::Log(LogRange { segment, at, len });
        let parts: Vec<&[u8]> = long.chunks(500).collect();
        // Each source once while the queue is empty or not; `Later` is for user memory that waits.
        let sends: [(Source<'_>, Vec<u8>, Sent); 9] = [
            (Source::Bytes(&short), short.clone(), Sent::Now),
            (Source::Bytes(&long), long.clone(), Sent::Now),
            (Source::User(user(&long), Token(7)), long.clone(), Sent::Later),
            (log(segment, 100, 8000), pattern(1, 9000)[100..8100].to_vec(), Sent::Now),
            (Source::Parts(&parts), long.clone(), Sent::Now),
            (log(SegmentId(1000), 1, 4999), foreign[1..].to_vec(), Sent::Now),
            (Source::User(user(&[]), Token(8)), vec![], Sent::Later),
            (Source::Bytes(&[]), vec![], Sent::Now),
            (log(segment, 0, 0), vec![], Sent::Now),
        ];
        let mut expected = Vec::new();
        for (number, (source, payload, sent)) in sends.into_iter().enumerate() {
            let result = fabric.send(PEER, head(4, number as u32), source);
            assert_eq!(result, Ok(sent), "send {number}");
            expected.extend(frame(4, number as u32, &payload));
        }
        assert!(fabric.uses(segment) && fabric.uses(SegmentId(1000)));
        assert!(!fabric.flushed(PEER));
        let bytes = drain(&mut fabric, &mut notes, &mut end, expected.len(), each);
        assert!(bytes == expected, "{each} bytes at a time");
        notes.settle(&mut fabric);
        assert_eq!(notes.take(), [Event::Sent(7, Ok(())), Event::Sent(8, Ok(()))]);
        assert!(!fabric.uses(segment) && !fabric.uses(SegmentId(1000)) && fabric.flushed(PEER));
        let now = fabric.send(PEER, head(4, 9), Source::User(user(&short), Token(9)));
        assert_eq!(now, Ok(Sent::Now), "it all leaves at once");
    }
}

#[test]
fn the_queue_is_bounded_and_has_room_again() {
    let (mut fabric, mut end) = tight();
    let mut notes = Notes::default();
    let long = pattern(5, MAX);
    let mut expected = Vec::new();
    for round in 0..3 {
        let mut accepted = 0;
        while let Ok(sent) = fabric.send(PEER, head(1, accepted), Source::Bytes(&long)) {
            assert_eq!(sent, Sent::Now);
            expected.extend(frame(1, accepted, &long));
            accepted += 1;
        }
        assert!((1..=2).contains(&accepted), "{accepted} longest messages in round {round}");
        // A short one has room behind a long one, and there is an end to these as well.
        let mut count = 0;
        while fabric.send(PEER, head(2, count), Source::Bytes(b"control")).is_ok() {
            expected.extend(frame(2, count, b"control"));
            count += 1;
        }
        assert!((10..10_000).contains(&count), "{count} short messages in round {round}");
        let mut lent = 0;
        let source = Source::User(user(&long), Token(0));
        while let Ok(sent) = fabric.send(PEER, head(3, lent), source) {
            assert_eq!(sent, Sent::Later);
            expected.extend(frame(3, lent, &long));
            lent += 1;
        }
        assert!((1..1000).contains(&lent), "{lent} messages of user memory in round {round}");
        let refused = fabric.send(PEER, head(1, 0), Source::Bytes(&[]));
        assert_eq!(refused, Err(Refused::Busy));
        let bytes = drain(&mut fabric, &mut notes, &mut end, expected.len(), MAX);
        assert!(bytes == expected, "round {round}");
        expected.clear();
        assert_eq!(notes.take(), vec![Event::Sent(0, Ok(())); lent as usize]);
    }
}

#[test]
fn a_constant_backlog_does_not_grow() {
    let (mut fabric, mut end) = tight();
    let mut notes = Notes::default();
    end.set_nonblocking(true).expect("a socket");
    let (mut sent, mut expected) = (0, 0);
    let mut stream = Vec::new();
    let mut buffer = vec![0; 3000];
    while expected < 20_000 {
        while fabric.send(PEER, head(2, sent), Source::Bytes(&pattern(sent as usize, 200))).is_ok()
        {
            sent += 1;
        }
        while let Ok(len @ 1..) = end.read(&mut buffer) {
            stream.extend_from_slice(&buffer[..len]);
        }
        fabric.poll(&mut notes);
        for bytes in stream.chunks_exact(224) {
            assert!(bytes == frame(2, expected, &pattern(expected as usize, 200)), "{expected}");
            expected += 1;
        }
        stream.drain(..stream.len() / 224 * 224);
        // The queue, and what the socket holds.
        assert!((sent - expected) as usize <= QUEUE / 224 + 100, "{sent} sent, {expected} read");
    }
}

#[test]
fn sends_under_way_end_with_the_link_in_an_error_once() {
    let fault = Fault::Unreachable { address: "it".into(), why: "a test".into() };
    for disconnect in [true, false] {
        let (mut fabric, end) = tight();
        let mut notes = Notes::default();
        let segment = fabric.take().expect("memory").expect("a segment");
        let long = pattern(5, MAX);
        for token in 1..4 {
            let source = Source::User(user(&long), Token(token));
            assert_eq!(fabric.send(PEER, head(1, 1), source), Ok(Sent::Later));
        }
        let log = Source::Log(LogRange { segment, at: 0, len: 10 });
        assert_eq!(fabric.send(PEER, head(1, 1), log), Ok(Sent::Now));
        match disconnect {
            true => fabric.disconnect(PEER, fault.clone()),
            false => drop(end),
        }
        notes.settle(&mut fabric);
        let events = notes.take();
        let Some(Event::Link(1, LinkEvent::Broken(why))) = events.last() else {
            panic!("{events:?}")
        };
        let mut expected: Vec<Event> = (1..4).map(|t| Event::Sent(t, Err(why.clone()))).collect();
        expected.push(Event::Link(1, LinkEvent::Broken(why.clone())));
        assert_eq!(events, expected);
        assert!(if disconnect { *why == fault } else { matches!(why, Fault::Lost(_)) }, "{why}");
        assert!(!fabric.uses(segment), "nobody will read it");
        assert!(fabric.flushed(PEER), "nothing is left to be flushed");
    }
}

#[test]
fn what_had_arrived_is_read_after_a_write_has_failed() {
    for last in [goodbye(), vec![]] {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        reset_behind(30, &last, connection(1, 0, here), there);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
        there.set_nodelay(true).expect("as a fabric's end is");
        let here = listener.accept().expect("it connects").0;
        // As many as the kernel certainly receives at once.
        reset_behind(10, &last, connection(1, 0, here), there);
    }
}

/// A peer that resets the connection by ending with unread bytes, behind `count` messages and `last`.
fn reset_behind(count: usize, last: &[u8], connection: Connection, mut end: impl Read + Write) {
    let fabric = TcpFabric::new(PeerId(0), 2, vec![connection], Config::default());
    let mut fabric = fabric.expect("connected sockets");
    let mut notes = Notes::default();
    fabric.send(PEER, head(1, 0), Source::Bytes(b"unread")).expect("room");
    for number in 0..count as u32 {
        end.write_all(&frame(1, number, &pattern(1, 4000))).expect("room");
    }
    end.write_all(last).expect("room");
    drop(end);
    // The failure of a write is no news yet: a goodbye may be waiting.
    let failed = fabric.send(PEER, Head::default(), Source::Bytes(b"too late"));
    assert_eq!(failed, Err(Refused::Busy));
    assert_eq!(fabric.arm(), Arming::Ready);
    notes.settle(&mut fabric);
    assert_eq!(fabric.arm(), Arming::Armed, "the link has ended");
    fabric.disarm();
    let messages = notes.events.iter().filter(|event| matches!(event, Event::Message(..))).count();
    assert_eq!(
        (messages, notes.events.len()),
        (count, count + 1),
        "all messages, and the end of the link"
    );
    match (&notes.events[count], last.is_empty()) {
        (Event::Link(1, LinkEvent::Closed), false) => {}
        (Event::Link(1, LinkEvent::Broken(Fault::Lost(_))), true) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sleeper_with_a_backlog_wakes_when_there_is_room() {
    let (mut fabric, mut end) = tight();
    let mut notes = Notes::default();
    let long = pattern(5, MAX);
    fabric.send(PEER, head(1, 0), Source::User(user(&long), Token(1))).expect("it is queued");
    notes.settle(&mut fabric);
    assert_eq!((notes.take(), fabric.arm()), (vec![], Arming::Armed));
    let fd = fabric.fd().try_clone_to_owned().expect("a descriptor");
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let readable =
        || rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&zero)) == Ok(1);
    assert!(!readable(), "the socket is full");
    let mut read = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            // The kernel wakes writers when most of what it holds was read.
            end.set_nonblocking(true).unwrap();
            while let Ok(len @ 1..) = end.read(&mut [0; 1000]) {
                read += len;
            }
        });
        let start = Instant::now();
        fabric.sleep(Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10), "it slept on, and there was room");
    });
    assert!(readable());
    fabric.disarm();
    drain(&mut fabric, &mut notes, &mut end, MAX + 24 - read, MAX);
    notes.settle(&mut fabric);
    assert_eq!(notes.take(), [Event::Sent(1, Ok(()))]);
    assert_eq!(
        fabric.arm(),
        Arming::Armed,
        "room alone does not wake a process that has nothing to send"
    );
}

#[test]
fn a_peer_that_reads_no_more_is_lost() {
    let (mut fabric, ends) = rank_0(1, Config::default());
    let mut notes = Notes::default();
    ends[0].shutdown(Shutdown::Read).expect("a socket");
    // Its other half stays open, and nothing comes over it.
    let failed = fabric.send(PEER, head(1, 0), Source::Bytes(b"anybody?"));
    assert_eq!(failed, Err(Refused::Busy));
    notes.settle(&mut fabric);
    let events = notes.take();
    assert!(
        matches!(&events[..], [Event::Link(1, LinkEvent::Broken(Fault::Lost(_)))]),
        "{events:?}"
    );
}

#[test]
fn a_peer_that_reads_no_more_and_writes_without_end_is_lost_as_well() {
    let (mut fabric, mut ends) = rank_0(1, Config::default());
    let mut notes = Notes::default();
    let mut end = ends.remove(0);
    end.shutdown(Shutdown::Read).expect("a socket");
    let writer =
        std::thread::spawn(move || while end.write_all(&frame(1, 0, &[1; 60_000])).is_ok() {});
    let deadline = Instant::now() + Duration::from_secs(20);
    while !matches!(notes.events.last(), Some(Event::Link(1, LinkEvent::Broken(Fault::Lost(_))))) {
        assert!(Instant::now() < deadline, "{} messages, and no end", notes.events.len());
        let _ = fabric.send(PEER, head(1, 0), Source::Bytes(b"anybody?"));
        fabric.poll(&mut notes);
    }
    writer.join().expect("its connection ends");
}

#[test]
fn the_kernel_probes_an_idle_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    let copy = there.try_clone().expect("a descriptor");
    let config = Config { heartbeat: Duration::from_millis(8500), ..Config::default() };
    let connections = vec![connection(1, 0, there)];
    let _fabric = TcpFabric::new(PeerId(0), 2, connections, config).expect("a connected stream");
    use rustix::net::sockopt;
    assert_eq!(sockopt::socket_keepalive(&copy), Ok(true));
    assert_eq!(sockopt::tcp_keepidle(&copy), Ok(Duration::from_secs(2)));
    assert_eq!(sockopt::tcp_keepintvl(&copy), Ok(Duration::from_secs(2)));
    assert_eq!(sockopt::tcp_keepcnt(&copy), Ok(3));
    // It would end with a peer that is alive and does not read, and this one is not made anew.
    assert_eq!(sockopt::tcp_user_timeout(&copy), Ok(0));
}

#[test]
fn who_leaves_says_goodbye_behind_its_last_frame_or_not_at_all() {
    let (mut fabric, mut end) = tight();
    fabric.send(PEER, head(1, 0), Source::Bytes(b"last")).expect("room");
    assert!(fabric.flushed(PEER));
    drop(fabric);
    let mut bytes = Vec::new();
    end.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [frame(1, 0, b"last"), goodbye()].concat());
    // A message that was cut short must not look like an orderly end.
    let (mut fabric, mut end) = tight();
    let long = pattern(1, MAX);
    fabric.send(PEER, head(1, 0), Source::Bytes(&long)).expect("it is queued");
    assert!(!fabric.flushed(PEER));
    drop(fabric);
    bytes.clear();
    end.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() < MAX && frame(1, 0, &long).starts_with(&bytes), "{}", bytes.len());
}

#[test]
fn a_new_connection_replaces_the_old_one_and_nothing_of_that_comes_after_it() {
    let (mut fabric, mut ends) = rank_0(1, Config { whole: 64, ..Config::default() });
    let mut notes = Notes { rest: Some(vec![0; 1000]), ..Notes::default() };
    ends[0].write_all(&frame(1, 1, &[1; 1000])[..500]).unwrap();
    notes.settle(&mut fabric);
    notes.take();
    let _ = ends[0].write_all(&[1; 100]);
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(&frame(1, 2, b"new")).unwrap();
    assert!(!fabric.drained(PEER, Incarnation(0)));
    fabric.add_connection(connection(1, 5, here)).expect("a stream socket");
    assert_eq!(fabric.arm(), Arming::Ready);
    assert!(fabric.drained(PEER, Incarnation(4)) && !fabric.drained(PEER, Incarnation(5)));
    assert_eq!(fabric.incarnation(PEER), Incarnation(5));
    notes.settle(&mut fabric);
    let events = notes.take();
    let Event::Link(1, LinkEvent::Broken(why @ Fault::Lost(_))) = &events[1] else {
        panic!("{events:?}")
    };
    assert_eq!(events[0], Event::Moved(1, Err(why.clone())));
    let new = Event::Message(1, head(1, 2), b"new".to_vec(), 0);
    assert_eq!(events[2..], [Event::Link(1, LinkEvent::Up(Incarnation(5))), new]);
    // Reset, since bytes of it were not read.
    assert!(!matches!(ends[0].read(&mut [0]), Ok(1..)), "the old connection is closed");
    drop(there);
    notes.settle(&mut fabric);
    assert_eq!(fabric.incarnation(PEER), Incarnation(5), "of the last link");
    assert!(fabric.drained(PEER, Incarnation(5)));
}
