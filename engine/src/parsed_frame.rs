//! The codec of frames by itself, for benchmarks and fuzzing.

use crate::frame::Frame;
use std::ops::Deref;
use taffrail_fabric::{Fault, Head, Payload};

/// A frame that was decoded.
#[derive(Debug)]
pub struct ParsedFrame {
    frame: Frame,
    front: usize,
}

impl ParsedFrame {
    /// The frame of a message.
    ///
    /// # Errors
    /// [`Fault::Protocol`] when no peer that keeps the protocol sends this.
    #[inline]
    pub fn decode(head: Head, payload: &[u8]) -> Result<Self, Fault> {
        let (frame, front) = Frame::decode(head, &Payload::of(payload))?;
        Ok(ParsedFrame { frame, front })
    }

    /// How many bytes of the payload are the frame's; the others are its body.
    #[inline]
    pub fn front_len(&self) -> usize {
        self.front
    }

    /// The frame as it is sent: a head, and the front of the payload.
    #[inline]
    pub fn encode(&self) -> (Head, impl Deref<Target = [u8]> + use<>) {
        (self.frame.head(), self.frame.front())
    }
}
