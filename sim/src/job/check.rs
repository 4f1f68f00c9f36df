//! Many seeds; and of one that fails, the smallest case that fails as well.

use super::{Ended, Frames, Paths, calm_results, run};
use crate::broken::Broken;
use crate::case::{Case, Less};
use crate::fabric::Coverage;
use crate::profile::Profile;
use crate::violation::Violation;
use crate::workload::Workload;
use clap::ValueEnum;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail_logging::mutants::{Mutant, select};

/// What is wrong on purpose: in the product, or beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// In the product, in a build with `--cfg mutants`.
    pub mutant: Option<Mutant>,
    /// Beside it.
    pub broken: Option<Broken>,
}

/// A case that fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was left out of what the seed says.
    pub less: Less,
    /// What was wrong on purpose.
    pub wrong: Wrong,
    /// What was found.
    pub violation: Violation,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Processes that were started again.
    pub restarts: usize,
    /// What was reached in the network.
    pub coverage: Coverage,
    /// Frames by their kinds.
    pub frames: Frames,
    /// Paths that were reached.
    pub paths: Paths,
}

impl Counts {
    fn of(ended: Ended) -> Self {
        let Ended { steps, faults, restarts, checkpoints, restored, .. } = ended;
        let Ended { coverage, frames, paths, .. } = ended;
        Counts { runs: 1, steps, faults, restarts, checkpoints, restored, coverage, frames, paths }
    }

    /// Adds what others have run.
    pub fn add(&mut self, other: &Counts) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.faults += other.faults;
        self.checkpoints += other.checkpoints;
        self.restored += other.restored;
        self.restarts += other.restarts;
        self.coverage.add(&other.coverage);
        self.frames.add(&other.frames);
        self.paths.add(&other.paths);
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
pub fn check(seed: u64, less: &Less, wrong: Wrong) -> Result<Ended, Failure> {
    let case = Case::new(seed, less, wrong.broken);
    let failed = |violation| Failure { seed, less: less.clone(), wrong, violation };
    let expected = results(&case).map_err(failed)?;
    let selected = select(wrong.mutant);
    selected.map_err(|error| {
        failed(Violation { invariant: "there are mutants", text: error.to_string() })
    })?;
    // A panic of what is simulated is a finding like others.
    let ended = catch_unwind(AssertUnwindSafe(|| run(&case, false).0)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = said.unwrap_or_default();
        Err(Violation { invariant: "no panic", text })
    });
    let ended = ended.map_err(failed)?;
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
    // Nothing is wrong in a run without failures.
    let results = match select(None) {
        Ok(()) => calm_results(&Case { broken: None, ..case.clone() })?,
        Err(_) => Vec::new(),
    };
    RESULTS.with_borrow_mut(|known| known.insert(job, results.clone()));
    Ok(results)
}

/// Runs seeds, all of this profile if there is one.
///
/// # Errors
/// The first that fails, as it is.
pub fn check_all(
    seeds: impl IntoIterator<Item = u64>,
    profile: Option<Profile>,
    wrong: Wrong,
) -> Result<Counts, Failure> {
    let less = Less { profile, ..Less::default() };
    let mut counts = Counts::default();
    for seed in seeds {
        let ended = check(seed, &less, wrong)?;
        counts.add(&Counts::of(ended));
    }
    Ok(counts)
}

impl Failure {
    /// The smallest case found that fails, in whatever way.
    pub fn shrink(self) -> Failure {
        let mut best = self;
        while let Some(smaller) =
            best.smaller().into_iter().find_map(|less| check(best.seed, &less, best.wrong).err())
        {
            best = smaller;
        }
        best
    }

    /// Cases that have a little less.
    fn smaller(&self) -> Vec<Less> {
        let case = Case::new(self.seed, &self.less, self.wrong.broken);
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

    /// The command that runs it again.
    pub fn command(&self) -> String {
        let Less { without, ranks, rounds, checkpoints, profile } = &self.less;
        let mut line = format!("cargo xtask sim --seed {}", self.seed);
        if let Some(profile) = profile.and_then(|profile| profile.to_possible_value()) {
            line += &format!(" --profile {}", profile.get_name());
        }
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
        if let Some(mutant) = self.wrong.mutant {
            line += &format!(" --mutant {}", mutant.name());
        }
        if let Some(broken) = self.wrong.broken.and_then(|broken| broken.to_possible_value()) {
            line += &format!(" --broken {}", broken.get_name());
        }
        line
    }
}

/// The case, its trace, what was violated, and how to see it again.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = Case::new(self.seed, &self.less, self.wrong.broken);
        writeln!(f, "seed {}: {case}", self.seed)?;
        if self.violation.invariant != "no panic" && select(self.wrong.mutant).is_ok() {
            for line in run(&case, true).1 {
                writeln!(f, "{line}")?;
            }
        }
        writeln!(f, "violated: {}: {}", self.violation.invariant, self.violation.text)?;
        write!(f, "to run it again: {}", self.command())
    }
}
