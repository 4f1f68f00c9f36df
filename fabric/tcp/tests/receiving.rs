//! What comes over a connection, however it was cut, and what is no frame at all.

#[path = "common/raw.rs"]
mod raw;

use raw::{Event, Notes, frame, goodbye, head, pattern, rank_0};
use std::io::Write;
use std::net::Shutdown;
use taffrail_fabric::{Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Refused, Source};
use taffrail_tcp::Config;

const SHORT: Config = Config { whole: 64, max_segments: 16, ..Config::DEFAULT };

fn lost(event: &Event, peer: u32) -> bool {
    matches!(event, Event::Link(it, LinkEvent::Broken(Fault::Lost(_))) if *it == peer)
}

#[test]
fn frames_that_come_byte_by_byte_arrive_whole() {
    let (mut fabric, mut ends) = rank_0(1, SHORT);
    let mut notes = Notes { rest: Some(vec![0; 1000]), ..Notes::default() };
    for (number, len) in [0, 1, 23, 24, 25, 63, 64].into_iter().enumerate() {
        let payload = pattern(number, len);
        let bytes = frame(9, number as u32, &payload);
        for (at, byte) in bytes.iter().enumerate() {
            notes.settle(&mut fabric);
            assert_eq!(notes.events, [], "{at} of {} bytes are there", bytes.len());
            ends[0].write_all(&[*byte]).unwrap();
        }
        notes.settle(&mut fabric);
        assert_eq!(notes.take(), [Event::Message(1, head(9, number as u32), payload, 0)]);
    }
}

#[test]
fn a_long_message_is_handed_over_with_its_header_and_goes_on_in_user_memory() {
    for cut in [24, 25, 100, 24 + 64, 24 + 65, 24 + 999] {
        let (mut fabric, mut ends) = rank_0(1, SHORT);
        let mut notes = Notes { rest: Some(vec![0; 1000]), ..Notes::default() };
        let payload = pattern(cut, 1000);
        let mut bytes = frame(1, 7, &payload);
        bytes.extend(frame(2, 8, b"behind it"));
        ends[0].write_all(&bytes[..cut]).unwrap();
        notes.settle(&mut fabric);
        let (here, left) = payload.split_at(cut - 24);
        assert_eq!(notes.take(), [Event::Message(1, head(1, 7), here.to_vec(), left.len())]);
        for byte in &left[..left.len() - 1] {
            ends[0].write_all(&[*byte]).unwrap();
            notes.settle(&mut fabric);
            assert_eq!(notes.events, [], "the rest is not all there");
        }
        ends[0].write_all(&bytes[24 + 999..]).unwrap();
        notes.settle(&mut fabric);
        let behind = Event::Message(1, head(2, 8), b"behind it".to_vec(), 0);
        assert_eq!(notes.take(), [Event::Moved(7, Ok(())), behind]);
        let rest = notes.rest.unwrap();
        assert_eq!(rest[..left.len()], *left);
        assert!(rest[left.len()..].iter().all(|&byte| byte == 0), "written behind the rest");
    }
}

#[test]
fn a_rest_that_does_not_fit_or_is_not_wanted_is_dropped() {
    for room in [None, Some(0), Some(1), Some(500), Some(899)] {
        let (mut fabric, mut ends) = rank_0(1, SHORT);
        let mut notes = Notes { rest: room.map(|len| vec![0; len]), ..Notes::default() };
        let payload = pattern(3, 1000);
        let mut bytes = frame(1, 7, &payload);
        bytes.extend(frame(2, 8, b"behind it"));
        ends[0].write_all(&bytes[..124]).unwrap();
        notes.settle(&mut fabric);
        ends[0].write_all(&bytes[124..]).unwrap();
        notes.settle(&mut fabric);
        let mut expected = vec![Event::Message(1, head(1, 7), payload[..100].to_vec(), 900)];
        expected.extend(room.map(|_| Event::Moved(7, Ok(()))));
        expected.push(Event::Message(1, head(2, 8), b"behind it".to_vec(), 0));
        assert_eq!(notes.take(), expected, "room for {room:?}");
        if let (Some(len), Some(rest)) = (room, notes.rest) {
            assert_eq!(rest, payload[100..100 + len]);
        }
    }
}

#[test]
fn what_is_no_frame_breaks_its_link_and_no_other() {
    let mut longest = frame(1, 0, &[]);
    longest[4..8].copy_from_slice(&262_209_u32.to_le_bytes());
    let mut huge = frame(1, 0, &[]);
    huge[4..8].fill(0xff);
    let mut talkative = goodbye();
    talkative[9] = 1;
    let cases = [
        (b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(), "the mark of a frame"),
        (vec![0; 24], "the mark of a frame"),
        (longest, "the length of a message"),
        (huge, "the length of a message"),
        (frame(Head::KINDS, 0, &[]), "the kind of a message"),
        (talkative, "a goodbye"),
    ];
    for (garbage, expected) in cases {
        let (mut fabric, mut ends) = rank_0(2, SHORT);
        let mut notes = Notes::default();
        let mut bytes = frame(1, 1, b"well");
        bytes.extend(garbage);
        bytes.extend(frame(1, 2, b"too late"));
        ends[0].write_all(&bytes).unwrap();
        notes.settle(&mut fabric);
        let events = notes.take();
        assert_eq!(events[0], Event::Message(1, head(1, 1), b"well".to_vec(), 0));
        let Event::Link(1, LinkEvent::Broken(fault @ Fault::Protocol { place, .. })) = &events[1]
        else {
            panic!("{events:?}")
        };
        assert_eq!((*place, events.len()), (expected, 2));
        let refused = fabric.send(PeerId(1), Head::default(), Source::Bytes(b""));
        assert_eq!(refused, Err(Refused::Failed(fault.clone())));
        assert!(fabric.drained(PeerId(1), Incarnation(0)));
        ends[1].write_all(&frame(1, 3, b"another peer")).unwrap();
        notes.settle(&mut fabric);
        assert_eq!(notes.take(), [Event::Message(2, head(1, 3), b"another peer".to_vec(), 0)]);
        assert!(!fabric.drained(PeerId(2), Incarnation(0)));
    }
}

#[test]
fn a_connection_that_ends_without_a_goodbye_is_lost_and_nobody_dead() {
    // Between frames, in a header, in a short payload, in a rest; closed, or only its writing half.
    for cut in [0, 1, 23, 30] {
        for half in [false, true] {
            let (mut fabric, mut ends) = rank_0(1, SHORT);
            let mut notes = Notes::default();
            ends[0].write_all(&frame(1, 1, b"well")).unwrap();
            ends[0].write_all(&frame(1, 2, &[5; 20])[..cut]).unwrap();
            match half {
                true => ends[0].shutdown(Shutdown::Write).unwrap(),
                false => drop(ends.remove(0)),
            }
            notes.settle(&mut fabric);
            let events = notes.take();
            assert_eq!(events[0], Event::Message(1, head(1, 1), b"well".to_vec(), 0));
            assert!(events.len() == 2 && lost(&events[1], 1), "{events:?}");
        }
    }
    let (mut fabric, mut ends) = rank_0(1, SHORT);
    let mut notes = Notes { rest: Some(vec![0; 1000]), ..Notes::default() };
    ends[0].write_all(&frame(1, 2, &[5; 1000])[..900]).unwrap();
    notes.settle(&mut fabric);
    drop(ends);
    notes.settle(&mut fabric);
    let events = notes.take();
    assert!(matches!(events[0], Event::Message(..)), "{events:?}");
    assert!(matches!(events[1], Event::Moved(2, Err(Fault::Lost(_)))), "{events:?}");
    assert!(events.len() == 3 && lost(&events[2], 1), "{events:?}");
}

#[test]
fn a_goodbye_is_the_last_frame() {
    let (mut fabric, mut ends) = rank_0(1, SHORT);
    let mut notes = Notes::default();
    let mut bytes = frame(1, 1, b"well");
    bytes.extend(goodbye());
    bytes.extend(frame(1, 2, b"too late"));
    ends[0].write_all(&bytes).unwrap();
    notes.settle(&mut fabric);
    let message = Event::Message(1, head(1, 1), b"well".to_vec(), 0);
    assert_eq!(notes.take(), [message, Event::Link(1, LinkEvent::Closed)]);
    fabric.disconnect(PeerId(1), Fault::Died);
    notes.settle(&mut fabric);
    assert_eq!(notes.events, [], "it had left before");
}

#[test]
fn one_peer_gets_one_read_in_a_poll() {
    let (mut fabric, mut ends) = rank_0(2, Config::default());
    let mut notes = Notes::default();
    for end in &mut ends {
        for number in 0..40 {
            end.write_all(&frame(1, number, &pattern(1, 4000))).unwrap();
        }
    }
    fabric.poll(&mut notes);
    for peer in [1, 2] {
        let from = |event: &&Event| matches!(event, Event::Message(it, ..) if *it == peer);
        let count = notes.events.iter().filter(from).count();
        assert!((1..=18).contains(&count), "{count} messages of {peer} by one poll");
    }
    notes.settle(&mut fabric);
    assert_eq!(notes.events.len(), 80);
}
