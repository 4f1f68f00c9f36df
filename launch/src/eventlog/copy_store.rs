//! The side of whoever starts a copy store: its process, its address, and what it hands out.

use super::keeper::{Download, Elsewhere, KeeperError, Target};
use super::packet::Packet;
use super::running::{CopyNews, Heard, Patience, Running, unasked};
use rustix::process::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use taffrail_logging::store::{CheckpointError, CheckpointFiles, Owner, Summary};

/// A checkpoint of a rank, with the log that it refers to, as a copy store hands it out.
#[derive(Debug)]
pub struct CopiedCheckpoint {
    /// Its number.
    pub number: u64,
    /// The incarnation that has taken it.
    pub incarnation: u32,
    /// The file of checkpoints, with this one.
    pub checkpoint: File,
    /// The places of the segments of the log: all are in the file.
    pub places: File,
    /// The file of them.
    pub spill: File,
}

impl CopiedCheckpoint {
    /// What it is, in short.
    ///
    /// # Errors
    /// [`CheckpointError`] when it is not what was copied.
    pub fn summary(&self, owner: Owner) -> Result<Option<Summary>, CheckpointError> {
        let file = self.checkpoint.try_clone();
        let file = file.map_err(|error| CheckpointError::Os { rank: owner.rank, error })?;
        CheckpointFiles::open(file, owner)?.summary()
    }
}

/// The copy store of a node.
#[derive(Debug)]
pub struct CopyStore {
    running: Running,
    /// What it was asked first.
    introduction: Packet,
    /// Empty until it listens.
    address: String,
    heard: Heard,
}

impl CopyStore {
    /// Starts it, and waits until it listens. `job` is the digest of the job, `network` where to listen; anywhere if it is
    /// empty. One that neither answers nor works for `patience` counts as gone.
    ///
    /// # Errors
    /// [`KeeperError`]: it has ended, or does not answer.
    pub fn start(
        program: &Path,
        job: u64,
        elsewhere: &Elsewhere,
        network: &str,
        patience: Duration,
    ) -> Result<CopyStore, KeeperError> {
        let patience = Patience { answer: patience, end: Duration::ZERO, waits: true };
        let mut store = CopyStore::begin(program, job, elsewhere, network, patience)?;
        store.listen()?;
        Ok(store)
    }

    /// Starts it. It may be asked when it [listens](Self::listen).
    ///
    /// # Errors
    /// [`KeeperError`]: it cannot be started, or has ended.
    pub fn begin(
        program: &Path,
        job: u64,
        elsewhere: &Elsewhere,
        network: &str,
        patience: Patience,
    ) -> Result<CopyStore, KeeperError> {
        let network = (!network.is_empty()).then(|| ["--network".into(), network.into()]);
        let arguments: Vec<OsString> = network.into_iter().flatten().collect();
        let patience = Patience { end: Duration::ZERO, ..patience };
        let mut running = Running::start(program, "copies", &arguments, false, patience)?;
        let (introduction, files) = elsewhere.introduction(job);
        running.put(&introduction, &files)?;
        Ok(CopyStore { running, introduction, address: String::new(), heard: Heard::default() })
    }

    /// Whether it has begun to listen since the last call.
    ///
    /// # Errors
    /// [`KeeperError`]: it has ended, or does not answer, or has not answered yet.
    pub fn listen(&mut self) -> Result<bool, KeeperError> {
        if !self.address.is_empty() {
            return Ok(false);
        }
        match self.running.exchange(&self.introduction, &[], &mut self.heard)? {
            (Packet::Listens { address }, _) => self.address = address,
            (other, _) => return Err(unasked(&other).into()),
        }
        Ok(true)
    }

    /// Where it listens; empty if it does not yet.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// Readable when there is news, or it is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.running.socket()
    }

    /// Whether it is not gone.
    pub fn is_there(&mut self) -> bool {
        self.running.is_there()
    }

    /// Lets it bring the log of a rank, which it has by the order `copy`, to another one. Nothing is added to that copy any more.
    ///
    /// # Errors
    /// [`KeeperError`]: it is gone, and all its copies with it.
    pub fn bring(&mut self, rank: u32, copy: u64, to: Target) -> Result<(), KeeperError> {
        let Target { epoch, node, address } = to;
        self.running.say(&Packet::Bring { rank, copy, epoch, node, address }, &[])
    }

    /// What has become of that.
    ///
    /// # Errors
    /// It is gone, and all its copies with it.
    pub fn news(&mut self) -> Result<Vec<CopyNews>, KeeperError> {
        let read = self.running.news(&mut self.heard);
        let news = std::mem::take(&mut self.heard.copies);
        match read {
            // What was said before is heard first.
            Err(error) if news.is_empty() => Err(error),
            _ => Ok(news),
        }
    }

    /// All events that a copy has of a rank, by an order of this number. Nothing is added to that copy any more.
    ///
    /// # Errors
    /// [`KeeperError::Refused`]: it has none. Else it is gone, and all its copies with it.
    pub fn fetch(&mut self, rank: u32, epoch: u64) -> Result<Download, KeeperError> {
        let packet = Packet::Fetch { rank, epoch };
        let download = self.running.ask(&packet, &[], &mut self.heard)?;
        download.ok_or_else(|| unasked(&packet).into())
    }

    /// The last checkpoint that a copy has of a rank, whose events were fetched. None: there is none.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn fetch_checkpoint(
        &mut self,
        rank: u32,
        epoch: u64,
    ) -> Result<Option<CopiedCheckpoint>, KeeperError> {
        let asked = Packet::FetchCheckpoint { rank, epoch };
        match self.running.exchange(&asked, &[], &mut self.heard)? {
            (Packet::Checkpoint { number: 0, .. }, _) => Ok(None),
            (Packet::Checkpoint { number, incarnation, .. }, files) => {
                let files: [OwnedFd; 3] = files.try_into().map_err(|_| unasked(&asked))?;
                let [checkpoint, places, spill] = files.map(File::from);
                let incarnation = incarnation as u32;
                Ok(Some(CopiedCheckpoint { number, incarnation, checkpoint, places, spill }))
            }
            (other, _) => Err(unasked(&other).into()),
        }
    }
}
