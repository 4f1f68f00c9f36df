//! What a peer writes into its connection: messages as the specification reads them, or an end of its link alone.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::os::unix::net::UnixStream;
use taffrail_fabric::{
    Body, Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Sink, Take, Token, UserBuf,
};
use taffrail_tcp::{Config, Connection, TcpFabric};

const HOSTILE: PeerId = PeerId(1);
const HONEST: PeerId = PeerId(2);
const HEADER: usize = 24;

/// A message, and how many bytes of it were to come when it was handed over.
type Arrived = (Head, Vec<u8>, usize);

#[derive(Default)]
struct Notes {
    room: Option<usize>,
    rest: Option<Box<[u8]>>,
    messages: Vec<Arrived>,
    honest: usize,
    end: Option<LinkEvent>,
    lost_rest: bool,
}

impl Sink for Notes {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        if from == HONEST {
            self.honest += 1;
            return Take::Done;
        }
        assert!(self.end.is_none() && self.rest.is_none());
        let left = body.len() - body.here().len();
        self.messages.push((head, body.here().to_vec(), left));
        match self.room {
            Some(room) if left > 0 => {
                let rest = self.rest.insert(vec![0; room].into());
                // SAFETY: boxed, and dropped when `moved` has come or the fabric is gone.
                Take::Rest(unsafe { UserBuf::new(rest.as_mut_ptr(), room) }, Token(7))
            }
            _ => Take::Done,
        }
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent");
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        let rest = self.rest.take().expect("a rest under way");
        assert_eq!(token, Token(7));
        self.lost_rest = result.is_err();
        if let (Ok(()), Some((_, bytes, left))) = (result, self.messages.last_mut()) {
            bytes.extend_from_slice(&rest[..rest.len().min(*left)]);
        }
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        assert_eq!(peer, HOSTILE);
        assert!(self.end.replace(event).is_none(), "an end was reported twice");
    }
}

/// How a stream ends.
#[derive(Debug, PartialEq)]
enum End {
    Open,
    Goodbye,
    Garbage,
}

/// The messages of at most `longest` bytes in a stream, their payloads as far as they are there, by the specification.
fn read(mut stream: &[u8], longest: usize) -> (Vec<(Head, &[u8], usize)>, End) {
    let mut messages = Vec::new();
    while let Some((header, behind)) = stream.split_first_chunk::<HEADER>() {
        let number = |at: usize, len: usize| {
            header[at..at + len].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        let len = number(4, 4) as usize;
        let begins = |kind| header.starts_with(&[b'T', b'F', kind]);
        if begins(2) && header[3..].iter().all(|&byte| byte == 0) {
            return (messages, End::Goodbye);
        }
        if !begins(1) || header[3] >= Head::KINDS || len > longest || number(22, 2) != 0 {
            return (messages, End::Garbage);
        }
        let head = Head {
            kind: header[3],
            context: number(20, 2) as u16,
            seq: number(16, 4) as u32,
            tag: number(8, 8),
        };
        let (payload, after) = behind.split_at(len.min(behind.len()));
        messages.push((head, payload, len));
        stream = after;
    }
    (messages, End::Open)
}

fn rank_0(config: Config) -> (TcpFabric, Vec<UnixStream>) {
    let mut ends = Vec::new();
    let connections = [HOSTILE, HONEST].map(|peer| {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        there.set_nonblocking(true).expect("a socket");
        ends.push(there);
        Connection { peer, incarnation: Incarnation::default(), socket: here.into() }
    });
    let fabric = TcpFabric::new(PeerId(0), 3, connections.into(), config);
    (fabric.expect("connected sockets"), ends)
}

fuzz_target!(|input: &[u8]| {
    let Some((&[whole, chunk, room], stream)) = input.split_first_chunk() else { return };
    let whole = usize::from(whole);
    let (mut fabric, mut ends) = rank_0(Config { whole, ..Config::default() });
    let room = (room < 255).then_some(usize::from(room) * 4);
    let mut notes = Notes { room, ..Notes::default() };
    for chunk in stream.chunks(1 + usize::from(chunk) * 4) {
        // It is refused once the link has ended.
        let _ = ends[0].write_all(chunk);
        fabric.poll(&mut notes);
    }
    for _ in 0..3 {
        fabric.poll(&mut notes);
    }
    let (expected, end) = read(stream, fabric.limits(HOSTILE).max_message);
    match (&notes.end, end) {
        (None, End::Open) | (Some(LinkEvent::Closed), End::Goodbye) => {}
        (Some(LinkEvent::Broken(Fault::Protocol { .. })), End::Garbage) => {}
        other => panic!("{other:?}"),
    }
    assert!(!notes.lost_rest, "only a link that ends in the middle of a message loses its rest");
    let under_way = notes.rest.is_some();
    for (number, (head, payload, len)) in expected.iter().enumerate() {
        let is_last = number + 1 == expected.len();
        let Some((got, bytes, left)) = notes.messages.get(number) else {
            assert!(is_last && payload.len() < *len && *len <= whole, "message {number} of {len}");
            break;
        };
        assert!(head == got && (*left == 0 || *len > whole), "message {number}");
        let here = len - left;
        let wanted = here + room.unwrap_or(0).min(*left);
        // The rest of the last one may be under way.
        let there = if under_way && is_last { here } else { wanted.min(payload.len().max(here)) };
        assert_eq!(bytes[..], payload[..there], "message {number} of {len}");
    }
    assert!(notes.messages.len() <= expected.len());
    ends[1].write_all(&[b'T', b'F', 1].into_iter().chain([0; 21]).collect::<Vec<_>>()).unwrap();
    // Of four polls one looks at all peers.
    for _ in 0..4 {
        fabric.poll(&mut notes);
    }
    assert_eq!(notes.honest, 1, "another peer is not concerned");
});
