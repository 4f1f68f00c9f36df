//! The event logger: what is written, what is stable, and what a crash leaves.
//!
//! Each rank writes its records into a ring. The logger makes *cuts*: what all members of a set have
//! written at one moment, appended to the files of the members, synced, and stable when a record that
//! names all of it is synced as well ([`Cut`]). A cut of a set as a whole leaves out no event that
//! another in it depends on; if each rank were cut by itself, a member could be replayed with a message
//! that another member, whose events were lost, never sends.

use crate::broken::Broken;
use crate::case::Case;
use crate::copies::CopyLoggers;
use taffrail_logging::event::{Full, RECORD};
use taffrail_logging::store::Durability;
use taffrail_logging::{Cut, Event, LoggedEvent, Rank, Set};

type Record = [u8; RECORD];

/// The logs of one correlated set.
#[derive(Clone, Debug)]
struct SetLog {
    set: Set,
    members: Vec<Rank>,
    /// What each member has written and the logger knows.
    rings: Vec<Vec<Record>>,
    /// How much of each ring is stable.
    stable: Vec<usize>,
    /// The records of each member, and how many bytes of them are synced.
    files: Vec<(Vec<u8>, usize)>,
    /// The blocks of the last cuts.
    cuts: Vec<u8>,
    /// The cut that is being made, and how far it is.
    cut: Option<(Cut, Stage)>,
    /// The number of the last one.
    number: u64,
    /// Members that have not come back since the logger has.
    awaited: Vec<bool>,
}

/// What of a cut is not synced yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Records,
    Seal,
}

/// The event logger.
#[derive(Debug)]
pub struct Logger {
    /// In its place several that each keep a copy.
    pub copies: Option<CopyLoggers>,
    durability: Durability,
    /// Nobody waits for events to be stable, so they are not until it says so, for each durability.
    causal: bool,
    broken: Option<Broken>,
    sets: Vec<SetLog>,
    /// Where a rank is: its set, its place.
    at: Vec<(usize, usize)>,
    /// Whether it runs.
    pub runs: bool,
}

impl Logger {
    /// The logger of a job.
    pub fn new(case: &Case) -> Self {
        let Case { durability, causal, broken, .. } = *case;
        let sets = &case.groups();
        let mut at = vec![(0, 0); sets.iter().map(Vec::len).sum()];
        for (set, members) in sets.iter().enumerate() {
            for (place, &rank) in members.iter().enumerate() {
                at[rank as usize] = (set, place);
            }
        }
        let logs = (0..).zip(sets).map(|(number, members)| {
            let set = Set { number, members: members.len() as u32, job: 0 };
            let mut log = SetLog {
                set,
                members: members.clone(),
                rings: vec![Vec::new(); members.len()],
                stable: vec![0; members.len()],
                files: vec![(Vec::new(), 0); members.len()],
                cuts: vec![0; set.file()],
                cut: None,
                number: 0,
                awaited: vec![false; members.len()],
            };
            log.seal(&Cut::none(members.clone()), usize::MAX);
            log
        });
        let several = matches!(durability, Durability::Node { .. });
        let copies = several.then(|| CopyLoggers::new(case));
        Logger { copies, durability, causal, broken, sets: logs.collect(), at, runs: true }
    }

    /// Whether a rank may have one more event that is not stable, given its limit of these. Where there are copies, the
    /// event is written.
    ///
    /// # Errors
    /// [`Full`].
    pub fn find_room(
        &mut self,
        rank: Rank,
        event: &LoggedEvent,
        capacity: u64,
    ) -> Result<(), Full> {
        if let Some(copies) = &mut self.copies {
            return copies.write(rank, event);
        }
        let is_room = event.clock <= self.stable(rank) + capacity;
        if is_room { Ok(()) } else { Err(Full) }
    }

    /// A rank writes an event that there is room for. Lost, if nobody is there to take it.
    ///
    /// # Errors
    /// When it does not follow the one before.
    pub fn write(&mut self, rank: Rank, event: LoggedEvent) -> Result<(), String> {
        if self.copies.is_some() {
            return Ok(());
        }
        let (set, place) = self.at[rank as usize];
        let log = &mut self.sets[set];
        // A ring in shared memory stays while the logger is away; one in its own memory does not,
        // and a rank writes the events that were not stable again before it continues.
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
        if self.durability == Durability::Process && !self.causal {
            log.stable[place] = ring.len();
        }
        Ok(())
    }

    /// The clock up to which the events of a rank are stable.
    pub fn stable(&self, rank: Rank) -> u64 {
        if let Some(copies) = &self.copies {
            return copies.stable(rank);
        }
        let (set, place) = self.at[rank as usize];
        self.sets[set].stable[place] as u64
    }

    /// The stable count that is published to ranks: the same, but for one way to be broken.
    pub fn announced(&self, rank: Rank) -> u64 {
        if let Some(copies) = &self.copies {
            return copies.announced(rank);
        }
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
            && self.copies.is_none()
            && (self.durability == Durability::Disk || self.causal)
            && log.cut.is_none()
            && complete
            && (log.rings.iter().zip(&log.stable)).any(|(ring, stable)| ring.len() > *stable)
    }

    /// Begins a cut: appends what all members have written by now. (`chance`: which one, if each is
    /// cut by itself.)
    pub fn cut(&mut self, set: usize, chance: usize) {
        let one = self.is(Broken::LoggerCutsEachRank);
        let first = if self.is(Broken::LoggerSealsFirst) { Stage::Seal } else { Stage::Records };
        let log = &mut self.sets[set];
        let mut clocks = log.stable.clone();
        let open = |place: usize| log.rings[place].len() > log.stable[place];
        let count = log.rings.len();
        let chosen = (0..count).map(|k| (k + chance) % count).find(|&place| open(place));
        if let (Durability::Process, Some(place)) = (self.durability, chosen) {
            log.stable[place] = log.rings[place].len();
            return;
        }
        for place in (0..count).filter(|&place| !one || Some(place) == chosen) {
            let new = &log.rings[place][log.stable[place]..];
            log.files[place].0.extend_from_slice(new.as_flattened());
            clocks[place] = log.rings[place].len();
        }
        log.cut = Some((log.named(log.number + 1, &clocks), first));
    }

    /// Whether a cut of a set is being written.
    pub fn can_sync(&self, set: usize) -> bool {
        self.runs && self.sets[set].cut.is_some()
    }

    /// What was being written of a cut is synced: its records, then what makes it valid. With both, it
    /// is stable.
    pub fn sync(&mut self, set: usize) {
        let log = &mut self.sets[set];
        let Some((cut, stage)) = log.cut.take() else { return };
        match stage {
            Stage::Records => log.files.iter_mut().for_each(|(file, synced)| *synced = file.len()),
            Stage::Seal => {
                log.seal(&cut, usize::MAX);
            }
        }
        let sealed = Cut::last(&log.set, &log.cuts).is_ok_and(|last| last == cut);
        if sealed && log.files.iter().all(|(file, synced)| file.len() == *synced) {
            log.number = cut.number;
            log.stable = log.clocks(&cut);
        } else {
            let other = if stage == Stage::Seal { Stage::Records } else { Stage::Seal };
            log.cut = Some((cut, other));
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

    /// A rank has died, and its ring with it: only what the logger has taken out of it is left. Until the
    /// rank is there again, and has written what others held of its events, nothing is known of what
    /// others have written that may depend on them.
    pub fn lost(&mut self, rank: Rank) {
        let (set, place) = self.at[rank as usize];
        let log = &mut self.sets[set];
        let taken = log.cut.as_ref().and_then(|(cut, _)| cut.clock(rank).ok());
        let left = log.stable[place].max(taken.unwrap_or(0) as usize);
        log.rings[place].truncate(left);
        log.awaited[place] = true;
    }

    /// Whether a rank may have what is left of its events: where rings are lost, when all of it is
    /// stable.
    pub fn is_settled(&self, rank: Rank) -> bool {
        let (set, place) = self.at[rank as usize];
        let log = &self.sets[set];
        let settled = log.rings[place].len() == log.stable[place];
        let free = self.durability == Durability::Process || self.is(Broken::DownloadsUnstable);
        self.runs && (settled || free)
    }

    /// The events of a rank that starts again.
    pub fn download(&self, rank: Rank) -> Vec<(u64, Event)> {
        let (set, place) = self.at[rank as usize];
        let records = self.sets[set].rings[place].iter();
        records.map(|record| Event::decode(rank, record).expect("it was written here")).collect()
    }

    /// The logger is killed. Of what was being written `left` bytes are in each file, and one of these
    /// is perhaps not what was written.
    pub fn crash(&mut self, mut left: impl FnMut(usize) -> (usize, Option<usize>)) {
        self.runs = false;
        if self.durability == Durability::Process {
            return;
        }
        for log in &mut self.sets {
            for (file, synced) in &mut log.files {
                let (kept, flipped) = left(file.len() - *synced);
                file.truncate(*synced + kept);
                if let Some(at) = flipped {
                    file[*synced + at] ^= 0x40;
                }
            }
            if let Some((cut, Stage::Seal)) = log.cut.take() {
                let (kept, flipped) = left(log.cuts.len() / 2);
                let begin = log.seal(&cut, kept);
                if let Some(at) = flipped {
                    log.cuts[begin + at] ^= 0x40;
                }
            }
        }
    }

    /// The logger starts again, with what its files say. Of how many ranks it leaves something out: of a cut that
    /// was not ended.
    ///
    /// # Errors
    /// When something that was stable is not there.
    pub fn restart(&mut self, is_alive: impl Fn(Rank) -> bool) -> Result<usize, String> {
        self.runs = true;
        if self.durability == Durability::Process {
            return Ok(0);
        }
        let mut left_out = 0;
        let torn = self.is(Broken::LoggerBelievesTornCut);
        for log in &mut self.sets {
            let cut = Cut::last(&log.set, &log.cuts).map_err(|e| e.to_string())?;
            let (clocks, mut rings) = (log.clocks(&cut), Vec::new());
            let members = log.members.iter().zip(&log.stable).zip(&mut log.files).zip(clocks);
            for (((&rank, &stable), (file, synced)), named) in members {
                let mut ring = whole(rank, file);
                if ring.len() < named || named < stable {
                    let have = ring.len().min(named);
                    return Err(format!(
                        "of {stable} stable events of rank {rank}, and {named} of cut {}, {have} are left",
                        cut.number
                    ));
                }
                if !torn {
                    left_out += usize::from(ring.len() > named);
                    ring.truncate(named);
                }
                file.truncate(ring.len() * RECORD);
                *synced = file.len();
                rings.push(ring);
            }
            let clocks: Vec<usize> = rings.iter().map(Vec::len).collect();
            if torn {
                log.seal(&log.named(cut.number + 1, &clocks), usize::MAX);
            }
            log.number = cut.number + u64::from(torn);
            (log.rings, log.stable) = (rings, clocks);
            log.cut = None;
            log.awaited = log.members.iter().map(|&rank| self.causal || is_alive(rank)).collect();
        }
        Ok(left_out)
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

impl SetLog {
    /// Writes at most `most` of the bytes that make a cut valid. Returns their position.
    fn seal(&mut self, cut: &Cut, most: usize) -> usize {
        let (at, bytes) = cut.encode(&self.set);
        let some = &bytes[..most.min(bytes.len())];
        self.cuts[at as usize..][..some.len()].copy_from_slice(some);
        at as usize
    }

    /// The cut with these clocks, by place.
    fn named(&self, number: u64, clocks: &[usize]) -> Cut {
        let clocks = clocks.iter().map(|&clock| clock as u64);
        let mut clocks: Vec<_> = self.members.iter().copied().zip(clocks).collect();
        clocks.sort_unstable();
        Cut { number, clocks }
    }

    /// The clocks of a cut, by place.
    fn clocks(&self, cut: &Cut) -> Vec<usize> {
        let of = |&rank: &Rank| cut.clock(rank).expect("it is of these members") as usize;
        self.members.iter().map(of).collect()
    }
}

/// The records of a file before the first that is not good.
fn whole(rank: Rank, file: &[u8]) -> Vec<Record> {
    let records = (1..).zip(file.as_chunks::<RECORD>().0);
    let good = records.take_while(|(clock, record)| {
        Event::decode(rank, record).is_ok_and(|(got, _)| got == *clock)
    });
    good.map(|(_, record)| *record).collect()
}
