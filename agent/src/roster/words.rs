//! The roster in memory: one agent writes, ranks read. `docs/spec/agent.md`, section 8, has the layout and the
//! reasons for each ordering.

use super::{Change, RankState};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::wire::{VERSION, WaveWords};
use crate::{NODES_MAX, NodeId, RANKS_MAX, RankIncarnation};

/// Bytes of an address at most.
pub const ADDRESS_MAX: usize = 112;

const MARK: u64 = u64::from_le_bytes(*b"TAFFROST");
const EPOCH: usize = 8;
const NOTICE: usize = 9;
const JOB_STATE: usize = 10;
/// Words in front of the first entry.
const HEAD: usize = 16;
/// Words of an entry.
const ENTRY: usize = 24;
/// Within an entry: the life, the address and its first word, the words for waves.
const ADDRESS: usize = 1;
const ADDRESS_WORDS: usize = 14;
const WAVE: usize = 16;

/// How many words the roster of so many ranks has.
pub const fn words_of(ranks: usize) -> usize {
    HEAD + ENTRY * ranks
}

/// What the job does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    #[default]
    Running,
    /// Its ranks were asked to end.
    Ending,
    /// All programs are over, and may end.
    Released,
}

/// Memory that is no roster of this job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("roster, {field}: expected {expected}, got {got}")]
pub struct RosterError {
    /// Which field.
    pub field: &'static str,
    /// The right value.
    pub expected: String,
    /// The value that was there.
    pub got: String,
}

fn wrong(field: &'static str, expected: impl ToString, got: impl ToString) -> RosterError {
    RosterError { field, expected: expected.to_string(), got: got.to_string() }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn life_word(change: &Change) -> u64 {
    u64::from(change.life.incarnation.0)
        | u64::from(change.node) << 32
        | u64::from(change.state as u8) << 48
}

fn address_word(life: RankIncarnation, len: usize) -> u64 {
    (u64::from(life.incarnation.0) + 1) & 0xffff_ffff | (len as u64) << 32
}

/// The agent's end. There is one for each roster.
#[derive(Debug)]
pub struct Writer<'a> {
    words: &'a [AtomicU64],
    notice: u64,
}

impl<'a> Writer<'a> {
    /// Makes a roster of these words, which are all 0. Ranks may read it from then on.
    ///
    /// # Errors
    /// There are more or fewer words than [`words_of`] so many ranks.
    pub fn create(
        words: &'a [AtomicU64],
        ranks: usize,
        job: u64,
        (node, nodes): (NodeId, u32),
    ) -> Result<Writer<'a>, RosterError> {
        if words.len() != words_of(ranks) || ranks > RANKS_MAX {
            return Err(wrong("words", words_of(ranks), words.len()));
        }
        words[1].store(pair(VERSION, ranks as u32), Ordering::Relaxed);
        words[2].store(job, Ordering::Relaxed);
        words[3].store(pair(nodes, node.into()), Ordering::Relaxed);
        words[0].store(MARK, Ordering::Release);
        Ok(Writer { words, notice: 0 })
    }

    fn entry(&self, rank: u32) -> &'a [AtomicU64] {
        &self.words[HEAD + ENTRY * rank as usize..][..ENTRY]
    }

    /// Publishes changes that belong together. The ranks are of this job ([`Roster::apply`](super::Roster::apply)).
    pub fn publish(&mut self, epoch: u64, changes: &[Change]) {
        for change in changes {
            self.entry(change.life.rank)[0].store(life_word(change), Ordering::Release);
        }
        self.words[EPOCH].store(epoch, Ordering::Release);
        self.notify();
    }

    /// Publishes the address of an incarnation: 1 to [`ADDRESS_MAX`] bytes, once for each.
    pub fn publish_address(&mut self, life: RankIncarnation, address: &[u8]) {
        let len = address.len().min(ADDRESS_MAX);
        let entry = &self.entry(life.rank)[ADDRESS..];
        entry[0].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, bytes) in entry[1..].iter().zip(address[..len].chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        entry[0].store(address_word(life, len), Ordering::Release);
        self.notify();
    }

    /// Publishes the words of a rank for waves and schedules.
    pub fn publish_wave(&mut self, rank: u32, words: &WaveWords) {
        let entry = &self.entry(rank)[WAVE..];
        entry[1].store(words.target, Ordering::Relaxed);
        entry[2].store(words.committed, Ordering::Relaxed);
        entry[3].store(words.schedule, Ordering::Relaxed);
        entry[0].store(words.wave, Ordering::Release);
        self.notify();
    }

    /// Publishes what the job does.
    pub fn publish_job(&mut self, state: JobState) {
        self.words[JOB_STATE].store(state as u64, Ordering::Release);
        self.notify();
    }

    fn notify(&mut self) {
        self.notice += 1;
        self.words[NOTICE].store(self.notice, Ordering::Release);
    }
}

/// The end of a rank. Everything that it returns was checked.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    words: &'a [AtomicU64],
    ranks: u32,
}

impl<'a> Reader<'a> {
    /// Takes words that an agent has made the roster of this job.
    ///
    /// # Errors
    /// [`RosterError`], naming the first field that is wrong.
    pub fn open(words: &'a [AtomicU64], job: u64) -> Result<Reader<'a>, RosterError> {
        if words.len() < HEAD {
            return Err(wrong("words", format!("{HEAD} or more"), words.len()));
        }
        let mark = words[0].load(Ordering::Acquire);
        if mark != MARK {
            return Err(wrong("mark", "TAFFROST", mark.to_le_bytes().escape_ascii()));
        }
        let shape = words[1].load(Ordering::Relaxed);
        let (version, ranks) = (shape as u32, (shape >> 32) as u32);
        if version != VERSION {
            return Err(wrong("version", VERSION, version));
        }
        if ranks as usize > RANKS_MAX || words.len() != words_of(ranks as usize) {
            let expected = format!("the words of {ranks} ranks");
            return Err(wrong("words", expected, words.len()));
        }
        let found = words[2].load(Ordering::Relaxed);
        if found != job {
            return Err(wrong("job", format!("{job:016x}"), format!("{found:016x}")));
        }
        let nodes = words[3].load(Ordering::Relaxed);
        if nodes >> 32 >= nodes & 0xffff_ffff || nodes as u32 as usize > NODES_MAX {
            return Err(wrong("nodes", "the own node below their number", format!("{nodes:#x}")));
        }
        Ok(Reader { words, ranks })
    }

    /// How many ranks the job has.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The node of this roster.
    pub fn node(&self) -> NodeId {
        (self.words[3].load(Ordering::Relaxed) >> 32) as NodeId
    }

    /// Grows with every change: while it is the same there is nothing new.
    pub fn notice(&self) -> u64 {
        self.words[NOTICE].load(Ordering::Acquire)
    }

    /// The last update that was published.
    pub fn epoch(&self) -> u64 {
        self.words[EPOCH].load(Ordering::Acquire)
    }

    fn entry(&self, rank: u32) -> Result<&'a [AtomicU64], RosterError> {
        if rank >= self.ranks {
            return Err(wrong("rank", format!("below {}", self.ranks), rank));
        }
        Ok(&self.words[HEAD + ENTRY * rank as usize..][..ENTRY])
    }

    /// The present incarnation of a rank.
    ///
    /// # Errors
    /// The rank is not of this job, or the word is none that an agent writes.
    pub fn life(&self, rank: u32) -> Result<Change, RosterError> {
        let word = self.entry(rank)?[0].load(Ordering::Acquire);
        let state = (word >> 48) as u8;
        let known = RankState::from_u8(state).filter(|_| word >> 56 == 0);
        let state =
            known.ok_or_else(|| wrong("life", "a state of 0 to 4", format!("{word:#x}")))?;
        let life = RankIncarnation::new(rank, word as u32);
        Ok(Change { life, node: (word >> 32) as NodeId, state })
    }

    /// The address of the present incarnation of a rank. `None` while it has none, or while it is written.
    ///
    /// # Errors
    /// The rank is not of this job, or the words are none that an agent writes.
    pub fn address(&self, rank: u32) -> Result<Option<Vec<u8>>, RosterError> {
        let life = self.life(rank)?.life;
        let entry = &self.entry(rank)?[ADDRESS..];
        let before = entry[0].load(Ordering::Acquire);
        let len = (before >> 32) as usize;
        if before != address_word(life, len) {
            return Ok(None);
        }
        if !(1..=ADDRESS_MAX).contains(&len) {
            return Err(wrong("length of an address", format!("1 to {ADDRESS_MAX}"), len));
        }
        let words = entry[1..=ADDRESS_WORDS].iter();
        let mut address: Vec<u8> =
            words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        fence(Ordering::Acquire);
        let after = entry[0].load(Ordering::Relaxed);
        address.truncate(len);
        Ok((before == after).then_some(address))
    }

    /// The words of a rank for waves and schedules. Those behind `wave` are at least as new as it.
    ///
    /// # Errors
    /// The rank is not of this job.
    pub fn wave(&self, rank: u32) -> Result<WaveWords, RosterError> {
        let entry = &self.entry(rank)?[WAVE..];
        let wave = entry[0].load(Ordering::Acquire);
        let [target, committed, schedule] = [1, 2, 3].map(|at| entry[at].load(Ordering::Relaxed));
        Ok(WaveWords { wave, target, committed, schedule })
    }

    /// What the job does.
    ///
    /// # Errors
    /// The word is none that an agent writes.
    pub fn job(&self) -> Result<JobState, RosterError> {
        match self.words[JOB_STATE].load(Ordering::Acquire) {
            0 => Ok(JobState::Running),
            1 => Ok(JobState::Ending),
            2 => Ok(JobState::Released),
            other => Err(wrong("job state", "0 to 2", other)),
        }
    }
}

#[cfg(test)]
mod tests;
