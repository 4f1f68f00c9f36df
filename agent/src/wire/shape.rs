//! The header, and what the types of frames have in common.

use super::Malformed;
use crate::RANKS_MAX;
use crate::roster::ADDRESS_MAX;

/// Bytes of a header.
pub const HEADER: usize = 16;

const MARK: [u8; 2] = *b"TA";

/// Who sends a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The agent, to the launcher.
    Up,
    /// The launcher, to the agent.
    Down,
}

/// The type of a frame.
#[derive(Debug)]
pub(super) struct Shape {
    pub name: &'static str,
    pub up: bool,
    pub down: bool,
    pub of_rank: bool,
    /// Bytes of the body at most.
    pub limit: usize,
}

const fn shape(name: &'static str, way: &str, of_rank: bool, limit: usize) -> Shape {
    let way = way.as_bytes();
    let (up, down) = (way[0] == b'U', way[way.len() - 1] == b'D');
    Shape { name, up, down, of_rank, limit }
}

/// Bytes of the body of a frame with text.
pub(super) const TEXT: usize = 4096;

/// Bytes of a determinant (`docs/logging.md`, section 13).
pub(super) const DETERMINANT: usize = 40;

/// Bytes of determinants in a frame at the most.
pub const HELD_MAX: usize = 1600 * DETERMINANT;

/// Type 1 is the first.
pub(super) static SHAPES: [Shape; 44] = [
    shape("HELLO", "U", false, 16_384),
    shape("WELCOME", "D", false, TEXT),
    shape("RENEW", "U", false, 8),
    shape("GRANT", "D", false, 8),
    shape("ROSTER", "D", false, 65_536),
    shape("ROSTER_ACK", "U", false, 8),
    shape("PROGRAM", "D", false, 4 << 20),
    shape("START", "D", true, 8 + 4 * RANKS_MAX),
    shape("STARTED", "U", true, 4),
    shape("ENDED", "U", true, TEXT),
    shape("MEMBER", "U", true, TEXT),
    shape("OUTPUT", "U", true, 65_537),
    shape("OUTPUT_TAKEN", "D", false, 4),
    shape("INPUT", "D", true, 65_536),
    shape("INPUT_TAKEN", "U", true, 4),
    shape("SIGNAL", "D", false, 8),
    shape("KILL", "D", true, 0),
    shape("RELEASE", "D", false, 0),
    shape("PUT", "UD", true, TEXT),
    shape("ENTER", "U", true, 8),
    shape("COMPLETE", "D", false, 8),
    shape("ADDRESS", "UD", true, ADDRESS_MAX),
    shape("WAVE", "D", true, 32),
    shape("END", "D", false, 8),
    shape("FAREWELL", "D", false, 0),
    shape("REVOKE", "D", false, TEXT),
    shape("GOODBYE", "U", false, 40),
    shape("FAILED", "U", false, TEXT),
    shape("NOTE", "U", false, TEXT),
    shape("LOGGING", "D", false, TEXT + 4 * RANKS_MAX),
    shape("RECOVER", "D", true, 8),
    shape("RECOVERED", "U", true, 24),
    shape("LEFT", "U", true, 8),
    shape("STORE", "U", false, TEXT),
    shape("COPY", "D", false, TEXT),
    shape("COPIED", "U", false, 8),
    shape("UNCOPIED", "U", false, TEXT),
    shape("ASK_HELD", "D", false, 8),
    shape("HELD", "UD", false, 12 + HELD_MAX),
    shape("NETWORK", "D", false, TEXT),
    shape("LINK", "U", true, TEXT),
    shape("BRING", "D", true, TEXT),
    shape("BROUGHT", "U", true, TEXT),
    shape("FINALIZING", "U", true, 8),
];

/// A header whose every field was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub kind: u8,
    /// Bytes of the body.
    pub length: usize,
    pub rank: u32,
    pub incarnation: u32,
}

impl Header {
    pub fn shape(&self) -> &'static Shape {
        &SHAPES[usize::from(self.kind) - 1]
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&MARK);
        bytes[2] = self.kind;
        bytes[4..8].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEADER], from: Direction) -> Result<Header, Malformed> {
        if bytes[..2] != MARK {
            return Err(Malformed::new("mark", "TA", bytes[..2].escape_ascii()));
        }
        let kind = bytes[2];
        let shape = usize::from(kind).checked_sub(1).and_then(|at| SHAPES.get(at));
        let shape =
            shape.ok_or_else(|| Malformed::new("type", format!("1 to {}", SHAPES.len()), kind))?;
        let right_way = if from == Direction::Up { shape.up } else { shape.down };
        if !right_way {
            let (expected, got) = match from {
                Direction::Up => ("a frame of an agent", "one of the launcher"),
                Direction::Down => ("a frame of the launcher", "one of an agent"),
            };
            return Err(Malformed::new("type", expected, format!("{got}, {}", shape.name)));
        }
        if bytes[3] != 0 {
            return Err(Malformed::new("byte 3", 0, bytes[3]));
        }
        let words = bytes.as_chunks::<4>().0;
        let [length, rank, incarnation] = [1, 2, 3].map(|at| u32::from_le_bytes(words[at]));
        if length as usize > shape.limit {
            let expected = format!("at most {} in {}", shape.limit, shape.name);
            return Err(Malformed::new("length", expected, length));
        }
        if !shape.of_rank && (rank, incarnation) != (0, 0) {
            let expected = format!("0, 0 in {}", shape.name);
            let got = format!("{rank}, {incarnation}");
            return Err(Malformed::new("rank and incarnation", expected, got));
        }
        Ok(Header { kind, length: length as usize, rank, incarnation })
    }
}
