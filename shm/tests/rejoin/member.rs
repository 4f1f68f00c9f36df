//! A rank that sends to all others, and checks what it gets.

use std::time::Duration;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};
use taffrail_shm::{Config, Setup, ShmFabric};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a message with this number is: inline, pooled and empty ones.
fn length(number: u64) -> usize {
    [8, 0, 44, 45, 268, 269, 5000, 65536][number as usize % 8]
}

/// The name of a rank in a job with names; `None` in a job without.
pub fn name(job: &str, rank: u32) -> Option<String> {
    (job != NAMELESS).then(|| format!("{job}-{rank}"))
}

/// Stands for a job without names.
pub const NAMELESS: &str = "-";

/// The addresses of a job with names.
pub fn names(job: &str, ranks: u32) -> Vec<String> {
    (0..ranks).filter_map(|rank| name(job, rank)).collect()
}

/// A job with names that no other test has.
pub fn job_with_names(test: &str) -> String {
    format!("taffrail-test-{test}-{}", std::process::id())
}

pub fn setup(rank: u32, ranks: u32, incarnation: u32, generations: Vec<u32>, job: &str) -> Setup {
    Setup::new(Config {
        name: name(job, rank),
        incarnation,
        generations,
        restarts: true,
        job: [7, 7],
        outbox_max: 16 << 20,
        patience: PATIENCE,
        ..Config::new(rank, ranks)
    })
    .expect("memory and a listener")
}

/// What one rank knows of the others. A message carries its sender's incarnation as context, its
/// number as tag, and bytes made from both.
pub struct Log {
    /// For each rank: the incarnation that may send, if it is known before its first message, and the
    /// number of its next message.
    pub expected: Vec<(Option<u32>, u64)>,
    alive: Vec<bool>,
    /// Ranks that have reconnected since the last turn.
    back: Vec<usize>,
    wrong: Option<String>,
}

impl Log {
    fn new(incarnations: &[Option<u32>]) -> Self {
        let expected: Vec<_> = incarnations.iter().map(|&incarnation| (incarnation, 0)).collect();
        Log { alive: vec![true; expected.len()], expected, back: Vec::new(), wrong: None }
    }
}

impl Sink for Log {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        let got = (u32::from(head.context), head.tag);
        let (incarnation, number) = &mut self.expected[from.index()];
        let (incarnation, number) = (*incarnation.get_or_insert(got.0), *number);
        let bytes = body.here().to_vec();
        let whole = bytes.len() == length(number)
            && bytes.iter().all(|&b| b == (number as u8) ^ (incarnation as u8));
        if got != (incarnation, number) || !whole || !self.alive[from.index()] {
            self.wrong.get_or_insert(format!(
                "from rank {}: message {got:?} of {} bytes, expected {:?}, alive {}",
                from.0,
                bytes.len(),
                (incarnation, number),
                self.alive[from.index()]
            ));
        }
        self.expected[from.index()].1 += 1;
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        match event {
            LinkEvent::Up(incarnation) => self.restarted(peer, incarnation.0),
            LinkEvent::Closed => self.ended(peer, Fault::Closed),
            LinkEvent::Broken(why) => self.ended(peer, why),
        }
    }
}

impl Log {
    fn ended(&mut self, peer: PeerId, why: Fault) {
        if why != Fault::Died || !std::mem::replace(&mut self.alive[peer.index()], false) {
            self.wrong.get_or_insert(format!("rank {} failed: {why}", peer.0));
        }
    }

    fn restarted(&mut self, peer: PeerId, incarnation: u32) {
        let (before, _) = self.expected[peer.index()];
        let later = before.is_none_or(|before| incarnation > before);
        if !later || std::mem::replace(&mut self.alive[peer.index()], true) {
            self.wrong.get_or_insert(format!("rank {} is back as {incarnation}", peer.0));
        }
        self.expected[peer.index()] = (Some(incarnation), 0);
        self.back.push(peer.index());
    }
}

/// A rank that sends to all others, one message after the other, and takes what it gets.
pub struct Member {
    pub fabric: ShmFabric,
    pub log: Log,
    incarnation: u32,
    sent: Vec<u64>,
}

impl Member {
    pub fn new(fabric: ShmFabric, incarnation: u32, incarnations: &[Option<u32>]) -> Self {
        let sent = vec![0; incarnations.len()];
        Member { fabric, log: Log::new(incarnations), incarnation, sent }
    }

    pub fn turn(&mut self) {
        let me = self.fabric.me();
        for to in (0..self.sent.len() as u32).filter(|&to| PeerId(to) != me) {
            let number = self.sent[to as usize];
            let bytes = vec![(number as u8) ^ (self.incarnation as u8); length(number)];
            let head = Head { context: self.incarnation as u16, tag: number, ..Head::default() };
            let source = Source::Bytes(&bytes);
            if self.log.alive[to as usize] && self.fabric.send(PeerId(to), head, source).is_ok() {
                self.sent[to as usize] += 1;
            }
        }
        self.fabric.poll(&mut self.log);
        self.fabric.check(&mut self.log);
        for rank in self.log.back.drain(..) {
            // The successor has received nothing from this rank yet.
            self.sent[rank] = 0;
        }
        if let Some(wrong) = self.log.wrong.take() {
            panic!("rank {}: {wrong}", self.fabric.me().0);
        }
    }
}
