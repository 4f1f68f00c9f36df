//! One direction of a channel: frames in their order, each as late as it likes.

use crate::wire::{Direction, Frame, decode};

/// Frames are sent as bytes, so that the codec is part of what is simulated.
#[derive(Debug)]
pub struct Channel {
    from: Direction,
    /// When the last frame arrives, at the earliest.
    last: u64,
    /// Nothing arrives before.
    cut_until: u64,
    broken: bool,
}

impl Channel {
    pub fn new(from: Direction) -> Channel {
        Channel { from, last: 0, cut_until: 0, broken: false }
    }

    /// When a frame that is sent now arrives, if ever, and its bytes.
    pub fn send(&mut self, now: u64, delay: u64, frame: &Frame) -> Option<(u64, Vec<u8>)> {
        let bytes = frame.encode().unwrap_or_else(|e| panic!("{frame:?}: {e}"));
        if self.broken {
            return None;
        }
        self.last = self.last.max(now + delay).max(self.cut_until);
        Some((self.last, bytes))
    }

    /// A frame would arrive now. When it does instead, if the channel is cut.
    pub fn arrives(&mut self, now: u64, bytes: &[u8]) -> Arrival {
        if self.broken {
            return Arrival::Lost;
        }
        if now < self.cut_until {
            return Arrival::Later(self.cut_until);
        }
        let frame = decode(bytes, self.from);
        Arrival::Now(Box::new(frame.unwrap_or_else(|e| panic!("a frame that was written: {e}"))))
    }

    pub fn cut(&mut self, until: u64) {
        self.cut_until = self.cut_until.max(until);
        self.last = self.last.max(until);
    }

    /// Nothing arrives any more, what is under way included.
    pub fn break_off(&mut self) {
        self.broken = true;
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

#[derive(Debug)]
pub enum Arrival {
    Now(Box<Frame>),
    Later(u64),
    Lost,
}
