//! What the hostile peer is told by the victim, so that it can answer as it should.

use taffrail_fabric::{Body, Fault, Head, LinkEvent, PeerId, Sink, Take, Token};

/// Operations of the victim, as it names them, and the bytes each still wants or has.
#[derive(Default)]
pub struct Told {
    /// Receives and gets that wait for fragments.
    pub wants: Vec<Wanted>,
    /// Sends that were announced.
    pub has: Vec<(u64, usize)>,
}

/// What an operation of the victim still waits for.
pub struct Wanted {
    pub name: u64,
    /// The first byte that is missing.
    pub from: u64,
    pub left: usize,
}

impl Sink for Told {
    fn message(&mut self, _: PeerId, head: Head, body: Body<'_>) -> Take {
        let bytes = body.here().to_vec();
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 8).map(|b| b.try_into().expect("8 bytes"));
            bytes.map_or(0, u64::from_le_bytes)
        };
        match head.kind {
            2 => self.has.push((word(0), bytes.len() - 8)),
            5 => self.has.push((word(8), word(0) as usize)),
            6 => self.wants.push(Wanted { name: word(8), from: 0, left: word(0) as usize }),
            12 => self.wants.push(Wanted { name: head.tag, from: 0, left: word(16) as usize }),
            _ => {}
        }
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}
