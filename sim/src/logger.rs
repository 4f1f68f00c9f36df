//! The event logger: what is written, what is stable, and what a crash leaves.
//!
//! Each rank writes its records into a ring. The logger makes *cuts*: what all members of a set have
//! written at one moment, appended to the file of the set and stable when all of it is there. A cut
//! of a set as a whole leaves out no event that another in it depends on; if each rank were cut by
//! itself, a member could be replayed with a message that another member, whose events were lost,
//! never sends.

use crate::broken::Broken;
use taffrail_logging::{Clocked, Event, Rank, event::RECORD};

/// When events are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// When they are written: they survive killed processes.
    Process,
    /// When they are in the file: they survive the event logger.
    Disk,
}

type Record = [u8; RECORD];

/// The logs of one correlated set.
#[derive(Clone, Debug)]
struct SetLog {
    members: Vec<Rank>,
    /// What each member has written and the logger knows.
    rings: Vec<Vec<Record>>,
    /// How much of each ring is stable.
    stable: Vec<usize>,
    file: Vec<u8>,
    /// How much of the file is synced.
    synced: usize,
    /// The cut that is being written.
    cut: Option<Vec<usize>>,
    /// Members that have not come back since the logger has.
    awaited: Vec<bool>,
}

/// The event logger.
#[derive(Clone, Debug)]
pub struct Logger {
    durability: Durability,
    broken: Option<Broken>,
    sets: Vec<SetLog>,
    /// Where a rank is: its set, its place.
    at: Vec<(usize, usize)>,
    /// Whether it runs.
    pub runs: bool,
}

/// In the file: the rank, then the record; or, with this as the rank, the end of a cut.
const END: u32 = u32::MAX;
const ENTRY: usize = 4 + RECORD;

impl Logger {
    /// A logger of these sets.
    pub fn new(sets: &[Vec<Rank>], durability: Durability, broken: Option<Broken>) -> Self {
        let mut at = vec![(0, 0); sets.iter().map(Vec::len).sum()];
        for (set, members) in sets.iter().enumerate() {
            for (place, &rank) in members.iter().enumerate() {
                at[rank as usize] = (set, place);
            }
        }
        let logs = sets.iter().map(|members| SetLog {
            members: members.clone(),
            rings: vec![Vec::new(); members.len()],
            stable: vec![0; members.len()],
            file: Vec::new(),
            synced: 0,
            cut: None,
            awaited: vec![false; members.len()],
        });
        Logger { durability, broken, sets: logs.collect(), at, runs: true }
    }

    /// A rank writes an event. Lost, if nobody is there to take it.
    ///
    /// # Errors
    /// When it does not follow the one before.
    pub fn write(&mut self, rank: Rank, event: Clocked) -> Result<(), String> {
        let (set, place) = self.at[rank as usize];
        let log = &mut self.sets[set];
        // A ring in shared memory stays while the logger is away; one in its own memory does not,
        // and a rank writes again what was not stable before it goes on.
        let lost = self.durability == Durability::Disk && (!self.runs || log.awaited[place]);
        if lost {
            return Ok(());
        }
        let ring = &mut log.rings[place];
        if ring.len() as u64 + 1 != event.clock {
            let clock = event.clock;
            return Err(format!("rank {rank} writes event {clock} behind event {}", ring.len()));
        }
        ring.push(event.event.encode(rank, event.clock));
        if self.durability == Durability::Process {
            log.stable[place] = ring.len();
        }
        Ok(())
    }

    /// The clock up to which the events of a rank are stable.
    pub fn stable(&self, rank: Rank) -> u64 {
        let (set, place) = self.at[rank as usize];
        self.sets[set].stable[place] as u64
    }

    /// What ranks are told is stable: the same, but for one way to be broken.
    pub fn announced(&self, rank: Rank) -> u64 {
        let (set, place) = self.at[rank as usize];
        match self.broken {
            Some(Broken::LoggerPromises) => self.sets[set].rings[place].len() as u64,
            _ => self.stable(rank),
        }
    }

    /// Whether the logger can begin a cut of a set.
    pub fn can_cut(&self, set: usize) -> bool {
        let log = &self.sets[set];
        let complete = !log.awaited.contains(&true) || self.is(Broken::LoggerDoesNotWait);
        self.runs
            && self.durability == Durability::Disk
            && log.cut.is_none()
            && complete
            && (log.rings.iter().zip(&log.stable)).any(|(ring, stable)| ring.len() > *stable)
    }

    /// Begins a cut: appends what all members have written by now. (`chance`: which one, if each is
    /// cut by itself.)
    pub fn cut(&mut self, set: usize, chance: usize) {
        let one = self.is(Broken::LoggerCutsEachRank);
        let log = &mut self.sets[set];
        let mut cut = log.stable.clone();
        let open = |place: usize| log.rings[place].len() > log.stable[place];
        let count = log.rings.len();
        let chosen = (0..count).map(|k| (k + chance) % count).find(|&place| open(place));
        for place in (0..count).filter(|&place| !one || Some(place) == chosen) {
            for record in &log.rings[place][log.stable[place]..] {
                log.file.extend_from_slice(&log.members[place].to_le_bytes());
                log.file.extend_from_slice(record);
            }
            cut[place] = log.rings[place].len();
        }
        log.file.extend_from_slice(&END.to_le_bytes());
        log.cut = Some(cut);
    }

    /// Whether a cut of a set is being written.
    pub fn can_sync(&self, set: usize) -> bool {
        self.runs && self.sets[set].cut.is_some()
    }

    /// The cut is in the file: what is in it is stable.
    pub fn sync(&mut self, set: usize) {
        let log = &mut self.sets[set];
        if let Some(cut) = log.cut.take() {
            log.stable = cut;
            log.synced = log.file.len();
        }
    }

    /// All members of a set have died: nothing is awaited from them any more. If not all of them had
    /// come back after a crash of the logger, what some have written depends on what others have not.
    pub fn set_died(&mut self, set: usize) {
        let keep = self.is(Broken::LoggerDoesNotWait);
        let log = &mut self.sets[set];
        if log.awaited.contains(&true) && !keep {
            for (ring, stable) in log.rings.iter_mut().zip(&log.stable) {
                ring.truncate(*stable);
            }
        }
        log.awaited.fill(false);
    }

    /// Whether a member of a dead set may have its events: when all that were written are stable, so
    /// that all members get theirs as of one cut.
    pub fn can_download(&self, set: usize, is_dead: impl Fn(Rank) -> bool) -> bool {
        let log = &self.sets[set];
        let settled = |place: usize| log.rings[place].len() == log.stable[place];
        let dead = (0..log.members.len()).filter(|&place| is_dead(log.members[place]));
        self.runs && (self.is(Broken::DownloadsUnstable) || dead.into_iter().all(settled))
    }

    /// The events of a rank that starts again.
    pub fn download(&self, rank: Rank) -> Vec<(u64, Event)> {
        let (set, place) = self.at[rank as usize];
        let records = self.sets[set].rings[place].iter();
        records.map(|record| Event::decode(rank, record).expect("it was written here")).collect()
    }

    /// The logger is killed. Of the cut that was being written, `left` bytes are in the file, and one
    /// of these is perhaps not what was written.
    pub fn crash(&mut self, mut left: impl FnMut(usize) -> (usize, Option<usize>)) {
        self.runs = false;
        if self.durability == Durability::Process {
            return;
        }
        for log in &mut self.sets {
            let (kept, flipped) = left(log.file.len() - log.synced);
            log.file.truncate(log.synced + kept);
            if let Some(at) = flipped {
                log.file[log.synced + at] ^= 0x40;
            }
        }
    }

    /// The logger starts again, with what its files say.
    ///
    /// # Errors
    /// When something that was stable is not there.
    pub fn restart(&mut self, is_alive: impl Fn(Rank) -> bool) -> Result<(), String> {
        self.runs = true;
        if self.durability == Durability::Process {
            return Ok(());
        }
        let torn = self.is(Broken::LoggerBelievesTornCut);
        for log in &mut self.sets {
            let (rings, end) = read(&log.members, &log.file, torn);
            for ((ring, &stable), rank) in rings.iter().zip(&log.stable).zip(&log.members) {
                if ring.len() < stable {
                    let got = ring.len();
                    return Err(format!(
                        "of {stable} stable events of rank {rank}, {got} are left"
                    ));
                }
            }
            log.file.truncate(end);
            if torn {
                log.file.extend_from_slice(&END.to_le_bytes());
            }
            log.synced = log.file.len();
            log.stable = rings.iter().map(Vec::len).collect();
            log.rings = rings;
            log.cut = None;
            log.awaited = log.members.iter().map(|&rank| is_alive(rank)).collect();
        }
        Ok(())
    }

    /// Whether a rank that lives has to write again what was not stable.
    pub fn awaits(&self, rank: Rank) -> bool {
        let (set, place) = self.at[rank as usize];
        self.runs && self.sets[set].awaited[place]
    }

    /// A rank has come back: its events beyond the stable ones follow.
    pub fn comes_back(&mut self, rank: Rank) {
        let (set, place) = self.at[rank as usize];
        self.sets[set].awaited[place] = false;
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

/// The records of each member up to the last whole cut, and where that ends. A cut that is not whole,
/// or has a record that is not good, was never announced: it and what follows is left out.
fn read(members: &[Rank], file: &[u8], torn: bool) -> (Vec<Vec<Record>>, usize) {
    let mut rings = vec![Vec::new(); members.len()];
    let (mut end, mut at) = (0, 0);
    let mut cut: Vec<(usize, Record)> = Vec::new();
    let number = |at: usize| file.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    while let Some(rank) = number(at) {
        if rank == END {
            at += 4;
            end = at;
            for (place, record) in cut.drain(..) {
                rings[place].push(record);
            }
            continue;
        }
        let record = file.get(at + 4..at + ENTRY).and_then(|bytes| Record::try_from(bytes).ok());
        let place = members.iter().position(|&member| member == rank);
        let (Some(record), Some(place)) = (record, place) else { break };
        let before = cut.iter().filter(|(p, _)| *p == place).count() + rings[place].len();
        match Event::decode(rank, &record) {
            Ok((clock, _)) if clock == before as u64 + 1 => cut.push((place, record)),
            _ => break,
        }
        at += ENTRY;
    }
    if torn {
        end = at;
        for (place, record) in cut {
            rings[place].push(record);
        }
    }
    (rings, end)
}
