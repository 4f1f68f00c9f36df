//! What a seed stands for: a job, and what happens to it.

use crate::broken::Broken;
use crate::numbers::Numbers;
use crate::profile::{Faults, Habits, Profile, Sets};
use crate::workload::Workload;
use std::fmt;
use taffrail_logging::Rank;
use taffrail_logging::store::Durability;

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
    /// What it is mostly about.
    pub profile: Profile,
    /// What is slow, and sizes.
    pub habits: Habits,
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
    /// Whether messages are logged. Otherwise links carry nothing for a while, and nobody is killed but with `deaths`.
    pub logged: bool,
    /// Messages are not logged, and ranks are killed: they are not started again.
    pub deaths: bool,
    /// Whether events travel with messages, in place of the gate.
    pub causal: bool,
    /// How many checkpoints ranks may take that are a set by themselves.
    pub checkpoints: u32,
    /// Checkpoints are copied to another node, and nodes of ranks are lost.
    pub copied: bool,
    /// What fails, at which step, and its number.
    pub faults: Vec<(usize, usize, Fault)>,
    /// Whether a roster has the state of the ranks, with its own delays. Otherwise the links have.
    pub roster: bool,
    /// What is wrong on purpose.
    pub broken: Option<Broken>,
}

/// What is changed of what a seed says, to see whether less fails as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Less {
    /// Numbers of faults that do not happen.
    pub without: Vec<usize>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// Number of rounds.
    pub rounds: Option<u32>,
    /// Upper limit of checkpoints.
    pub checkpoints: Option<u32>,
    /// This profile, in place of that of the seed.
    pub profile: Option<Profile>,
    /// These steps of its schedule alone, by their numbers.
    pub steps: Option<Numbers>,
}

impl Case {
    /// The case of a seed, or less of it.
    pub fn new(seed: u64, less: &Less, broken: Option<Broken>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let profile = less.profile.unwrap_or_else(|| Profile::of(seed));
        let plan = profile.plan();
        let workload = plan.workloads[random.usize(0..plan.workloads.len())];
        let ranks = random.u32(2..=5);
        let ranks = less.ranks.unwrap_or(ranks).clamp(2, 5);
        let rounds = random.u32(plan.rounds.0..=plan.rounds.1);
        let rounds = less.rounds.unwrap_or(rounds);
        let variant = random.u64(0..16);
        // Sets that fail together with the logger show whether their logs fit together.
        let nodes = random.u8(0..4) == 0 && plan.sets == Sets::Any;
        let sets = sets(&mut random, ranks, plan.sets, nodes);
        let disk = random.u8(0..3) != 0;
        let durability = plan.durability(nodes || plan.disk.unwrap_or(disk), seed);
        let all_events = random.u8(0..4) == 0;
        let all_events = plan.all_events.unwrap_or(all_events);
        let causal = random.u8(0..3) == 0;
        let causal = plan.causal.unwrap_or(causal);
        let most = [0, 0, 0, 30, 1, 3, 10, 100][random.usize(0..8)];
        let alone = sets.iter().any(|set| set.len() == 1);
        let most = if alone && !causal { plan.checkpoints.unwrap_or(most) } else { 0 };
        let checkpoints = less.checkpoints.unwrap_or(most).min(most);
        let mut habits = Habits::new(&plan, &mut random);
        if seed & 4 != 0 {
            habits.page_runs = 2 + (seed >> 3) as usize % 3;
        }
        if seed & 48 == 48 {
            habits.fragment = 40;
        }
        if causal && durability == Durability::Disk {
            // A survivor with a full ring receives nothing, not even the death of a rank (`docs/logging.md`, section 13).
            habits.ring = 1 << 20;
        }
        let of = Faults { kinds: if nodes { NODES } else { plan.faults.kinds }, ..plan.faults };
        let faults = faults(&mut random, (ranks * rounds) as usize * 25, ranks, &of);
        let faults = faults.into_iter().enumerate().map(|(k, (step, fault))| (step, k, fault));
        let faults = faults.filter(|(_, k, _)| !less.without.contains(k)).collect();
        let case = Case {
            seed,
            profile,
            habits,
            workload,
            ranks,
            rounds,
            variant,
            sets,
            durability,
            all_events,
            logged: true,
            deaths: plan.deaths,
            causal,
            checkpoints,
            copied: checkpoints > 0 && seed & 8 != 0,
            faults,
            roster: seed & 2 != 0,
            broken,
        };
        if plan.logged { case } else { case.unlogged() }
    }

    /// The same without logging.
    pub fn unlogged(self) -> Self {
        let (ranks, deaths) = (self.ranks, self.deaths);
        let cut = |(step, number, fault)| match fault {
            Fault::Kill(killed) if deaths => (step, number, Fault::Kill(killed)),
            Fault::Kill(killed) => (step, number, Fault::Cut(killed[0], (killed[0] + 1) % ranks)),
            Fault::Cut(a, b) => (step, number, Fault::Cut(a, b)),
            Fault::Logger => (step, number, Fault::Cut(0, 1)),
            Fault::Node(rank) => (step, number, Fault::Cut(rank, (rank + 1) % ranks)),
        };
        Case {
            logged: false,
            causal: false,
            checkpoints: 0,
            copied: false,
            sets: vec![(0..ranks).collect()],
            faults: self.faults.into_iter().map(cut).collect(),
            ..self
        }
    }

    /// Sets of ranks: the events of a set are stable together.
    pub fn groups(&self) -> Vec<Vec<Rank>> {
        if self.causal { vec![(0..self.ranks).collect()] } else { self.sets.clone() }
    }

    /// Whether the events of a rank that are not stable are lost when it dies. The ranks that depend on them
    /// hold copies.
    pub fn loses_rings(&self) -> bool {
        self.causal && self.durability == Durability::Disk
    }

    /// The set of a rank.
    pub fn set_of(&self, rank: Rank) -> usize {
        self.sets.iter().position(|set| set.contains(&rank)).expect("every rank is in a set")
    }
}

fn sets(random: &mut fastrand::Rng, ranks: u32, which: Sets, nodes: bool) -> Vec<Vec<Rank>> {
    let most = match random.u8(0..10) {
        _ if nodes => 2,
        _ if which == Sets::Alone => ranks,
        _ if which == Sets::Several => ranks.div_ceil(2),
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

/// The faults of two nodes, of which one has the event logger.
const NODES: [u32; 5] = [0, 1, 2, 2, 23];

/// Several faults, each soon after the one before or at any time.
fn faults(
    random: &mut fastrand::Rng,
    length: usize,
    ranks: u32,
    of: &Faults,
) -> Vec<(usize, Fault)> {
    let victim = random.u32(0..ranks);
    let mut step = 0;
    let mut faults = Vec::new();
    for k in 0..random.u32(of.least..=of.most) {
        step = match random.u8(0..8) < of.soon && k > 0 {
            true => step + random.usize(1..of.within),
            false => random.usize(1..length + length / 4),
        };
        let mut chosen = random.u32(0..of.kinds.iter().sum());
        let kind = of.kinds.iter().position(|&weight| {
            let found = chosen < weight;
            chosen = chosen.saturating_sub(weight);
            found
        });
        let [any, other] = [(); 2].map(|()| random.u32(0..ranks));
        let rank = if of.victim && random.bool() { victim } else { any };
        let fault = match kind {
            Some(0) => Fault::Kill(vec![rank]),
            Some(1) => Fault::Kill(vec![rank, other]),
            Some(2) => Fault::Cut(any, other),
            Some(3) => Fault::Logger,
            _ => Fault::Node(rank),
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
        write!(f, ", durability {durability:?}, all events: {all_events}, {:?}", self.profile)?;
        if self.causal {
            let rings = if self.loses_rings() { "lost" } else { "kept" };
            write!(f, ", causal (rings of dead ranks are {rings})")?;
        }
        if !self.logged {
            write!(f, ", not logged")?;
            if self.deaths {
                write!(f, ", ranks are killed")?;
            }
        }
        if self.roster {
            write!(f, ", a roster")?;
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
