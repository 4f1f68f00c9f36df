//! What a seed stands for: a job, and what happens to it.

use crate::broken::Broken;
use crate::logger::Durability;
use crate::workload::{ALL, Workload};
use std::fmt;
use taffrail_logging::Rank;

/// Something that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The sets of these ranks are killed.
    Kill(Vec<Rank>),
    /// The connection of two ranks is lost, if they are of different sets.
    Cut(Rank, Rank),
    /// The event logger is killed.
    Logger,
    /// The set of this rank is killed and the event logger with it, like a node that has both.
    Node(Rank),
}

/// A job, and what happens to it and when.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where it comes from; also decides every choice of the run.
    pub seed: u64,
    /// The program.
    pub workload: Workload,
    /// Ranks.
    pub ranks: u32,
    /// How long the program is.
    pub rounds: u32,
    /// Which one, for random programs.
    pub variant: u64,
    /// The correlated sets.
    pub sets: Vec<Vec<Rank>>,
    /// When events are stable.
    pub durability: Durability,
    /// Whether every reception is an event.
    pub all_events: bool,
    /// Whether messages are logged. Otherwise nobody is killed, and links carry nothing for a while.
    pub logged: bool,
    /// Whether events travel with messages, in place of the gate.
    pub causal: bool,
    /// How many checkpoints ranks may take that are a set by themselves.
    pub checkpoints: u32,
    /// What fails, at which step, and its number.
    pub faults: Vec<(usize, usize, Fault)>,
    /// What is wrong on purpose.
    pub broken: Option<Broken>,
}

/// What is changed of what a seed says, to see whether less fails as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Less {
    /// Numbers of faults that do not happen.
    pub without: Vec<usize>,
    /// So many ranks.
    pub ranks: Option<u32>,
    /// So many rounds.
    pub rounds: Option<u32>,
    /// So many checkpoints at the most.
    pub checkpoints: Option<u32>,
}

impl Case {
    /// The case of a seed, or less of it.
    pub fn new(seed: u64, less: &Less, broken: Option<Broken>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let workload = ALL[random.usize(0..ALL.len())];
        let ranks = random.u32(2..=5);
        let ranks = less.ranks.unwrap_or(ranks).clamp(2, 5);
        let rounds = random.u32(1..=3);
        let rounds = less.rounds.unwrap_or(rounds);
        let variant = random.u64(0..16);
        // Sets that fail together with the logger show whether their logs fit together.
        let nodes = random.u8(0..4) == 0;
        let sets = sets(&mut random, ranks, nodes);
        let disk = nodes || random.u8(0..3) != 0;
        let durability = if disk { Durability::Disk } else { Durability::Process };
        let all_events = random.u8(0..4) == 0;
        let faults = faults(&mut random, (ranks * rounds) as usize * 25, ranks, nodes);
        let faults = faults.into_iter().enumerate().map(|(k, (step, fault))| (step, k, fault));
        let faults = faults.filter(|(_, k, _)| !less.without.contains(k)).collect();
        let causal = fastrand::Rng::with_seed(seed ^ 0xca05a1).u8(0..3) == 0;
        let alone = sets.iter().any(|set| set.len() == 1);
        let most = if alone && !causal { checkpoints(seed) } else { 0 };
        let checkpoints = less.checkpoints.unwrap_or(most).min(most);
        Case {
            seed,
            workload,
            ranks,
            rounds,
            variant,
            sets,
            durability,
            all_events,
            logged: true,
            causal,
            checkpoints,
            faults,
            broken,
        }
    }

    /// The same without logging.
    pub fn unlogged(self) -> Self {
        let ranks = self.ranks;
        let cut = |(step, number, fault)| match fault {
            Fault::Kill(killed) => (step, number, Fault::Cut(killed[0], (killed[0] + 1) % ranks)),
            Fault::Cut(a, b) => (step, number, Fault::Cut(a, b)),
            Fault::Logger => (step, number, Fault::Cut(0, 1)),
            Fault::Node(rank) => (step, number, Fault::Cut(rank, (rank + 1) % ranks)),
        };
        Case {
            logged: false,
            causal: false,
            checkpoints: 0,
            sets: vec![(0..ranks).collect()],
            faults: self.faults.into_iter().map(cut).collect(),
            ..self
        }
    }

    /// Whose events are stable together.
    pub fn groups(&self) -> Vec<Vec<Rank>> {
        if self.causal { vec![(0..self.ranks).collect()] } else { self.sets.clone() }
    }

    /// Whether a rank that dies takes the events with it that are not stable. Whoever depends on them
    /// holds them.
    pub fn loses_rings(&self) -> bool {
        self.causal && self.durability == Durability::Disk
    }

    /// The set of a rank.
    pub fn set_of(&self, rank: Rank) -> usize {
        self.sets.iter().position(|set| set.contains(&rank)).expect("every rank is in a set")
    }
}

fn sets(random: &mut fastrand::Rng, ranks: u32, nodes: bool) -> Vec<Vec<Rank>> {
    let most = match random.u8(0..10) {
        _ if nodes => 2,
        0..4 => ranks,
        4..9 => random.u32(1..=ranks).min(3),
        _ => 1,
    };
    let mut sets = vec![Vec::new(); most as usize];
    for rank in 0..ranks {
        let set = if most == ranks { rank } else { random.u32(0..most) };
        sets[set as usize].push(rank);
    }
    sets.retain(|set| !set.is_empty());
    sets
}

/// How many checkpoints are taken: none in three of eight jobs. It has its own chance, so that all else is as
/// it was without checkpoints.
fn checkpoints(seed: u64) -> u32 {
    [0, 0, 0, 100, 1, 3, 10, 1000][fastrand::Rng::with_seed(seed ^ 0xc4ec).usize(0..8)]
}

/// Several faults, each soon after the one before or at any time.
fn faults(
    random: &mut fastrand::Rng,
    length: usize,
    ranks: u32,
    nodes: bool,
) -> Vec<(usize, Fault)> {
    let mut step = 0;
    let mut faults = Vec::new();
    for k in 0..random.u32(0..=5) {
        step = match random.bool() && k > 0 {
            true => step + random.usize(1..60),
            false => random.usize(1..length + length / 4),
        };
        let kind = if nodes { random.u8(12..40) } else { random.u8(0..20) };
        let fault = match kind {
            0..11 => Fault::Kill(vec![random.u32(0..ranks)]),
            11..13 => Fault::Kill(vec![random.u32(0..ranks), random.u32(0..ranks)]),
            13..15 => Fault::Cut(random.u32(0..ranks), random.u32(0..ranks)),
            15..17 => Fault::Logger,
            _ => Fault::Node(random.u32(0..ranks)),
        };
        faults.push((step, fault));
    }
    faults
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { workload, ranks, rounds, variant, sets, durability, all_events, .. } = self;
        write!(
            f,
            "{workload:?} (variant {variant}), {ranks} ranks, {rounds} rounds, sets {sets:?}"
        )?;
        write!(f, ", durability {durability:?}, all events: {all_events}")?;
        if self.causal {
            let rings = if self.loses_rings() { "lost" } else { "kept" };
            write!(f, ", causal (rings of who dies are {rings})")?;
        }
        if !self.logged {
            write!(f, ", not logged")?;
        }
        if self.checkpoints > 0 {
            write!(f, ", {} checkpoints at the most", self.checkpoints)?;
        }
        if let Some(broken) = self.broken {
            write!(f, ", broken: {broken:?}")?;
        }
        for (step, number, fault) in &self.faults {
            write!(f, "\n  fault {number} at step {step}: {fault:?}")?;
        }
        Ok(())
    }
}
