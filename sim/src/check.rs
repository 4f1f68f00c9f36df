//! Many seeds; and of one that fails, the smallest case that fails as well.

use crate::broken::Broken;
use crate::case::{Case, Less};
use crate::oracle::Violation;
use crate::workload::Workload;
use crate::world::{Ended, run};
use clap::ValueEnum;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A case that fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was left out of what the seed says.
    pub less: Less,
    /// What was wrong on purpose.
    pub broken: Option<Broken>,
    /// What was found.
    pub violation: Violation,
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Seeds.
    pub runs: usize,
    /// Steps of all of them.
    pub steps: usize,
    /// Faults that found something to break.
    pub faults: usize,
    /// Checkpoints that were taken.
    pub checkpoints: usize,
    /// Ranks that went on from one.
    pub restored: usize,
    /// Messages that have left logs since a checkpoint covers them.
    pub collected: usize,
}

impl Counts {
    fn of(ended: &Ended) -> Self {
        let Ended { steps, faults, checkpoints, restored, collected, .. } = *ended;
        Counts { runs: 1, steps, faults, checkpoints, restored, collected }
    }

    /// Adds what others have run.
    pub fn add(&mut self, other: &Counts) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.faults += other.faults;
        self.checkpoints += other.checkpoints;
        self.restored += other.restored;
        self.collected += other.collected;
    }
}

/// Which job, for its results.
type Job = (Workload, u32, u32, u64);

thread_local! {
    /// The results of jobs without failures.
    static RESULTS: RefCell<HashMap<Job, Vec<u64>>> = RefCell::default();
}

/// Runs one case.
///
/// # Errors
/// What was violated.
pub fn check(seed: u64, less: &Less, broken: Option<Broken>) -> Result<Ended, Failure> {
    let case = Case::new(seed, less, broken);
    let failed = |violation| Failure { seed, less: less.clone(), broken, violation };
    // A panic of what is simulated is a finding like others.
    let ended = catch_unwind(AssertUnwindSafe(|| run(&case, false).0)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = said.unwrap_or_default();
        Err(Violation { invariant: "no panic", text })
    });
    let ended = ended.map_err(failed)?;
    let expected = results(&case).map_err(failed)?;
    if ended.results != expected {
        let text = format!(
            "the results are {:x?}, without failures they are {expected:x?}",
            ended.results
        );
        return Err(failed(Violation { invariant: "the same results", text }));
    }
    Ok(ended)
}

/// The results of the same program without failures.
fn results(case: &Case) -> Result<Vec<u64>, Violation> {
    let job = (case.workload, case.ranks, case.rounds, case.variant);
    if let Some(known) = RESULTS.with_borrow(|results| results.get(&job).cloned()) {
        return Ok(known);
    }
    let calm = Case { faults: Vec::new(), checkpoints: 0, broken: None, ..case.clone() };
    let results = run(&calm, false).0?.results;
    RESULTS.with_borrow_mut(|known| known.insert(job, results.clone()));
    Ok(results)
}

/// Runs seeds from `first` on.
///
/// # Errors
/// The first that fails, as it is.
pub fn check_all(
    seeds: impl IntoIterator<Item = u64>,
    broken: Option<Broken>,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    for seed in seeds {
        let ended = check(seed, &Less::default(), broken)?;
        counts.add(&Counts::of(&ended));
    }
    Ok(counts)
}

impl Failure {
    /// The smallest case found that fails, in whatever way.
    pub fn shrink(self) -> Failure {
        let mut best = self;
        while let Some(smaller) =
            best.smaller().into_iter().find_map(|less| check(best.seed, &less, best.broken).err())
        {
            best = smaller;
        }
        best
    }

    /// Cases that have a little less.
    fn smaller(&self) -> Vec<Less> {
        let case = Case::new(self.seed, &self.less, self.broken);
        let less = self.less.clone();
        let fewer_faults = case.faults.iter().map(|(_, number, _)| {
            let without = [&less.without[..], &[*number]].concat();
            Less { without, ..less.clone() }
        });
        let fewer_ranks = (2..case.ranks).map(|ranks| Less { ranks: Some(ranks), ..less.clone() });
        let fewer_rounds =
            (1..case.rounds).map(|rounds| Less { rounds: Some(rounds), ..less.clone() });
        let fewer_checkpoints = (0..case.checkpoints.min(8))
            .map(|checkpoints| Less { checkpoints: Some(checkpoints), ..less.clone() });
        fewer_faults.chain(fewer_ranks).chain(fewer_rounds).chain(fewer_checkpoints).collect()
    }

    /// Which case of the model it is.
    pub fn command(&self) -> String {
        let Less { without, ranks, rounds, checkpoints } = &self.less;
        let mut line = format!("the model, seed {}", self.seed);
        if !without.is_empty() {
            let numbers: Vec<String> = without.iter().map(usize::to_string).collect();
            line += &format!(" --without {}", numbers.join(","));
        }
        for (option, value) in [("ranks", ranks), ("rounds", rounds), ("checkpoints", checkpoints)]
        {
            if let Some(value) = value {
                line += &format!(" --{option} {value}");
            }
        }
        if let Some(broken) = self.broken.and_then(|broken| broken.to_possible_value()) {
            line += &format!(" --broken {}", broken.get_name());
        }
        line
    }
}

/// The case, its trace, what was violated, and how to see it again.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = Case::new(self.seed, &self.less, self.broken);
        writeln!(f, "seed {}: {case}", self.seed)?;
        if self.violation.invariant != "no panic" {
            for line in run(&case, true).1 {
                writeln!(f, "{line}")?;
            }
        }
        writeln!(f, "violated: {}: {}", self.violation.invariant, self.violation.text)?;
        write!(f, "{}", self.command())
    }
}
