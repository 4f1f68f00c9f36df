//! A job whose processes are the product's own engine, over the [simulated network](crate::fabric), with the
//! [event logger](crate::logger): nothing of `engine/` and `logging/` is put together a second time.
//!
//! One source of chance decides what happens next: a step of the network, a turn or a call of a process, a step of the
//! logger, a process that starts again. Faults come from the [`Case`]. It is an error if a run does not end, if its
//! results are not those of a run without failures, if an engine or a program reports an error, and if the network has seen
//! memory overwritten before it was read.

pub mod check;
mod elsewhere;
mod faults;
mod frames;
mod host;
mod oracle;
mod paths;
mod process;
mod recovery;
mod steps;

use crate::case::Case;
use crate::fabric::{Coverage, Settings, SimFabric, SimNet, Step as NetStep};
use crate::logger::Logger;
use crate::violation::{Checked, Violation, violation};
pub use frames::Frames;
use host::{LeftLog, Outside};
use oracle::Oracle;
pub use paths::{Path, Paths};
use process::Process;
use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};
use steps::Step;
use taffrail_engine::policy::Policy;
use taffrail_engine::view::View;
use taffrail_fabric::Reach;
use taffrail_logging::Rank;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The result of each rank; of one that was killed and not started again there is none.
    pub results: Vec<Option<u64>>,
    /// Steps it took.
    pub steps: usize,
    /// Faults that found something to break.
    pub faults: usize,
    /// Processes that were started again.
    pub restarts: usize,
    /// Checkpoints that were taken.
    pub checkpoints: usize,
    /// Processes that went on from one.
    pub restored: usize,
    /// What was reached in the network.
    pub coverage: Coverage,
    /// Frames that were sent, by their kinds.
    pub frames: Frames,
    /// Paths that were reached.
    pub paths: Paths,
}

/// Steps without an arrival, a fault or the end of a cut, after which a run is taken not to end.
const PATIENCE: usize = 60_000;
/// The same, whatever happens. A slow logger with small rings takes more than a hundred thousand steps.
const PATIENCE_AT_MOST: usize = 600_000;
/// What a step takes, in virtual time.
const STEP: Duration = Duration::from_micros(100);

thread_local! {
    /// The virtual time: how much has passed since some instant.
    static NOW: Cell<(Option<Instant>, Duration)> = const { Cell::new((None, Duration::ZERO)) };
}

fn now() -> Instant {
    let (begin, passed) = NOW.get();
    let begin = begin.unwrap_or_else(Instant::now);
    NOW.set((Some(begin), passed));
    begin + passed
}

/// The results of a case if nothing fails.
///
/// # Errors
/// What was violated all the same.
pub fn calm_results(case: &Case) -> Result<Vec<Option<u64>>, Violation> {
    // Where messages are not logged there are no failures: chance is another one.
    let seed = case.seed ^ u64::from(!case.logged) << 40;
    let calm = Case { seed, faults: Vec::new(), checkpoints: 0, ..case.clone() };
    run(&calm, false).0.map(|ended| ended.results)
}

/// Result of a run, and its trace if one is recorded.
pub type Run = (Result<Ended, Violation>, Vec<String>);

/// Runs a case over networks of all kinds, which the seed chooses. The trace is kept if it is asked for.
pub fn run(case: &Case, traced: bool) -> Run {
    run_steps(case, None, traced, &mut Vec::new())
}

/// Runs a case by chance, or these steps of the schedule that chance has made of it, each with its number; those that are not
/// possible without the others are not done. A run may be over before its program is.
fn run_steps(
    case: &Case,
    steps: Option<&[(usize, Step)]>,
    traced: bool,
    done: &mut Vec<Step>,
) -> Run {
    match case.seed % 4 {
        0 => run_over::<false, false>(case, steps, traced, done),
        1 => run_over::<true, false>(case, steps, traced, done),
        2 => run_over::<false, true>(case, steps, traced, done),
        _ => run_over::<true, true>(case, steps, traced, done),
    }
}

fn run_over<const S: bool, const L: bool>(
    case: &Case,
    steps: Option<&[(usize, Step)]>,
    traced: bool,
    done: &mut Vec<Step>,
) -> Run {
    let mut job = Job::<S, L>::new(case, traced);
    // A panic of what is simulated is a finding like others, and has a trace like others.
    let ended = catch_unwind(AssertUnwindSafe(|| job.run(steps, done))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation { invariant: "no panic", text: said.unwrap_or_default() })
    });
    (ended, job.net.trace())
}

struct Job<'a, const S: bool, const L: bool> {
    case: &'a Case,
    /// Chooses the next step.
    chance: fastrand::Rng,
    /// Chooses what a step or fault does, for each anew: so it does the same without those before it.
    random: fastrand::Rng,
    traced: bool,
    net: SimNet<true, S, L>,
    outside: Rc<RefCell<Outside>>,
    ranks: Vec<Option<Process<S, L>>>,
    /// Ranks that were started again and connect. As over shared memory, they wait for all others.
    opening: Vec<Option<SimFabric<true, S, L>>>,
    /// Ranks that were connected with all others since they started: their programs may run.
    met: Vec<bool>,
    /// The results of ranks that have closed their endpoints, and the views that have outlived them.
    closed: Vec<Option<u64>>,
    outlived: Vec<View>,
    incarnations: Vec<u32>,
    set_of: Vec<usize>,
    /// What survivors hold of the events of others, where these are lost; none of a rank that was not asked since the
    /// last has died.
    answers: Vec<Option<Vec<u8>>>,
    /// Of each rank, the memory with the determinants of others that it holds, where rings can be lost.
    held_tables: Vec<Option<OwnedFd>>,
    /// The payload log of the process that has taken the last checkpoint of each rank, if it has ended.
    left: Vec<LeftLog>,
    faults: usize,
    restarts: usize,
    checkpoints: usize,
    restored: usize,
}

impl<'a, const S: bool, const L: bool> Job<'a, S, L> {
    fn new(case: &'a Case, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(case.seed ^ 0x0e09_14e5);
        let settings = Settings {
            max_message: 96,
            inline: case.habits.inline,
            fragment: 64,
            segment_len: 512,
            max_segments: 64,
            capacity: case.habits.capacity,
            in_place: random.bool(),
            names_death: true,
            accepts_in_polls: case.loses_rings(),
            later_from: [None, Some(33), Some(1)][random.usize(0..3)],
            reach: [Some(Reach::Mapped), Some(Reach::Device), Some(Reach::Kernel), None]
                [random.usize(0..4)],
            trace: traced,
            ..Settings::small()
        };
        let (ranks, count) = (case.ranks, case.ranks as usize);
        let set_of: Vec<usize> = (0..ranks).map(|rank| case.set_of(rank)).collect();
        let outside = Rc::new(RefCell::new(Outside {
            logger: Logger::new(case),
            rings: vec![Vec::new(); count],
            vault: vec![None; count],
            elsewhere: vec![elsewhere::Elsewhere::default(); count],
            copies: case.copied,
            marks: vec![process::Mark::default(); count],
            left: vec![None; count],
            oracle: Oracle::new(case),
        }));
        let net = SimNet::new(count, settings);
        net.watch(outside.clone());
        if case.roster {
            net.over_nodes(set_of.clone(), case.broken);
        }
        Job {
            case,
            traced,
            net,
            outside,
            ranks: (0..count).map(|_| None).collect(),
            opening: (0..count).map(|_| None).collect(),
            met: vec![false; count],
            closed: vec![None; count],
            outlived: Vec::new(),
            incarnations: vec![0; count],
            set_of,
            answers: vec![None; count],
            held_tables: (0..count).map(|_| None).collect(),
            left: vec![LeftLog::default(); count],
            faults: 0,
            restarts: 0,
            checkpoints: 0,
            restored: 0,
            chance: random.fork(),
            random,
        }
    }

    fn run(
        &mut self,
        steps: Option<&[(usize, Step)]>,
        done: &mut Vec<Step>,
    ) -> Result<Ended, Violation> {
        let step = self.go(steps, done)?;
        self.check()?;
        std::mem::take(&mut self.outlived).into_iter().for_each(process::drop_view);
        let live = self.ranks.iter().map(|live| live.as_ref().and_then(|live| live.result));
        let results = live.zip(&self.closed).map(|(live, closed)| live.or(*closed)).collect();
        let Job { faults, restarts, checkpoints, restored, .. } = *self;
        let coverage = self.net.coverage();
        for rank in 0..self.case.ranks {
            self.see_spilled(rank);
        }
        let mut outside = self.outside.borrow_mut();
        outside.oracle.ended();
        let (frames, paths) = (outside.oracle.frames, outside.oracle.paths);
        Ok(Ended {
            results,
            steps: step,
            faults,
            restarts,
            checkpoints,
            restored,
            coverage,
            frames,
            paths,
        })
    }

    /// Runs steps until the run ends, adds them to `done`, and returns their number.
    fn go(
        &mut self,
        steps: Option<&[(usize, Step)]>,
        done: &mut Vec<Step>,
    ) -> Result<usize, Violation> {
        for rank in 0..self.case.ranks {
            let fabric = self.net.open(rank as usize);
            self.start(rank, fabric)?;
        }
        let mut faults = self.case.faults.clone();
        faults.sort_by_key(|(step, number, _)| (*step, *number));
        let mut faults = faults.into_iter().peekable();
        let (mut step, mut last, mut moved) = (0, 0, 0);
        while !self.is_over() && !self.is_ended_by_launcher() {
            let given = match steps.map(|steps| steps.get(step)) {
                None => None,
                Some(Some(given)) => Some(*given),
                Some(None) => break,
            };
            let number = given.map_or(step, |(number, _)| number);
            // A step here does less than one of the case.
            while let Some((_, fault_number, fault)) = faults.next_if(|(at, ..)| 4 * *at <= number)
            {
                self.net.say(|| format!("--- step {number}: fault {fault_number}: {fault:?}"));
                self.random.seed(self.case.seed ^ !(fault_number as u64));
                self.fail(&fault);
                (last, moved) = (step, step);
            }
            let chosen = given.map_or_else(|| self.choose(), |(_, chosen)| chosen);
            done.push(chosen);
            if given.is_none() || self.is_possible(chosen) {
                self.net.say(|| format!("{number:6} {chosen:?}"));
                self.random.seed(self.case.seed.rotate_left(32) ^ number as u64);
                self.perform(chosen)?;
            }
            let (begin, passed) = NOW.get();
            NOW.set((begin, passed + STEP));
            step += 1;
            if matches!(chosen, Step::EndCut(_) | Step::Turn(_) | Step::Net(NetStep::Carry { .. }))
            {
                moved = step;
            }
            if step > moved + PATIENCE || step > last + PATIENCE_AT_MOST {
                return Err(self.stuck());
            }
        }
        Ok(step)
    }

    fn reach(&self, path: Path) {
        self.outside.borrow_mut().oracle.paths.reach(path);
    }

    /// Notes whether a rank has spilled something.
    fn see_spilled(&self, rank: Rank) {
        let process = self.ranks[rank as usize].as_ref();
        if process.is_some_and(|process| !process.spill.borrow().spilled.borrow().is_empty()) {
            self.reach(Path::SegmentSpilled);
        }
    }

    fn is_over(&self) -> bool {
        let mut all = self.ranks.iter().zip(&self.closed);
        all.all(|(live, closed)| match live {
            Some(live) => live.has_left(),
            None => closed.is_some() || self.case.deaths,
        })
    }

    /// Whether the launcher ends the job: a rank is done with all others, and another has died or was restarted, unknown to it. Between
    /// nodes nobody sees a death at once.
    fn is_ended_by_launcher(&self) -> bool {
        let left = &self.outside.borrow().left;
        let present: u64 =
            self.incarnations.iter().map(|&incarnation| u64::from(incarnation)).sum();
        let mut known = left.iter().flatten();
        let is_missed = match self.ranks.iter().any(Option::is_none) {
            true => known.next().is_some(),
            false => known.any(|&known| known < present),
        };
        self.case.roster && self.case.logged && is_missed
    }

    /// A rank whose messages are not logged closes its endpoint when its program has ended. Views live on.
    fn close(&mut self, rank: Rank) {
        let at = rank as usize;
        let has_left = self.ranks[at].as_ref().is_some_and(Process::has_left);
        if !self.case.logged
            && has_left
            && let Some(process) = self.ranks[at].take()
        {
            self.closed[at] = process.result;
            self.outside.borrow_mut().oracle.closed(rank);
            self.outlived.extend(process.close());
        }
    }

    /// What was found out since the last check.
    fn check(&self) -> Checked {
        if let Some(found) = &self.outside.borrow().oracle.violation {
            return Err(found.clone());
        }
        match self.net.violation() {
            Some(found) => violation("kept-buffers", format!("{found:?}")),
            None => Ok(()),
        }
    }

    fn stuck(&self) -> Violation {
        let logger = self.outside.borrow().logger.runs;
        let mut text = format!("it goes on and on; event logger runs: {logger}");
        for (rank, live) in self.ranks.iter().enumerate() {
            let incarnation = self.incarnations[rank];
            text += &match live {
                None => format!("\n  rank {rank} is dead"),
                Some(live) => {
                    let waiting = live.engine.core.policy.waiting();
                    let (call, result) = (live.call(), live.result);
                    let peers = (0..).zip(&live.engine.core.peers);
                    let live_on = peers.filter(|&(peer, state)| peer != rank && !state.is_finished);
                    let live_on: Vec<usize> = live_on.map(|(peer, _)| peer).collect();
                    format!(
                        "\n  rank {rank}.{incarnation} calls {call:?}, result {result:?}: {waiting:?}, awaits FINALIZE of \
                         {live_on:?}"
                    )
                }
            };
        }
        Violation { invariant: "every run ends", text }
    }
}

fn failed<T>(rank: Rank, error: &taffrail_engine::Error) -> Result<T, Violation> {
    Err(Violation { invariant: "the protocol is kept", text: format!("rank {rank}: {error}") })
}
