//! What arrives, held against what was sent.

use std::collections::VecDeque;
use taffrail_fabric::{Body, Fault, Head, LinkEvent, PeerId, Sink, Take, Token};

/// The bytes of message `number` of an honest peer.
pub fn pattern(number: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|k| (k.wrapping_mul(31).wrapping_add(number * 7)) as u8).collect()
}

#[derive(Debug)]
pub struct Ear {
    hostile: u32,
    honest: u32,
    /// Messages of the honest peer.
    pub heard: u32,
    /// What the hostile one has written by the rules; `None` once it has broken one.
    lawful: Option<VecDeque<(Head, Vec<u8>)>>,
    /// It has written where only others may.
    trespassed: bool,
    failed: Option<Fault>,
}

impl Ear {
    pub fn new(hostile: u32, honest: u32) -> Ear {
        Ear { hostile, honest, heard: 0, lawful: None, trespassed: false, failed: None }
    }

    /// From now on all is known that comes.
    pub fn begin(&mut self) {
        self.lawful = Some(VecDeque::new());
    }

    /// The hostile peer has written a message by the rules.
    pub fn expect(&mut self, head: Head, payload: Vec<u8>) {
        if let Some(lawful) = &mut self.lawful {
            lawful.push_back((head, payload));
        }
    }

    /// It has broken a rule: anything may come of it.
    pub fn lawless(&mut self) {
        self.lawful = None;
    }

    /// It has written into what belongs to others, who cannot be helped then.
    pub fn trespass(&mut self) {
        self.lawful = None;
        self.trespassed = true;
    }

    pub fn is_trusting(&self) -> bool {
        !self.trespassed
    }

    /// Whether all that was written by the rules has come.
    pub fn has_all(&self) -> bool {
        self.lawful.as_ref().is_none_or(VecDeque::is_empty)
    }
}

impl Sink for Ear {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        assert!(head.kind < Head::KINDS, "{head:?}");
        assert!(body.len() <= 64 * 1024, "{} bytes", body.len());
        let Body::Whole(payload) = body else { panic!("{body:?} of a line") };
        let bytes = payload.to_vec();
        if from.0 == self.honest && !self.trespassed {
            assert_eq!((head.kind, head.seq), (1, self.heard));
            assert_eq!(bytes, pattern(self.heard, bytes.len()));
            self.heard += 1;
        }
        if from.0 == self.hostile {
            assert_eq!(self.failed, None, "a message of one that has failed");
            if let Some(lawful) = &mut self.lawful {
                assert_eq!(Some((head, bytes)), lawful.pop_front());
            }
        }
        Take::Done
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent, and a line sends at once");
    }

    fn moved(&mut self, token: Token, _: Result<(), Fault>) {
        assert_eq!(token, Token(1));
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        let why = match event {
            LinkEvent::Up(incarnation) => panic!("{peer} is connected once more: {incarnation:?}"),
            LinkEvent::Closed => Fault::Closed,
            LinkEvent::Broken(why) => why,
        };
        assert!(self.trespassed || peer.0 == self.hostile, "{peer:?} did nothing: {why:?}");
        assert!(self.lawful.is_none(), "all was by the rules: {why:?}");
        if peer.0 == self.hostile {
            assert_eq!(self.failed.replace(why), None, "said twice");
        }
    }
}

/// Hears nothing.
pub struct Deaf;

impl Sink for Deaf {
    fn message(&mut self, _: PeerId, _: Head, _: Body<'_>) -> Take {
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}
