//! A job of the torture: what runs, how it is logged, and what is done to it.

use super::deeds::Deed;
use super::*;
use std::fmt::{Display, Formatter, Result};
use std::path::PathBuf;

/// Applications, with sizes and iterations that take less than a second. The last two send more than
/// the smaller of the two log memories has room for.
const PARTS: [&str; 8] = [
    "ring 1024 4000",
    "wave2d 96 300",
    "jacobi3d 16 150",
    "cg 32 8",
    "phases 256 60",
    "irregular 64 30",
    "ring 65536 400",
    "phases 8192 40",
];

pub struct Case {
    pub part: &'static str,
    pub ranks: u32,
    sets: Sets,
    all_events: bool,
    small_log: bool,
    causal: bool,
    kept: Kept,
    /// Iterations from one checkpoint to the next, if there are any.
    every: Option<u32>,
    /// Ranks that are stopped are found, and killed, by the launcher.
    heartbeat: bool,
    deeds: Vec<Deed>,
    /// Ranks of each node, if there are several.
    nodes: Vec<u32>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Sets {
    Node,
    Rank,
    Pairs,
}

/// Where events are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    Process,
    Disk,
    Node,
}

impl Case {
    /// The case of this number.
    pub fn draw(seed: u64) -> Case {
        let mut random = fastrand::Rng::with_seed(seed);
        let part = seed as usize % PARTS.len();
        let kept = [Kept::Process, Kept::Process, Kept::Disk, Kept::Node][random.usize(..4)];
        let mut case = Case {
            part: PARTS[part],
            ranks: random.u32(2..=8),
            sets: [Sets::Node, Sets::Rank, Sets::Rank, Sets::Pairs][random.usize(..4)],
            every: None,
            // Each event is synced before the next message leaves: many would take minutes.
            all_events: random.bool() && !(kept == Kept::Disk && part == 0),
            small_log: random.bool(),
            kept,
            deeds: (0..random.usize(1..=8)).map(|_| Deed::draw(&mut random)).collect(),
            seed: random.u64(..),
            nodes: Vec::new(),
            causal: random.u32(..3) == 0,
            heartbeat: random.u32(..4) == 0,
        };
        if matches!(case.sets, Sets::Rank) && !case.causal && random.u32(..3) > 0 {
            case.every = Some([1, 5, 30, 300][random.usize(..4)]);
        }
        case
    }

    /// The same job over several nodes.
    pub fn over_nodes(mut self) -> Case {
        let mut random = fastrand::Rng::with_seed(!self.seed);
        // Pairs stay together.
        let nodes = random.u32(2..=4);
        let most = (self.ranks.div_ceil(nodes) + 1) & !1;
        let mut left = self.ranks;
        while left > 0 {
            let here = most.min(left);
            self.nodes.push(here);
            left -= here;
        }
        if self.nodes.len() == 1 {
            // As few ranks as two, of which none needs the other on its node.
            (self.nodes, self.sets) = (vec![1; self.ranks as usize], Sets::Rank);
        }
        self
    }

    /// Runs it. In peace it took so long.
    pub fn run(&self, took: Duration) -> (Toll, Ended) {
        let folder = tempfile::tempdir().unwrap();
        let options = self.options(folder.path());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut toll = Toll::default();
        let every = self.every.map_or(String::new(), |every| format!(" {every}"));
        let mut job = application(&format!("{}{every}", self.part), self.ranks, &options);
        let job = disturbed(&mut job, |launcher, goes_on| {
            let most = took / [1, 2, 8, 64][random.usize(..4)];
            let mut hunter = Hunter {
                launcher,
                goes_on,
                random: &mut random,
                toll: &mut toll,
                // All but one may be killed.
                heartbeat: self.heartbeat,
                spared: (self.kept == Kept::Node).then(Vec::new),
                over_nodes: !self.nodes.is_empty(),
            };
            hunter.await_ranks();
            for &deed in &self.deeds {
                if !hunter.pause(most) {
                    break;
                }
                hunter.does(deed);
            }
        });
        (toll, job)
    }

    fn options(&self, folder: &Path) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let sets = match self.sets {
            Sets::Node => "node".to_owned(),
            Sets::Rank => "rank".to_owned(),
            Sets::Pairs => {
                let lines = (0..self.ranks).map(|rank| match rank % 2 {
                    0 => format!("{rank} "),
                    _ => format!("{rank}\n"),
                });
                let file = folder.join("pairs");
                std::fs::write(&file, lines.collect::<String>()).unwrap();
                text(file)
            }
        };
        let logging = if self.causal { "causal" } else { "pessimistic" };
        let mut options = vec!["--logging", logging, "--sets", &sets];
        if self.all_events {
            options.extend(["--events", "all"]);
        }
        if self.small_log {
            options.extend(["--log-memory", "1M"]);
        }
        let log = text(folder.join("log"));
        if self.heartbeat {
            options.extend(["--heartbeat", "1"]);
        }
        match self.kept {
            Kept::Process => options.extend(["--durability", "process"]),
            Kept::Disk => options.extend(["--durability", "disk", "--log-dir", &log]),
            Kept::Node => options.extend(["--durability", "node", "--copies", "3"]),
        }
        let hosts: Vec<String> =
            (0..).zip(&self.nodes).map(|(node, ranks)| format!("n{node}:{ranks}")).collect();
        let hosts = hosts.join(",");
        if !self.nodes.is_empty() {
            options.extend(["--rsh-agent", "env TAFFRAIL_TEST_PART={host}", "--hosts", &hosts]);
            // No node is lost, also where the whole machine stands still for seconds.
            options.extend(["--lease", "30s"]);
        }
        options.into_iter().map(str::to_owned).collect()
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Case { part, ranks, sets, kept, .. } = self;
        let events = if self.all_events { "all" } else { "nondeterministic" };
        let memory = if self.small_log { ", small log" } else { "" };
        let heartbeat = if self.heartbeat { ", heartbeat" } else { "" };
        let policy = if self.causal { "causal" } else { "pessimistic" };
        let every =
            self.every.map_or(String::new(), |every| format!(", checkpoints every {every}"));
        let nodes = match &self.nodes[..] {
            [] => String::new(),
            nodes => format!(" over nodes of {nodes:?}"),
        };
        write!(
            f,
            "{part} on {ranks}{nodes}, {policy}, sets {sets:?}, events {events}{memory}, durability {kept:?}{heartbeat}{every}"
        )
    }
}
