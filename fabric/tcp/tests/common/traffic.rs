//! Messages of all lengths from all kinds of memory, each checked in its turn.
#![allow(dead_code, reason = "no test program uses all of it")]

use super::raw::pattern;
use std::time::{Duration, Instant};
use taffrail_fabric::{
    BeforeLog, Body, Fabric, Fault, Head, LinkEvent, LogRange, PeerId, Refused, SendMemory, Sent,
    Sink, Source, Take, Token, UserBuf, UserBytes,
};
use taffrail_tcp::TcpFabric;

/// The length of a message is a function of its number.
fn len(seed: u64, number: u32) -> usize {
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(number) << 32);
    match random.u8(..8) {
        0 => random.usize(..=262_144),
        1 => random.usize(..=65_536),
        2 | 3 => random.usize(..20_000),
        _ => random.usize(..200),
    }
}

/// Sends a message, and writes it to segments behind that.
pub fn send_before_log(
    fabric: &mut TcpFabric,
    to: PeerId,
    head: Head,
    bytes: Vec<u8>,
) -> Result<Sent, Refused> {
    let segment_len = fabric.segment_len();
    let ranges: Vec<LogRange> = bytes
        .chunks(segment_len)
        .map(|piece| {
            let segment = fabric.take().expect("memory").expect("many segments");
            LogRange { segment, at: segment_len - piece.len(), len: piece.len() }
        })
        .collect();
    let (front, behind) = bytes.split_at(bytes.len() / 2);
    let parts = [front, behind];
    let result =
        fabric.send(to, head, Source::BeforeLog(&BeforeLog { parts: &parts, ranges: &ranges }));
    // Written or not, they are free for others once they are not in use any more.
    for (range, piece) in ranges.iter().zip(bytes.chunks(segment_len)) {
        fabric.write(range.segment, range.at, piece);
        fabric.release(range.segment);
    }
    result
}

/// One end of the traffic between two ranks.
#[derive(Debug)]
pub struct End {
    seed: u64,
    peer: PeerId,
    quota: u32,
    sent: u32,
    received: u32,
    /// The rest of a message, and what of it was there.
    rest: Option<(Head, Vec<u8>, Box<[u8]>)>,
    /// User memory of sends that have not ended, by token, in order.
    lent: Vec<(u64, Vec<u8>)>,
    tokens: u64,
}

impl End {
    /// An end that is to send `quota` messages.
    pub fn new(seed: u64, peer: u32, quota: u32) -> End {
        let peer = PeerId(peer);
        End { seed, peer, quota, sent: 0, received: 0, rest: None, lent: Vec::new(), tokens: 0 }
    }

    /// Sends the next one, if there is one and room.
    pub fn send(&mut self, fabric: &mut TcpFabric) {
        if self.sent == self.quota {
            return;
        }
        let bytes = pattern(self.sent as usize, len(self.seed, self.sent));
        let head = Head { kind: 2, context: 1, seq: self.sent, tag: bytes.len() as u64 };
        // Long ones have no place in a segment.
        let is_short = bytes.len() <= fabric.segment_len();
        let result = match self.sent % 4 {
            0 => fabric.send(self.peer, head, Source::Bytes(&bytes)),
            1 => send_before_log(fabric, self.peer, head, bytes),
            way if way == 2 || !is_short => {
                // SAFETY: its memory stays where it is, and is dropped when the send has ended.
                let user = unsafe { UserBytes::new(bytes.as_ptr(), bytes.len()) };
                let result = fabric.send(self.peer, head, Source::User(user, Token(self.tokens)));
                if result == Ok(Sent::Later) {
                    self.lent.push((self.tokens, bytes));
                    self.tokens += 1;
                }
                result
            }
            _ => {
                let segment = fabric.take().expect("memory").expect("many segments");
                fabric.write(segment, 0, &bytes);
                let range = LogRange { segment, at: 0, len: bytes.len() };
                let result = fabric.send(self.peer, head, Source::Log(range));
                // It is free for others once it is not in use any more.
                fabric.release(segment);
                result
            }
        };
        match result {
            Ok(_) => self.sent += 1,
            Err(Refused::Busy) => {}
            Err(refused) => panic!("message {}: {refused}", self.sent),
        }
    }

    pub fn is_done(&self, other_quota: u32) -> bool {
        self.sent == self.quota && self.received == other_quota && self.lent.is_empty()
    }

    pub fn received(&self) -> u32 {
        self.received
    }

    fn check(&mut self, head: Head, bytes: &[u8]) {
        let number = self.received;
        let expected =
            Head { kind: 2, context: 1, seq: number, tag: len(self.seed, number) as u64 };
        assert_eq!(head, expected, "seed {}", self.seed);
        assert!(bytes == pattern(number as usize, bytes.len()), "seed {}: {number}", self.seed);
        assert_eq!(bytes.len() as u64, head.tag);
        self.received += 1;
    }
}

impl Sink for End {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        assert_eq!(from, self.peer);
        assert!(self.rest.is_none(), "nothing comes before the rest");
        let here = body.here().to_vec();
        let left = body.len() - here.len();
        if left == 0 {
            self.check(head, &here);
            return Take::Done;
        }
        let mut rest = vec![0; left].into_boxed_slice();
        // SAFETY: boxed, and neither read nor dropped before `moved`.
        let buf = unsafe { UserBuf::new(rest.as_mut_ptr(), left) };
        self.rest = Some((head, here, rest));
        Take::Rest(buf, Token(u64::MAX))
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        assert_eq!(result, Ok(()));
        let (first, _) = self.lent.remove(0);
        assert_eq!(token, Token(first), "sends end once, in their order");
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        assert_eq!((token, result), (Token(u64::MAX), Ok(())));
        let (head, mut bytes, rest) = self.rest.take().expect("a rest under way");
        bytes.extend_from_slice(&rest);
        self.check(head, &bytes);
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        panic!("seed {}: {peer} {event:?}", self.seed);
    }
}

/// Steps both ends until all is there.
pub fn run(fabrics: &mut [TcpFabric; 2], ends: &mut [End; 2], limit: Duration) {
    let deadline = Instant::now() + limit;
    let quotas = [ends[1].quota, ends[0].quota];
    while !(0..2).all(|at| ends[at].is_done(quotas[at])) {
        for (fabric, end) in fabrics.iter_mut().zip(ends.iter_mut()) {
            end.send(fabric);
            fabric.poll(end);
        }
        let state = || ends.iter().map(|end| (end.sent, end.received, end.lent.len()));
        assert!(Instant::now() < deadline, "stuck: {:?}", state().collect::<Vec<_>>());
        std::thread::yield_now();
    }
}
