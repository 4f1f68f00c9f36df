//! Many seeds; and of one that fails, the smallest case that fails as well.

use super::{Ended, Frames, Paths, Run, calm_results, run_steps};
use crate::broken::Broken;
use crate::case::{Case, Less};
use crate::fabric::Coverage;
use crate::numbers::Numbers;
use crate::profile::Profile;
use crate::violation::Violation;
use crate::workload::Workload;
use clap::ValueEnum;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
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

/// How often steps are left out of a schedule that fails, to see whether it still does.
const ATTEMPTS: usize = 1000;

thread_local! {
    /// The results of jobs without failures.
    static RESULTS: RefCell<HashMap<Job, Vec<Option<u64>>>> = RefCell::default();
}

/// Runs one case.
///
/// # Errors
/// What was violated.
pub fn check(seed: u64, less: &Less, wrong: Wrong) -> Result<Ended, Box<Failure>> {
    let case = Case::new(seed, less, wrong.broken);
    let failed = |violation| Box::new(Failure { seed, less: less.clone(), wrong, violation });
    let expected = results(&case).map_err(failed)?;
    let selected = select(wrong.mutant);
    selected.map_err(|error| {
        failed(Violation { invariant: "there are mutants", text: error.to_string() })
    })?;
    let ended = of_less(&case, less, false).0.map_err(failed)?;
    // A rank that is not there any more, or has not ended in the steps that are left, has no result.
    let differs = |(result, expected): (&Option<u64>, _)| result.is_some() && result != expected;
    if ended.results.iter().zip(&expected).any(differs) {
        let text = format!(
            "the results are {:x?}, without failures they are {expected:x?}",
            ended.results
        );
        return Err(failed(Violation { invariant: "the same results", text }));
    }
    Ok(ended)
}

/// Runs a case, or those of its steps that are left of it.
fn of_less(case: &Case, less: &Less, traced: bool) -> Run {
    let mut all = Vec::new();
    let Some(Numbers(numbers)) = &less.steps else {
        return run_steps(case, None, traced, &mut all);
    };
    let _ = run_steps(case, None, false, &mut all);
    let left = numbers.iter().filter_map(|&number| Some((number, *all.get(number)?)));
    run_steps(case, Some(&left.collect::<Vec<_>>()), traced, &mut Vec::new())
}

/// The trace of a case, or of those of its steps that are left of it.
pub fn trace(case: &Case, less: &Less) -> Vec<String> {
    of_less(case, less, true).1
}

/// The results of the same program without failures.
fn results(case: &Case) -> Result<Vec<Option<u64>>, Violation> {
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
) -> Result<Counts, Box<Failure>> {
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
    pub fn shrink(self: Box<Self>) -> Box<Self> {
        let mut best = self;
        while let Some(smaller) =
            best.smaller().into_iter().find_map(|less| check(best.seed, &less, best.wrong).err())
        {
            best = smaller;
        }
        best.with_fewer_steps()
    }

    /// The same with as few steps of its schedule as are needed, as far as some hundred attempts find out.
    fn with_fewer_steps(self: Box<Self>) -> Box<Self> {
        let case = Case::new(self.seed, &self.less, self.wrong.broken);
        if select(self.wrong.mutant).is_err() {
            return self;
        }
        let mut all = Vec::new();
        let _ = run_steps(&case, None, false, &mut all);
        let with = |steps: &[usize]| {
            let numbered: Vec<_> = steps.iter().map(|&number| (number, all[number])).collect();
            let violation = run_steps(&case, Some(&numbered), false, &mut Vec::new()).0.err()?;
            let less = Less { steps: Some(Numbers(steps.to_vec())), ..self.less.clone() };
            Some(Box::new(Failure { less, violation, ..(*self).clone() }))
        };
        let (mut best, mut left) = (self.clone(), (0..all.len()).collect::<Vec<_>>());
        let (mut chunk, mut attempts) = (left.len() / 2, 0);
        while chunk > 0 && attempts < ATTEMPTS {
            let (mut at, mut fewer) = (0, false);
            while at < left.len() && attempts < ATTEMPTS {
                let end = (at + chunk).min(left.len());
                let without = [&left[..at], &left[end..]].concat();
                attempts += 1;
                match with(&without) {
                    Some(failure) => (best, left, fewer) = (failure, without, true),
                    None => at = end,
                }
            }
            if !fewer || chunk > 1 {
                chunk /= 2;
            }
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
        let Less { without, ranks, rounds, checkpoints, profile, steps } = &self.less;
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
        if let Some(steps) = steps {
            line += &format!(" --steps {steps}");
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
        if select(self.wrong.mutant).is_ok() {
            for line in trace(&case, &self.less) {
                writeln!(f, "{line}")?;
            }
        }
        writeln!(f, "violated: {}: {}", self.violation.invariant, self.violation.text)?;
        write!(f, "to run it again: {}", self.command())
    }
}
