//! The bytes of a channel: the preamble, then frames.

use super::decode::decode_body;
use super::shape::{Direction, HEADER, Header};
use super::{Frame, Malformed};

/// The version of the protocol and of the roster.
pub const VERSION: u32 = 12;

/// Bytes of the preamble.
pub const PREAMBLE: usize = 24;

/// Bytes that may stand in front of an agent's preamble: the greeting of a login shell.
pub const GREETING_MAX: usize = 65_536;

const MARK: [u8; 16] = *b"\0TAFFRAIL-AGENT\n";

/// The first bytes of each end.
pub fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..16].copy_from_slice(&MARK);
    bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
    bytes[20..].copy_from_slice(&(!VERSION).to_le_bytes());
    bytes
}

/// A part of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The preamble was read, and this in front of it.
    Preamble(Vec<u8>),
    /// A frame.
    Frame(Frame),
}

/// Takes the bytes of a channel as they come.
#[derive(Debug)]
pub struct Decoder {
    from: Direction,
    bytes: Vec<u8>,
    /// Of `bytes`, how many were handed over.
    used: usize,
    /// Of `bytes`, how many have no preamble beginning in them.
    scanned: usize,
    greeted: bool,
    failed: Option<Malformed>,
}

impl Decoder {
    /// For what this end sends.
    pub fn new(from: Direction) -> Decoder {
        Decoder { from, bytes: Vec::new(), used: 0, scanned: 0, greeted: false, failed: None }
    }

    /// More bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.bytes.drain(..self.used);
            self.used = 0;
            self.bytes.extend(bytes);
        }
    }

    /// Whether the channel may end here: not within a frame or the preamble.
    pub fn is_between_frames(&self) -> bool {
        self.greeted && self.used == self.bytes.len()
    }

    /// The next part, if it is whole.
    ///
    /// # Errors
    /// [`Malformed`], for this and every further call: nothing behind a wrong byte is read.
    pub fn next_item(&mut self) -> Result<Option<Item>, Malformed> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let item = match self.greeted {
            true => self.frame(),
            false => self.preamble(),
        };
        item.inspect_err(|e| {
            self.failed = Some(e.clone());
            self.bytes = Vec::new();
            self.used = 0;
        })
    }

    fn preamble(&mut self) -> Result<Option<Item>, Malformed> {
        let mut windows = self.bytes[self.scanned..].windows(MARK.len());
        let at = windows.position(|window| window == MARK).map(|at| self.scanned + at);
        let most = if self.from == Direction::Up { GREETING_MAX } else { 0 };
        // Without a mark, the end of these bytes may be the beginning of one.
        let before = at.unwrap_or_else(|| {
            let mut partial = (0..MARK.len()).rev();
            let partial = partial.find(|&len| self.bytes.ends_with(&MARK[..len]));
            self.bytes.len() - partial.unwrap_or(0)
        });
        self.scanned = before;
        if before > most {
            let start = &self.bytes[..before.min(80)];
            return Err(Malformed::new(
                "preamble",
                "the greeting of taffrail agent",
                format!("\"{}\"", start.escape_ascii()),
            ));
        }
        let rest = &self.bytes[before..];
        let (Some(_), Some(bytes)) = (at, rest.first_chunk::<PREAMBLE>()) else { return Ok(None) };
        let words = bytes.as_chunks::<4>().0;
        let [version, check] = [4, 5].map(|at| u32::from_le_bytes(words[at]));
        if check != !version {
            return Err(Malformed::new(
                "preamble",
                "a version and its complement",
                bytes.escape_ascii(),
            ));
        }
        if version != VERSION {
            return Err(Malformed::new("version", VERSION, version));
        }
        self.greeted = true;
        self.used = before + PREAMBLE;
        Ok(Some(Item::Preamble(self.bytes[..before].to_vec())))
    }

    fn frame(&mut self) -> Result<Option<Item>, Malformed> {
        let Some((header, rest)) = self.bytes[self.used..].split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let header = Header::decode(header, self.from)?;
        let Some(body) = rest.get(..header.length) else { return Ok(None) };
        let frame = decode_body(&header, body)?;
        self.used += HEADER + header.length;
        Ok(Some(Item::Frame(frame)))
    }
}
