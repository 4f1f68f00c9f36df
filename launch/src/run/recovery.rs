//! What is kept of a job whose ranks are started again: their sets and lives, and their events.

use super::failures::{Events, Logged};
use super::guard::Guard;
use super::logger::{Beyond, Logger};
use super::rank_files::{FirstFiles, RankFiles, spill_folder};
use super::{Args, Failure, in_words, ranks};
use crate::eventlog::CheckpointSource;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use taffrail_agent::wire::{LastCheckpoint, LeftBehind};
use taffrail_logging::causal::Counters;
use taffrail_logging::store::{Owner, Summary};

/// How long a rank waits for the others, in seconds.
const PATIENCE: &str = "TAFFRAIL_CONNECT_TIMEOUT";
/// A rank that was started again: the others take it in when they call the library the next time, and it
/// is no failure if that takes long.
const OF_SUCCESSORS: u32 = 1_000_000;
/// Any other: those that it waits for may be killed and started again meanwhile, more than once.
const OF_FIRST_LIVES: u32 = 600;

/// What a logged job has beside its processes.
pub struct Recovery {
    pub logged: Logged,
    pub logger: Logger,
    /// The ranks that this process holds events and logs of.
    pub ranks: Vec<usize>,
    /// They were started on another node before.
    pub began_elsewhere: bool,
    /// Of each rank that can take checkpoints.
    files: HashMap<usize, RankFiles>,
    /// The library of the provider, if ranks found it when the job began.
    provider: Option<PathBuf>,
    /// The events of ranks that have ended, until their next life is started.
    replays: HashMap<usize, OwnedFd>,
}

/// The present life of a rank.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct RankGeneration {
    /// How many there were before.
    pub incarnation: u32,
    /// How many restarts the job had seen when it was started.
    pub generation: u32,
}

impl Recovery {
    /// For all ranks of a job on this host.
    pub fn of_all(
        logged: Logged,
        args: &Args,
        job: u64,
        guard: &Guard,
    ) -> Result<Recovery, Failure> {
        let ranks: Vec<u32> = (0..args.ranks()).collect();
        let spill = spill_folder(args);
        let provider = crate::mpi::found_provider(&args.environment);
        Recovery::new(logged, &ranks, job, (&spill, provider), Beyond::default(), guard)
    }

    /// For these ranks of a job, all or those of this node, if its messages are logged. `job` is its digest, `spill` the
    /// folder for what has no room in memory, `provider` the library that ranks found when the job began. Ranks that were
    /// started on another node replay what they have brought.
    pub fn new(
        logged: Logged,
        ranks: &[u32],
        job: u64,
        (spill, provider): (&Path, Option<PathBuf>),
        mut beyond: Beyond,
        guard: &Guard,
    ) -> Result<Recovery, Failure> {
        let (mut replays, mut incarnations) = (HashMap::new(), HashMap::new());
        for (rank, incarnation, events) in &beyond.moved {
            let events = events.try_clone().map_err(|e| Failure::new(in_words(&e)))?;
            replays.insert(*rank as usize, events);
            incarnations.insert(*rank, *incarnation);
        }
        // Where nothing waits for events, those of a rank may depend on others of any rank: all are
        // stable together. Loggers of other nodes may write into the same folder: each has its own number.
        let number = ranks.iter().min().map_or(0, |rank| *rank as usize);
        let group = |rank: u32| match logged.causal {
            true => number,
            false => logged.sets.of(rank as usize),
        };
        let together: Vec<(u32, usize)> = ranks.iter().map(|&rank| (rank, group(rank))).collect();
        let mut checkpoints = std::mem::take(&mut beyond.checkpoints);
        let copied_elsewhere = beyond.elsewhere.is_some();
        let logger = Logger::start(&together, job, logged.keeping.clone(), beyond, guard)?;
        // Members of a larger set fall back together, and would have to agree on where to.
        let is_alone = |rank: u32| logged.sets.members(logged.sets.of(rank as usize)).count() == 1;
        let takes_checkpoints = |rank| !logged.causal && is_alone(rank);
        let mut files = HashMap::new();
        for &rank in ranks.iter().filter(|rank| takes_checkpoints(**rank)) {
            let incarnation = incarnations.get(&rank).copied().unwrap_or_default();
            let checkpoint = checkpoints.remove(&rank);
            let first = FirstFiles { incarnation, copied_elsewhere, checkpoint };
            let made = RankFiles::of(spill, Owner { rank, job }, first)?;
            files.extend(made.map(|files| (rank as usize, files)));
        }
        let ranks = ranks.iter().map(|&rank| rank as usize).collect();
        Ok(Recovery { ranks, began_elsewhere: false, logged, logger, files, provider, replays })
    }

    /// Whether ranks that are started again find what those before them have found.
    ///
    /// # Errors
    /// What is missing.
    pub fn check_provider(&self) -> Result<(), Failure> {
        match &self.provider {
            Some(library) if !library.is_file() => Err(Failure::new(format!(
                "it is not restarted: the provider {} was there when the job began, and is gone",
                library.display()
            ))),
            _ => Ok(()),
        }
    }

    /// What causal logging has sent with the messages of all ranks that are done, if it is in use.
    pub fn sent(&self) -> Result<Option<Counters>, Failure> {
        let mut all = Counters::default();
        for &rank in &self.ranks {
            all.add(&self.logger.sent(rank)?);
        }
        Ok(self.logged.causal.then_some(all))
    }

    /// What is copied to another node of a rank that takes checkpoints.
    pub fn checkpoint_source(&self, rank: usize) -> Result<Option<CheckpointSource>, Failure> {
        self.files.get(&rank).map(RankFiles::source).transpose()
    }

    /// A rank has ended and is about to be restarted: gets its events ready for its next incarnation, and returns what there
    /// is for that. None as in [`Logger::fetch`].
    pub fn recover(&mut self, rank: usize, guard: &Guard) -> Result<Option<LeftBehind>, Failure> {
        let Some(download) = self.logger.fetch(rank, guard)? else { return Ok(None) };
        let files = self.files.get_mut(&rank);
        let last = files.map(RankFiles::begin_again).transpose()?.flatten();
        self.replays.insert(rank, download.file);
        let checkpoint = last.map(last_checkpoint);
        Ok(Some(LeftBehind { events: download.count, checkpoint }))
    }

    /// The events that a rank replays, once.
    pub fn take_replay(&mut self, rank: usize) -> Option<OwnedFd> {
        self.replays.remove(&rank)
    }

    /// What the next life of a rank is given, where the lives of all are known.
    pub fn next_env(
        &self,
        rank: usize,
        replay: Option<OwnedFd>,
        lives: &[RankGeneration],
    ) -> Result<ranks::RankEnv, Failure> {
        let generations = lives.iter().map(|life| life.generation);
        self.env(rank, lives[rank].incarnation, replay, generations)
    }

    /// What the next life of a rank is given; `replay` has the events of those before it. `generations` are those of all
    /// ranks of the job.
    pub fn env(
        &self,
        rank: usize,
        incarnation: u32,
        replay: Option<OwnedFd>,
        generations: impl Iterator<Item = u32>,
    ) -> Result<ranks::RankEnv, Failure> {
        let sets = &self.logged.sets;
        let events = match self.logged.events {
            Events::Nondeterministic => "nondeterministic",
            Events::All => "all",
        };
        let mut env = ranks::RankEnv::default();
        env.set("TAFFRAIL_LOGGING", if self.logged.causal { "causal" } else { "pessimistic" });
        env.set("TAFFRAIL_EVENTS", events);
        env.set("TAFFRAIL_SETS", list(sets.all()));
        env.set("TAFFRAIL_INCARNATION", incarnation);
        env.set("TAFFRAIL_GENERATIONS", list(generations));
        let mut rings = Vec::new();
        for member in sets.members(sets.of(rank)) {
            let ring = env.inherit(&self.logger.ring(member))?;
            rings.push(format!("{member}:{}", ranks::in_digits(ring)));
        }
        env.set("TAFFRAIL_RINGS", rings.join(","));
        match replay {
            None => env.set("TAFFRAIL_REPLAY", "none"),
            Some(replay) => {
                env.tell("TAFFRAIL_REPLAY", &[replay.as_raw_fd()]);
                env.inherited.push(replay);
            }
        }
        if let Some(bytes) = self.logged.memory {
            env.set("TAFFRAIL_LOG_MEMORY", bytes);
        }
        if let Some(files) = self.files.get(&rank) {
            files.hand_over(&mut env)?;
        }
        if std::env::var_os(PATIENCE).is_none() {
            let is_first = incarnation == 0;
            let seconds = if is_first { OF_FIRST_LIVES } else { OF_SUCCESSORS };
            // In as many letters, too.
            env.set(PATIENCE, format!("{seconds:07}"));
        }
        Ok(env)
    }
}

/// What the launcher learns of a checkpoint.
pub fn last_checkpoint(last: Summary) -> LastCheckpoint {
    LastCheckpoint { number: last.number, events: last.clock }
}

/// Numbers, separated by commas.
fn list(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
