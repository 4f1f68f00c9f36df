//! What is sent to a copy store by all that copy: event loggers, agents with checkpoints, and other copy stores.

use super::stream::{ANSWER, CopyFrame, LIMIT, encode_records, wrong};
use std::fs::File;
use std::io::{Result, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use taffrail_logging::event::RECORD;
use taffrail_logging::store::FILE_HEADER;

/// Bytes of an event file that are read at once.
const PIECE: u64 = (1 << 16) - (1 << 16) % RECORD as u64;
/// Bytes of a checkpoint that a busy copy store checks in a second, at least: all of it is read once more when it is whole.
const CHECKED_IN_A_SECOND: u64 = 64 << 20;
/// Runs of segments in a frame.
const RUNS: usize = LIMIT / 16;

/// Sends a frame.
pub fn send(stream: &mut TcpStream, frame: &CopyFrame) -> Result<()> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    stream.write_all(&bytes)
}

/// Sends frames that end with a cut, and waits until that is taken.
pub fn transact(stream: &mut TcpStream, frames: &[u8]) -> Result<()> {
    stream.write_all(frames)?;
    match CopyFrame::read(stream)? {
        CopyFrame::Taken { .. } => Ok(()),
        other => Err(wrong("frame", "an answer to a cut", format!("{other:?}"))),
    }
}

/// Sends the events of a rank up to this clock, out of an event file.
pub fn send_events(stream: &mut TcpStream, rank: u32, file: &File, clock: u64) -> Result<()> {
    let (mut at, end) = (0, clock * RECORD as u64);
    while at < end {
        let mut piece = vec![0; PIECE.min(end - at) as usize];
        file.read_exact_at(&mut piece, FILE_HEADER as u64 + at)?;
        let mut frames = Vec::new();
        encode_records(rank, at / RECORD as u64 + 1, &piece, &mut frames);
        stream.write_all(&frames)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Sends the bytes of a checkpoint.
pub fn send_checkpoint(
    stream: &mut TcpStream,
    rank: u32,
    len: u64,
    read: impl Fn(&mut [u8], u64) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < len {
        let mut bytes = vec![0; (len - at).min(LIMIT as u64) as usize];
        read(&mut bytes, at)?;
        let read = bytes.len() as u64;
        send(stream, &CopyFrame::Part { rank, at, bytes })?;
        at += read;
    }
    Ok(())
}

/// How long a copy store may take to check a checkpoint of this number of bytes, and to answer.
fn time_to_check(len: u64) -> Duration {
    ANSWER + Duration::from_secs(len / CHECKED_IN_A_SECOND)
}

/// Ends a checkpoint of this number of bytes, with the segments of its log that are needed, and waits until it is taken.
pub fn end_checkpoint(
    stream: &mut TcpStream,
    (rank, number, len): (u32, u64, u64),
    runs: &[(u64, u64)],
) -> Result<()> {
    for runs in runs.chunks(RUNS) {
        send(stream, &CopyFrame::Segments { rank, runs: runs.to_vec() })?;
    }
    send(stream, &CopyFrame::Whole { rank, number })?;
    stream.set_read_timeout(Some(time_to_check(len)))?;
    let answer = CopyFrame::read(stream)?;
    stream.set_read_timeout(Some(ANSWER))?;
    match answer {
        CopyFrame::Taken { number: taken } if taken == number => Ok(()),
        other => {
            let expected = format!("checkpoint {number} to be taken");
            Err(wrong("frame", expected, format!("{other:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_checkpoint_has_time_to_be_checked() {
        assert_eq!(time_to_check(1 << 20), ANSWER);
        assert_eq!(time_to_check(64 << 30), ANSWER + Duration::from_secs(1024));
    }
}
