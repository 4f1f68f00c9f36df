//! In causal logging, the held tables of the ranks of a node: what they hold of others is there after their deaths, and survivors
//! of a lost node hand it over (`docs/spec/agent.md`, section 11).

use super::job::Job;
use super::recovery::failed;
use crate::eventlog::Download;
use crate::run::logger::CAPACITY;
use crate::run::{Failure, in_words};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use taffrail::words::counted;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{Frame, HELD_MAX};
use taffrail_logging::causal::{Causal, Determinant, HeldStore};
use taffrail_logging::store::{
    HeldTable, Owner, create_held, empty_memory, extend_packed, read_held,
};

/// A rank that takes in messages is looked at again after this.
const AGAIN: Duration = Duration::from_millis(1);

/// A rank that stands still while it takes in messages is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

/// The held tables of a node.
#[derive(Default)]
pub struct HeldTables {
    tables: BTreeMap<u32, OwnedFd>,
    /// What survivors hold, for ranks of lost nodes that are started here.
    of_survivors: Vec<u8>,
    /// A question that is not answered yet, and until when that may wait.
    asked: Option<(u64, Instant)>,
}

impl HeldTables {
    /// The table of a rank, which has what survivors hold if the rank has moved here.
    pub fn of(&mut self, owner: Owner, has_moved: bool) -> Result<BorrowedFd<'_>, Failure> {
        let entry = match self.tables.entry(owner.rank) {
            Entry::Occupied(entry) => {
                let file: &OwnedFd = entry.into_mut();
                return Ok(file.as_fd());
            }
            Entry::Vacant(entry) => entry,
        };
        let file = create_held(owner).map_err(|e| Failure::new(e.to_string()))?;
        if has_moved && !self.of_survivors.is_empty() {
            let copy = file.try_clone().map_err(|e| Failure::new(in_words(&e)))?;
            let add =
                |mut table: HeldTable| table.add(&self.of_survivors, &|| self.of_survivors.clone());
            let table = HeldTable::attach(copy, owner).map_err(|e| Failure::new(e.to_string()))?;
            add(table).map_err(|e| Failure::new(e.to_string()))?;
        }
        let file: &OwnedFd = entry.insert(file);
        Ok(file.as_fd())
    }

    /// Survivors hold these.
    pub fn take_in(&mut self, determinants: &[u8]) {
        self.of_survivors.extend_from_slice(determinants);
    }

    /// When the tables are to be looked at again.
    pub fn due(&self) -> Option<Instant> {
        self.asked.map(|_| Instant::now() + AGAIN)
    }

    /// What all ranks hold that have run here; `None` while one of them takes in messages.
    fn read(&self, job: u64, lives: impl Fn(u32) -> bool) -> Result<Option<Vec<u8>>, Failure> {
        let mut all = Vec::new();
        for (&rank, file) in &self.tables {
            let read = read_held(file.as_fd(), Owner { rank, job }, lives(rank));
            match read.map_err(|e| Failure::new(e.to_string()))? {
                Some(bytes) => all.extend(bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// The events of a rank of a lost node: those of its copy, and behind them those that survivors hold.
    pub fn complete(
        &self,
        owner: Owner,
        ranks: u32,
        download: Download,
    ) -> Result<Download, Failure> {
        let rank = owner.rank;
        let refused = |why: String| {
            Failure::new(format!("rank {rank} cannot be restarted: what survivors hold: {why}"))
        };
        let mut causal = Causal::new(rank, ranks, CAPACITY);
        causal.stable(rank, download.count);
        causal.adopt(&self.of_survivors).map_err(|e| refused(e.to_string()))?;
        let more: Vec<_> = causal.held_of(rank).map(Determinant::event).collect();
        if more.is_empty() {
            return Ok(download);
        }
        let count = download.count + more.len() as u64;
        let (copied, held) =
            (counted(download.count, "event"), counted(more.len() as u64, "event"));
        crate::log::note(&format!(
            "rank {rank}: {copied} copied here, and {held} that survivors held"
        ));
        let os = |e: std::io::Error| refused(in_words(&e));
        let (mut bytes, mut file) = (Vec::new(), File::from(download.file));
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(os)?;
        let name = format!("of rank {rank}, as they were copied");
        let bytes = extend_packed(owner, &name, bytes, more).map_err(|e| refused(e.to_string()))?;
        let file = empty_memory("taffrail-events").map_err(|e| refused(e.to_string()))?;
        let mut file = File::from(file);
        file.write_all(&bytes).and_then(|()| file.rewind()).map_err(os)?;
        Ok(Download { file: file.into(), count })
    }
}

impl Job {
    /// Survivors of a lost node are asked: the roster of this node has its ranks as dead (*closed-door*).
    pub fn ask_held(&mut self, number: u64) -> Vec<Event> {
        self.logs.held.asked = Some((number, Instant::now() + PATIENCE));
        self.answer_held()
    }

    /// Answers what was asked, if no rank takes in messages at this moment.
    pub fn answer_held(&mut self) -> Vec<Event> {
        let Some((number, until)) = self.logs.held.asked else { return Vec::new() };
        let lives = |rank: u32| self.ranks.contains_key(&(rank as usize));
        let determinants = match self.logs.held.read(job_digest(&self.about.name), lives) {
            Ok(Some(determinants)) => determinants,
            Ok(None) if Instant::now() < until => return Vec::new(),
            Ok(None) => {
                self.logs.held.asked = None;
                let seconds = PATIENCE.as_secs();
                return vec![failed(Failure::new(format!(
                    "a rank of this node has stood still for {seconds} s while it took in messages (was it stopped?), so \
                     that nobody can say what it holds of a lost node"
                )))];
            }
            Err(failure) => return vec![failed(failure)],
        };
        self.logs.held.asked = None;
        let parts = determinants.chunks(HELD_MAX).map(|part| (true, part.to_vec()));
        let frame = |(more, determinants)| Frame::Held { number, more, determinants };
        let all = parts.chain([(false, Vec::new())]);
        all.map(|part| Event::Say(frame(part))).collect()
    }
}
