//! Copies of checkpoints, with the logs that they refer to: of each rank the last one that is whole.

use super::super::sending::{end_checkpoint, send, send_checkpoint};
use super::super::stream::{CheckpointAbout, CopyFrame, LIMIT, wrong};
use super::{Held, Shared};
use crate::run::rank_files::{SPILL, spill_folder_of};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Read, Result as IoResult};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use taffrail_logging::store::{
    CheckpointFiles, Owner, SegmentMap, Spill, checkpoint_place, empty_memory,
};

/// A log has numbered no more segments.
const SEGMENTS_MAX: u64 = 1 << 32;

/// All that are whole.
#[derive(Default)]
pub struct HeldCheckpoints {
    /// By which order, and the connection, of each node.
    connections: BTreeMap<u32, (u64, u64, TcpStream)>,
    next: u64,
    /// With the order by which it came.
    whole: BTreeMap<(u32, u32), (u64, WholeCheckpoint)>,
}

/// One of them.
#[derive(Clone)]
pub struct WholeCheckpoint {
    pub number: u64,
    pub incarnation: u32,
    checkpoint: Arc<File>,
    len: u64,
    log: Arc<File>,
    segment: u32,
    /// Segments of the log: the numbers of the first, and how many there are.
    runs: Vec<(u64, u64)>,
}

impl WholeCheckpoint {
    /// Its file, the places of the segments of its log, and these.
    pub fn files(&self) -> IoResult<[File; 3]> {
        let places = File::from(empty_memory("taffrail-places").map_err(Error::other)?);
        let map = SegmentMap::begin(places.try_clone()?, 0, self.segment as usize);
        let map = map.map_err(Error::other)?;
        for &(first, count) in &self.runs {
            (first..first + count).try_for_each(|number| map.in_file(number, true))?;
        }
        Ok([self.checkpoint.try_clone()?, places, self.log.try_clone()?])
    }
}

impl WholeCheckpoint {
    /// Sends it to another copy store, with all of its log that it refers to.
    pub fn send(&self, stream: &mut TcpStream, rank: u32) -> IoResult<()> {
        let WholeCheckpoint { number, incarnation, len, segment, .. } = *self;
        let about = CheckpointAbout { len, incarnation, segment };
        send(stream, &CopyFrame::Checkpoint { rank, number, about })?;
        let place = checkpoint_place(number);
        let read = |bytes: &mut [u8], at| self.checkpoint.read_exact_at(bytes, place + at);
        send_checkpoint(stream, rank, len, read)?;
        for &(first, count) in &self.runs {
            let size = u64::from(segment);
            self.send_log(stream, rank, (first * size, (first + count) * size))?;
        }
        end_checkpoint(stream, (rank, number, len), &self.runs)
    }

    /// The bytes between two places of the log, as far as it has been written.
    fn send_log(&self, stream: &mut TcpStream, rank: u32, (from, to): (u64, u64)) -> IoResult<()> {
        let mut place = from;
        while place < to {
            let mut bytes = vec![0; (to - place).min(LIMIT as u64) as usize];
            let read = self.log.read_at(&mut bytes, place)?;
            if read == 0 {
                return Ok(());
            }
            bytes.truncate(read);
            send(stream, &CopyFrame::Log { rank, place, bytes })?;
            place += read as u64;
        }
        Ok(())
    }
}

impl HeldCheckpoints {
    /// The last one of a rank by this order.
    pub fn of(&self, rank: u32, epoch: u64) -> Option<WholeCheckpoint> {
        let mut all = self.whole.iter();
        let found = all.find(|((_, of), (by, _))| *of == rank && *by == epoch);
        found.map(|(_, (_, whole))| whole.clone())
    }

    /// Ends the connections of an order.
    pub fn close(&self, epoch: u64) {
        let of_order = self.connections.values().filter(|(of, ..)| *of == epoch);
        of_order.for_each(|(.., connection)| _ = connection.shutdown(Shutdown::Both));
    }
}

impl Held {
    /// A node copies its checkpoints here by this order. What came by those before does not count any more.
    fn begin_checkpoints(&mut self, home: u32, epoch: u64, connection: TcpStream) -> IoResult<u64> {
        let held = &mut self.checkpoints;
        let before = held.connections.get(&home);
        if self.closed.contains(&epoch) || before.is_some_and(|(newest, ..)| *newest > epoch) {
            return Err(wrong("order", "one that is in force", epoch));
        }
        if let Some((.., before)) = before {
            let _ = before.shutdown(Shutdown::Both);
        }
        held.next += 1;
        held.connections.insert(home, (epoch, held.next, connection));
        held.whole.retain(|(of, _), (by, _)| *of != home || *by == epoch);
        Ok(held.next)
    }

    /// A checkpoint takes the place of the one before.
    fn keep_checkpoint(
        &mut self,
        home: u32,
        connection: u64,
        (rank, whole): (u32, WholeCheckpoint),
    ) -> IoResult<()> {
        let of_home = self.checkpoints.connections.get(&home);
        match of_home {
            Some(&(epoch, number, _)) if number == connection && !self.closed.contains(&epoch) => {
                self.checkpoints.whole.insert((home, rank), (epoch, whole));
                Ok(())
            }
            _ => Err(wrong("connection", "the last one of its node", "one before it")),
        }
    }
}

/// What comes of a rank.
struct Incoming {
    number: u64,
    about: CheckpointAbout,
    checkpoint: File,
    written: u64,
    log: Arc<File>,
    runs: Vec<(u64, u64)>,
}

impl Shared {
    /// Takes checkpoints of a node, as long as its connection lasts.
    pub(super) fn take_checkpoints(
        &self,
        (home, epoch): (u32, u64),
        reader: &mut impl Read,
        mut stream: TcpStream,
    ) -> IoResult<()> {
        let begun = self.held().begin_checkpoints(home, epoch, stream.try_clone()?);
        let taken = begun.and_then(|number| self.take_all((home, number), reader, &mut stream));
        // A sender whose frames are refused does not wait for an answer.
        let _ = stream.shutdown(Shutdown::Both);
        taken
    }

    fn take_all(
        &self,
        (home, connection): (u32, u64),
        reader: &mut impl Read,
        stream: &mut TcpStream,
    ) -> IoResult<()> {
        let mut arriving = Arriving::default();
        loop {
            let frame = CopyFrame::read(reader)?;
            let Some((rank, whole)) = arriving.take(frame, self.job)? else { continue };
            let number = whole.number;
            self.held().keep_checkpoint(home, connection, (rank, whole))?;
            arriving.forget_others(rank);
            send(stream, &CopyFrame::Taken { number })?;
        }
    }
}

/// Checkpoints that come over a connection.
#[derive(Default)]
pub struct Arriving(BTreeMap<u32, Incoming>);

impl Arriving {
    /// Takes a part of one. That which is whole now, and its rank.
    pub fn take(&mut self, frame: CopyFrame, job: u64) -> IoResult<Option<(u32, WholeCheckpoint)>> {
        match frame {
            CopyFrame::Checkpoint { rank, number, about } => {
                let log = self.0.get(&rank).and_then(|before| before.log_for(&about));
                self.0.insert(rank, Incoming::new(number, about, log)?);
            }
            CopyFrame::Part { rank, at, bytes } => self.of(rank)?.write(at, &bytes)?,
            CopyFrame::Log { rank, place, bytes } => {
                self.of(rank)?.log.write_all_at(&bytes, place)?;
            }
            CopyFrame::Segments { rank, runs } => self.of(rank)?.list(runs)?,
            CopyFrame::Whole { rank, number } => {
                let whole = self.of(rank)?.finish(number, Owner { rank, job })?;
                return Ok(Some((rank, whole)));
            }
            other => return Err(wrong("frame", "a part of a checkpoint", format!("{other:?}"))),
        }
        Ok(None)
    }

    fn of(&mut self, rank: u32) -> IoResult<&mut Incoming> {
        let expected = "one whose checkpoint has begun";
        self.0.get_mut(&rank).ok_or_else(|| wrong("rank", expected, rank))
    }

    /// Gives back the room of segments that the last checkpoint of a rank does not need.
    fn forget_others(&self, rank: u32) {
        self.0.get(&rank).into_iter().for_each(Incoming::forget_others);
    }
}

impl Incoming {
    /// The log stays where it is that of the same process: its segments come once.
    fn new(number: u64, about: CheckpointAbout, log: Option<Arc<File>>) -> IoResult<Incoming> {
        let log = match log {
            Some(log) => log,
            None => Arc::new(Spill::file_in(&spill_folder_of(std::env::var_os(SPILL)))?),
        };
        let checkpoint = empty_memory("taffrail-checkpoints").map_err(Error::other)?.into();
        Ok(Incoming { number, about, checkpoint, written: 0, log, runs: Vec::new() })
    }

    fn log_for(&self, about: &CheckpointAbout) -> Option<Arc<File>> {
        let is_same =
            self.about.incarnation == about.incarnation && self.about.segment == about.segment;
        is_same.then(|| self.log.clone())
    }

    /// Bytes of the checkpoint, without a gap.
    fn write(&mut self, at: u64, bytes: &[u8]) -> IoResult<()> {
        let left = self.about.len - self.written;
        if at != self.written || bytes.len() as u64 > left {
            let expected = format!("{} to {}", self.written, self.about.len);
            return Err(wrong(
                "bytes of a checkpoint",
                expected,
                format!("{} from {at}", bytes.len()),
            ));
        }
        self.checkpoint.write_all_at(bytes, checkpoint_place(self.number) + at)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Segments of the log that are needed, in their order.
    fn list(&mut self, runs: Vec<(u64, u64)>) -> IoResult<()> {
        for (first, count) in runs {
            let behind = self.runs.last().map_or(0, |(first, count)| first + count);
            let end = first.checked_add(count).filter(|end| *end <= SEGMENTS_MAX);
            if first < behind || count == 0 || end.is_none() {
                let got = format!("{count} from {first}");
                return Err(wrong("segments", format!("some from {behind} on"), got));
            }
            self.runs.push((first, count));
        }
        Ok(())
    }

    /// All has come.
    fn finish(&mut self, number: u64, owner: Owner) -> IoResult<WholeCheckpoint> {
        let is_whole = number == self.number && self.written == self.about.len;
        if !is_whole {
            let expected = format!("{} bytes of checkpoint {}", self.about.len, self.number);
            return Err(wrong("checkpoint", expected, format!("{} of {number}", self.written)));
        }
        let adopted = CheckpointFiles::adopt(self.checkpoint.try_clone()?, owner, number);
        adopted.map_err(|error| wrong("checkpoint", "one that is whole", error))?;
        Ok(WholeCheckpoint {
            number,
            incarnation: self.about.incarnation,
            checkpoint: Arc::new(self.checkpoint.try_clone()?),
            len: self.about.len,
            log: self.log.clone(),
            segment: self.about.segment,
            runs: self.runs.clone(),
        })
    }

    /// Gives back the room of segments that nobody needs any more.
    fn forget_others(&self) {
        let (size, mut behind) = (u64::from(self.about.segment), 0);
        for &(first, count) in &self.runs {
            if first > behind {
                // Where that is not possible they take room until all of the log goes.
                let _ = Spill::forget_in(&self.log, behind * size, (first - behind) * size);
            }
            behind = first + count;
        }
    }
}

#[cfg(test)]
mod tests;
