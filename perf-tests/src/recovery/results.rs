//! What is measured, by experiment and round.

use super::life::Cost;
use crate::app::Name;
use crate::provenance::DIVISOR;
use crate::stats::Spread;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use taffrail::words::counted;

/// One thing that is measured in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// A token ring of which one rank is killed when its work is done; by the token's bytes.
    AtTheEnd(u32),
    /// An application of which ranks are killed on the way.
    OnTheWay(OnTheWay),
}

/// An application of which ranks are killed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnTheWay {
    /// Its place in [`APPLICATIONS`].
    pub app: usize,
    /// Whether ranks take checkpoints.
    pub checkpoints: bool,
    /// How many are killed.
    pub faults: u32,
    /// How many iterations it has.
    pub iterations: u32,
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Experiment::AtTheEnd(size) => {
                write!(f, "ring with {}, a rank killed at its end", counted(size, "byte"))
            }
            Experiment::OnTheWay(OnTheWay { app, checkpoints, faults, .. }) => {
                let (_, name, ..) = APPLICATIONS[app];
                let with = if checkpoints { "with" } else { "without" };
                write!(f, "{name}, {with} checkpoints, {}", counted(faults, "kill"))
            }
        }
    }
}

impl OnTheWay {
    /// Iterations from one checkpoint to the next, if there are any.
    pub fn checkpoint_every(self) -> Option<u32> {
        self.checkpoints.then_some((self.iterations / CHECKPOINTS).max(1))
    }
}

/// Iterations of the ring, by default.
pub const RING_ITERATIONS: u32 = 150_000 / DIVISOR as u32;

/// Checkpoints that each rank takes in a run that has any.
const CHECKPOINTS: u32 = 50;

/// What runs while ranks are killed on the way: an application that does little but communicate, and
/// one that computes as well. With its size and iterations.
pub const APPLICATIONS: [(Name, &str, u32, u32); 2] = [
    (Name::Ring, "ring", 1024, RING_ITERATIONS),
    (Name::Jacobi3d, "jacobi3d", 64, 1000 / DIVISOR as u32),
];

/// What was measured of all.
#[derive(Default)]
pub struct Results {
    rounds: usize,
    costs: BTreeMap<Experiment, Vec<Option<Cost>>>,
    /// Why something is missing.
    pub missing: Vec<String>,
}

/// One experiment, for files.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `re-execution` or `faults`.
    pub figure: &'static str,
    /// What ran.
    pub application: &'static str,
    /// Its size.
    pub size: u32,
    /// Iterations from one checkpoint to the next, if there are any.
    pub checkpoint_every: Option<u32>,
    /// Ranks killed.
    pub faults: u32,
    /// Milliseconds: of `re-execution` the work until the rank was killed, of `faults` the whole run.
    pub time_ms: Spread,
    /// From the begin of the processes that took the place of others until they were where those had
    /// been, in milliseconds; of all together.
    pub again_ms: Spread,
    /// From SIGKILL to that begin, in milliseconds; of all together.
    pub started_ms: Spread,
    /// Of `re-execution`: relative to the work. Of `faults`: the run, without what processes took to start
    /// (from SIGKILL until they were connected, with what their predecessors had logged taken over), relative to that without faults and without checkpoints in the same round.
    pub ratio: Option<Spread>,
    /// Of `faults`: the same relative to that without faults and with as many checkpoints.
    pub ratio_to_same: Option<Spread>,
    /// The time in each round that has one.
    pub rounds_ms: Vec<f64>,
}

impl Results {
    /// Begins a round.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
    }

    /// Adds what a run of this round has cost.
    pub fn add(&mut self, experiment: Experiment, cost: Result<Cost, String>) {
        let of = self.costs.entry(experiment).or_default();
        of.resize(self.rounds.saturating_sub(1), None);
        match cost {
            Ok(cost) => of.push(Some(cost)),
            Err(reason) => {
                of.push(None);
                self.missing.push(format!("{experiment}: {reason}"));
            }
        }
    }

    /// The answer that this application gave before.
    pub fn checksum(&self, experiment: Experiment) -> Option<&str> {
        let same = |other: &Experiment| match (experiment, *other) {
            (Experiment::AtTheEnd(size), Experiment::AtTheEnd(of)) => size == of,
            (Experiment::OnTheWay(what), Experiment::OnTheWay(of)) => what.app == of.app,
            _ => false,
        };
        let costs = self.costs.iter().filter(|(other, _)| same(other)).flat_map(|(_, costs)| costs);
        costs.flatten().map(|cost| cost.checksum.as_str()).next()
    }

    /// What there is at least one figure of.
    pub fn measured(&self) -> impl Iterator<Item = Experiment> {
        let some = self.costs.iter().filter(|(_, costs)| costs.iter().any(Option::is_some));
        some.map(|(&experiment, _)| experiment)
    }

    /// A figure over the rounds that have it.
    fn spread(&self, of: Experiment, figure: impl Fn(&Cost) -> Option<f64>) -> Option<Spread> {
        let costs = self.costs.get(&of)?.iter().flatten();
        spread(costs.filter_map(figure).collect())
    }

    /// As in [`Row::ratio`].
    pub fn ratio(&self, of: Experiment) -> Option<Spread> {
        match of {
            Experiment::AtTheEnd(_) => {
                self.spread(of, |cost| Some(cost.again_ms.first()? / cost.original_ms?))
            }
            Experiment::OnTheWay(what) => {
                self.ratio_to(what, OnTheWay { checkpoints: false, faults: 0, ..what })
            }
        }
    }

    /// A run, without what processes took to start, relative to another in the same round.
    fn ratio_to(&self, of: OnTheWay, to: OnTheWay) -> Option<Spread> {
        let costs = self.costs.get(&Experiment::OnTheWay(of))?.iter();
        let others = self.costs.get(&Experiment::OnTheWay(to))?.iter();
        let both = costs.zip(others).filter_map(|(cost, other)| {
            let cost = cost.as_ref()?;
            Some(cost.working_ms() / other.as_ref()?.whole_ms)
        });
        spread(both.collect())
    }

    /// From SIGKILL until the process that takes the place of the killed one runs, in milliseconds:
    /// of all kills, in order.
    pub fn started_ms(&self) -> Vec<f64> {
        let costs = self.costs.values().flatten().flatten();
        let mut all: Vec<f64> = costs.flat_map(|cost| cost.started_ms.clone()).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Everything, for files.
    pub fn rows(&self) -> Vec<Row> {
        self.measured().filter_map(|of| self.row(of)).collect()
    }

    /// One experiment.
    pub fn row(&self, of: Experiment) -> Option<Row> {
        let time_ms = |cost: &Cost| match of {
            Experiment::AtTheEnd(_) => cost.original_ms,
            Experiment::OnTheWay(..) => Some(cost.whole_ms),
        };
        let row = Row {
            figure: "re-execution",
            application: "ring",
            size: 0,
            checkpoint_every: None,
            faults: 1,
            time_ms: self.spread(of, time_ms)?,
            again_ms: self.spread(of, |cost| Some(cost.again_ms.iter().sum()))?,
            started_ms: self.spread(of, |cost| Some(cost.started_ms.iter().sum()))?,
            ratio: self.ratio(of),
            ratio_to_same: None,
            rounds_ms: self.costs[&of].iter().flatten().filter_map(time_ms).collect(),
        };
        Some(match of {
            Experiment::AtTheEnd(size) => Row { size, ..row },
            Experiment::OnTheWay(what) => {
                let (_, application, size, _) = APPLICATIONS[what.app];
                let (figure, faults) = ("faults", what.faults);
                let checkpoint_every = what.checkpoint_every();
                let ratio_to_same = self.ratio_to(what, OnTheWay { faults: 0, ..what });
                Row { figure, application, size, checkpoint_every, faults, ratio_to_same, ..row }
            }
        })
    }
}

fn spread(samples: Vec<f64>) -> Option<Spread> {
    (!samples.is_empty()).then(|| Spread::of(&samples))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    #[test]
    fn an_experiment_that_is_missing_is_named_in_words() {
        let mut results = Results::default();
        results.begin_round();
        let jacobi3d = OnTheWay { app: 1, checkpoints: true, faults: 1, iterations: 9 };
        for experiment in [Experiment::AtTheEnd(1), Experiment::OnTheWay(jacobi3d)] {
            results.add(experiment, Err("no".into()));
        }
        let said = [
            "ring with 1 byte, a rank killed at its end: no",
            "jacobi3d, with checkpoints, 1 kill: no",
        ];
        assert_eq!(results.missing, said);
    }

    pub fn cost(whole_ms: f64, again_ms: &[f64], started_ms: &[f64]) -> Cost {
        Cost {
            whole_ms,
            met_ms: 0.0,
            original_ms: Some(whole_ms / 2.0),
            again_ms: again_ms.to_vec(),
            replay_ms: again_ms.to_vec(),
            started_ms: started_ms.to_vec(),
            checksum: "ab".into(),
        }
    }

    pub fn on_the_way(app: usize, checkpoints: bool, faults: u32) -> Experiment {
        let (.., iterations) = APPLICATIONS[app];
        Experiment::OnTheWay(OnTheWay { app, checkpoints, faults, iterations })
    }

    #[test]
    fn faults_are_compared_with_the_same_round_without_and_without_starting_processes() {
        let mut results = Results::default();
        let ten = on_the_way(0, false, 10);
        for slow in [1.0, 3.0] {
            results.begin_round();
            results.add(on_the_way(0, false, 0), Ok(cost(100.0 * slow, &[], &[])));
            let (whole, started) = (170.0 * slow, [5.0 * slow, 15.0 * slow]);
            results.add(ten, Ok(cost(whole, &[10.0, 20.0], &started)));
        }
        let ratio = results.ratio(ten).unwrap();
        assert_eq!((ratio.median, ratio.p1, ratio.samples), (1.5, 1.5, 2));
        assert_eq!(results.started_ms(), [5.0, 15.0, 15.0, 45.0]);
        let row = results.row(ten).unwrap();
        assert_eq!((row.again_ms.median, row.started_ms.median), (30.0, 40.0));
        assert_eq!((row.figure, row.application, row.faults), ("faults", "ring", 10));
        assert_eq!((row.checkpoint_every, row.ratio_to_same), (None, row.ratio));
    }

    #[test]
    fn checkpoints_are_no_part_of_what_faults_are_compared_with() {
        let mut results = Results::default();
        results.begin_round();
        for (of, whole) in [
            (on_the_way(1, false, 0), 100.0),
            (on_the_way(1, true, 0), 125.0),
            (on_the_way(1, true, 10), 150.0),
        ] {
            results.add(of, Ok(cost(whole, &[], &[])));
        }
        let row = results.row(on_the_way(1, true, 10)).unwrap();
        let ratios = [row.ratio, row.ratio_to_same].map(|ratio| ratio.unwrap().median);
        assert_eq!((row.checkpoint_every, ratios), (Some(20 / DIVISOR as u32), [1.5, 1.2]));
        assert_eq!(results.ratio(on_the_way(1, true, 0)).unwrap().median, 1.25);
        assert_eq!(results.checksum(on_the_way(1, true, 3)), Some("ab"));
    }

    #[test]
    fn re_execution_is_compared_with_the_work_itself() {
        let mut results = Results::default();
        let of = Experiment::AtTheEnd(64);
        results.begin_round();
        results.add(of, Err("crashed".into()));
        results.begin_round();
        results.add(of, Ok(cost(200.0, &[25.0], &[3.0])));
        assert_eq!(results.ratio(of).unwrap().median, 0.25);
        assert_eq!(results.row(of).unwrap().rounds_ms, [100.0]);
        assert_eq!(results.missing, ["ring with 64 bytes, a rank killed at its end: crashed"]);
        assert_eq!(results.checksum(of), Some("ab"));
        assert_eq!(results.checksum(Experiment::AtTheEnd(8)), None);
    }
}
