//! Between who copies, an event logger or an agent, and the copy store of another node: frames over TCP, behind the
//! handshake of `docs/spec/tcp.md` (`docs/spec/agent.md`, section 11).

use std::io::{Error, ErrorKind, Read, Result};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use taffrail_agent::{Incarnation, RANKS_MAX};
use taffrail_logging::event::RECORD;
use taffrail_logging::store::Unkept;
pub use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Secret, admission};

const HEADER: usize = 24;
const MARK: [u8; 2] = *b"TC";
/// Bytes of a body at most.
pub const LIMIT: usize = 1 << 16;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// How long the copy store may take for an answer that needs no work.
pub const ANSWER: Duration = Duration::from_secs(5);
/// Before a connection is tried again.
pub const PAUSE: Duration = Duration::from_millis(100);
/// A copy is reported as lost when all attempts have failed for so long.
pub const GIVE_UP: Duration = Duration::from_secs(4);

const BEGIN: u8 = 1;
const RECORDS: u8 = 2;
const CUT: u8 = 3;
const TAKEN: u8 = 4;
const BEGIN_CHECKPOINTS: u8 = 5;
const CHECKPOINT: u8 = 6;
const PART: u8 = 7;
const LOG: u8 = 8;
const SEGMENTS: u8 = 9;
const WHOLE: u8 = 10;
const BRING: u8 = 11;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFrame {
    /// A copy of all events of these ranks begins, by an order of this number.
    Begin { epoch: u64, ranks: Vec<u32> },
    /// Records of a rank, from that of this clock on.
    Records { rank: u32, clock: u64, bytes: Vec<u8> },
    /// The events of these ranks up to these clocks belong to the copy, all or none. Answered by `Taken`.
    Cut { number: u64, clocks: Vec<(u32, u64)> },
    /// They do; or a checkpoint is whole.
    Taken { number: u64 },
    /// Checkpoints of ranks are copied on this connection, by an order of this number.
    BeginCheckpoints { epoch: u64 },
    /// A checkpoint begins.
    Checkpoint { rank: u32, number: u64, about: CheckpointAbout },
    /// Bytes of it, from this one on.
    Part { rank: u32, at: u64, bytes: Vec<u8> },
    /// Bytes of the log that it refers to, from this place on.
    Log { rank: u32, place: u64, bytes: Vec<u8> },
    /// Segments of that log which are needed: numbers of the first, and how many there are.
    Segments { rank: u32, runs: Vec<(u64, u64)> },
    /// All of it has been sent. Answered by `Taken`.
    Whole { rank: u32, number: u64 },
    /// The log of a rank of a lost node comes on this connection, by an order of this number: its checkpoint, then its events.
    Bring { rank: u32, epoch: u64 },
}

/// What a checkpoint that is copied is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointAbout {
    /// Its bytes.
    pub len: u64,
    /// The incarnation that has taken it.
    pub incarnation: u32,
    /// Bytes of a segment of the log.
    pub segment: u32,
}

impl CopyFrame {
    fn parts(&self) -> (u8, u32, u64, Vec<u8>) {
        match self {
            CopyFrame::Begin { epoch, ranks } => {
                (BEGIN, 0, *epoch, ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect())
            }
            CopyFrame::Records { rank, clock, bytes } => (RECORDS, *rank, *clock, bytes.clone()),
            CopyFrame::Cut { number, clocks } => {
                let one = |(rank, clock): &(u32, u64)| {
                    [u64::from(*rank).to_le_bytes(), clock.to_le_bytes()].concat()
                };
                (CUT, 0, *number, clocks.iter().flat_map(one).collect())
            }
            CopyFrame::Taken { number } => (TAKEN, 0, *number, Vec::new()),
            CopyFrame::BeginCheckpoints { epoch } => (BEGIN_CHECKPOINTS, 0, *epoch, Vec::new()),
            CopyFrame::Checkpoint { rank, number, about } => {
                let CheckpointAbout { len, incarnation, segment } = about;
                let words = [incarnation.to_le_bytes(), segment.to_le_bytes()].concat();
                (CHECKPOINT, *rank, *number, [&len.to_le_bytes()[..], &words].concat())
            }
            CopyFrame::Part { rank, at, bytes } => (PART, *rank, *at, bytes.clone()),
            CopyFrame::Log { rank, place, bytes } => (LOG, *rank, *place, bytes.clone()),
            CopyFrame::Segments { rank, runs } => {
                let one = |(first, count): &(u64, u64)| {
                    [first.to_le_bytes(), count.to_le_bytes()].concat()
                };
                (SEGMENTS, *rank, 0, runs.iter().flat_map(one).collect())
            }
            CopyFrame::Whole { rank, number } => (WHOLE, *rank, *number, Vec::new()),
            CopyFrame::Bring { rank, epoch } => (BRING, *rank, *epoch, Vec::new()),
        }
    }

    /// Appends the bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let (kind, rank, value, body) = self.parts();
        head(kind, rank, value, body.len(), into);
        into.extend(body);
    }

    /// Waits for a frame.
    ///
    /// # Errors
    /// Those of the connection; [`ErrorKind::InvalidData`], naming the field, for what is no frame.
    pub fn read(from: &mut impl Read) -> Result<CopyFrame> {
        let mut header = [0; HEADER];
        from.read_exact(&mut header)?;
        let words = header.as_chunks::<4>().0;
        let [first, length, rank, zero] = [0, 1, 2, 3].map(|at| u32::from_le_bytes(words[at]));
        let value =
            u64::from_le_bytes([words[4], words[5]].concat().try_into().unwrap_or_default());
        let [a, b, kind, reserved] = first.to_le_bytes();
        if [a, b] != MARK || reserved != 0 || zero != 0 {
            return Err(wrong("mark", "TC, and 0 in what is reserved", header.escape_ascii()));
        }
        let length = length as usize;
        if length > LIMIT {
            return Err(wrong("length", "at most 65536", length));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        decode(kind, rank, value, body)
    }
}

fn decode(kind: u8, rank: u32, value: u64, body: Vec<u8>) -> Result<CopyFrame> {
    let length = body.len();
    if ![RECORDS, CHECKPOINT, PART, LOG, SEGMENTS, WHOLE, BRING].contains(&kind) && rank != 0 {
        return Err(wrong("rank", "0", rank));
    }
    Ok(match kind {
        CHECKPOINT.. => return decode_checkpoint(kind, rank, value, body),
        BEGIN_CHECKPOINTS if length == 0 => CopyFrame::BeginCheckpoints { epoch: value },
        BEGIN if length.is_multiple_of(4) && (1..=RANKS_MAX).contains(&(length / 4)) => {
            let ranks = body.as_chunks::<4>().0.iter().map(|rank| u32::from_le_bytes(*rank));
            CopyFrame::Begin { epoch: value, ranks: ranks.collect() }
        }
        RECORDS if value > 0 && length > 0 && length.is_multiple_of(RECORD) => {
            CopyFrame::Records { rank, clock: value, bytes: body }
        }
        CUT if length > 0 && length.is_multiple_of(16) => {
            let words = body.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let words: Vec<u64> = words.collect();
            let clocks = words.as_chunks::<2>().0.iter().map(|&[rank, clock]| {
                let rank = u32::try_from(rank).map_err(|_| wrong("rank", "32 bits", rank))?;
                Ok((rank, clock))
            });
            CopyFrame::Cut { number: value, clocks: clocks.collect::<Result<_>>()? }
        }
        TAKEN if length == 0 => CopyFrame::Taken { number: value },
        _ => return Err(wrong("type and length", "those of a frame", format!("{kind}, {length}"))),
    })
}

fn decode_checkpoint(kind: u8, rank: u32, value: u64, body: Vec<u8>) -> Result<CopyFrame> {
    let length = body.len();
    let words: Vec<u64> =
        body.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(match kind {
        CHECKPOINT if length == 16 && value > 0 => {
            let (len, incarnation, segment) = (words[0], words[1] as u32, (words[1] >> 32) as u32);
            let about = CheckpointAbout { len, incarnation, segment };
            CopyFrame::Checkpoint { rank, number: value, about }
        }
        PART if length > 0 => CopyFrame::Part { rank, at: value, bytes: body },
        LOG if length > 0 => CopyFrame::Log { rank, place: value, bytes: body },
        SEGMENTS if length > 0 && length.is_multiple_of(16) && value == 0 => {
            let runs = words.as_chunks::<2>().0.iter().map(|&[first, count]| (first, count));
            CopyFrame::Segments { rank, runs: runs.collect() }
        }
        WHOLE if length == 0 && value > 0 => CopyFrame::Whole { rank, number: value },
        BRING if length == 0 && value > 0 => CopyFrame::Bring { rank, epoch: value },
        _ => return Err(wrong("type and length", "those of a frame", format!("{kind}, {length}"))),
    })
}

fn head(kind: u8, rank: u32, value: u64, length: usize, into: &mut Vec<u8>) {
    into.extend(MARK);
    into.extend([kind, 0]);
    into.extend((length as u32).to_le_bytes());
    into.extend(rank.to_le_bytes());
    into.extend([0; 4]);
    into.extend(value.to_le_bytes());
}

/// Appends the frames of records, the first of which has this clock.
pub fn encode_records(rank: u32, mut clock: u64, records: &[u8], into: &mut Vec<u8>) {
    for some in records.chunks(LIMIT) {
        head(RECORDS, rank, clock, some.len(), into);
        into.extend(some);
        clock += (some.len() / RECORD) as u64;
    }
}

/// Appends the frames of a cut.
pub fn encode_cut<'a>(
    number: u64,
    members: impl Iterator<Item = Unkept<'a>>,
    into: &mut Vec<u8>,
) -> Vec<u32> {
    let mut clocks = Vec::new();
    for Unkept { rank, kept, clock, records } in members {
        encode_records(rank, kept + 1, records, into);
        clocks.push((rank, clock));
    }
    let ranks = clocks.iter().map(|(rank, _)| *rank).collect();
    CopyFrame::Cut { number, clocks }.encode(into);
    ranks
}

/// Connects with the copy store of a node.
pub fn connect(me: &Identity, node: u32, address: &str) -> Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(Error::other)?;
    let stream = admission::call(address, me, node, CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    Ok(stream)
}

pub fn wrong(field: &str, expected: impl ToString, got: impl ToString) -> Error {
    let (expected, got) = (expected.to_string(), got.to_string());
    let why = format!("a copy of events, {field}: expected {expected}, got {got}");
    Error::new(ErrorKind::InvalidData, why)
}

/// Who this process is to others that copy events of the same job. A rank has another digest.
pub fn identity(job: u64, secret: [u8; 32], node: u32) -> Identity {
    let mut digest = *b"........copy 1\0\0";
    digest[..8].copy_from_slice(&job.to_le_bytes());
    Identity { job: digest, secret: Secret::new(secret), rank: node, incarnation: Incarnation(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<CopyFrame> {
        vec![
            CopyFrame::Begin { epoch: 3, ranks: vec![1, 2] },
            CopyFrame::Records { rank: 2, clock: 7, bytes: vec![5; 2 * RECORD] },
            CopyFrame::Cut { number: 9, clocks: vec![(1, 0), (2, 8)] },
            CopyFrame::Taken { number: 9 },
            CopyFrame::BeginCheckpoints { epoch: 4 },
            CopyFrame::Checkpoint {
                rank: 1,
                number: 3,
                about: CheckpointAbout { len: 70, incarnation: 2, segment: 4096 },
            },
            CopyFrame::Part { rank: 1, at: 64, bytes: vec![1; 6] },
            CopyFrame::Log { rank: 1, place: 4096, bytes: vec![2; 9] },
            CopyFrame::Segments { rank: 1, runs: vec![(1, 1), (3, 4)] },
            CopyFrame::Whole { rank: 1, number: 3 },
            CopyFrame::Bring { rank: 1, epoch: 5 },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.encode(&mut bytes));
        let mut from = &bytes[..];
        for frame in all() {
            assert_eq!(CopyFrame::read(&mut from).unwrap(), frame);
        }
        assert_eq!(CopyFrame::read(&mut from).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn whatever_comes_is_refused_or_is_exactly_this() {
        for frame in all() {
            let mut good = Vec::new();
            frame.encode(&mut good);
            for bit in 0..good.len() * 8 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let mut from = &bytes[..];
                if let Ok(other) = CopyFrame::read(&mut from) {
                    let mut again = Vec::new();
                    other.encode(&mut again);
                    assert_eq!(again, bytes[..bytes.len() - from.len()]);
                }
            }
        }
    }

    #[test]
    fn records_are_cut_into_frames() {
        let (mut bytes, records) = (Vec::new(), vec![7; LIMIT + RECORD]);
        let members = [Unkept { rank: 4, kept: 10, clock: 2059, records: &records }];
        assert_eq!(encode_cut(1, members.into_iter(), &mut bytes), [4]);
        let mut from = &bytes[..];
        let mut clocks = Vec::new();
        while let Ok(frame) = CopyFrame::read(&mut from) {
            clocks.push(match frame {
                CopyFrame::Records { clock, .. } => clock,
                CopyFrame::Cut { clocks, .. } => clocks[0].1,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(clocks, [11, 11 + 2048, 2059]);
    }
}
