//! `taffrail-sim`: runs seeds. `cargo xtask sim` calls it.

use clap::Parser;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use taffrail_logging::mutants::Mutant;
use taffrail_sim::broken::Broken;
use taffrail_sim::case::{Case, Less};
use taffrail_sim::job::check::{Counts, Failure, Wrong, check, check_all, trace};
use taffrail_sim::numbers::Numbers;
use taffrail_sim::profile::Profile;

#[derive(Parser)]
#[command(about = "Simulates ranks that fail and are replayed")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000, conflicts_with = "seconds")]
    seeds: u64,
    /// Runs seeds for so long instead.
    #[arg(long)]
    seconds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads [default: one for each processor].
    #[arg(long)]
    jobs: Option<u64>,
    /// Runs this seed alone, and prints its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of this profile only [default: each seed has its own].
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// With --seed: without these of its faults.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    without: Vec<usize>,
    /// With --seed: number of ranks.
    #[arg(long, requires = "seed")]
    ranks: Option<u32>,
    /// With --seed: number of rounds.
    #[arg(long, requires = "seed")]
    rounds: Option<u32>,
    /// With --seed: upper limit of checkpoints.
    #[arg(long, requires = "seed")]
    checkpoints: Option<u32>,
    /// With --seed: these steps of its schedule alone, as `0-17,20`.
    #[arg(long, requires = "seed")]
    steps: Option<Numbers>,
    /// What is wrong on purpose beside the product.
    #[arg(long, value_enum)]
    broken: Option<Broken>,
    /// What is wrong on purpose in the product.
    #[arg(long)]
    mutant: Option<Mutant>,
}

impl Arguments {
    fn wrong(&self) -> Wrong {
        Wrong { mutant: self.mutant, broken: self.broken }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn one(seed: u64, arguments: &Arguments) -> Result<(), Box<Failure>> {
    let Arguments { without, ranks, rounds, checkpoints, profile, steps, broken, .. } = arguments;
    let less = Less {
        without: without.clone(),
        ranks: *ranks,
        rounds: *rounds,
        checkpoints: *checkpoints,
        profile: *profile,
        steps: steps.clone(),
    };
    let ended = check(seed, &less, arguments.wrong())?;
    let case = Case::new(seed, &less, *broken);
    println!("seed {seed}: {case}");
    for line in trace(&case, &less) {
        println!("{line}");
    }
    println!("{} steps, nothing violated", ended.steps);
    Ok(())
}

fn many(arguments: &Arguments) -> Result<(), Box<Failure>> {
    let Arguments { seeds, seconds, from, profile, .. } = *arguments;
    let wrong = arguments.wrong();
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let jobs = arguments.jobs.unwrap_or(jobs).max(1);
    let start = Instant::now();
    let until = seconds.map(|seconds| start + Duration::from_secs(seconds));
    let last = if until.is_some() { u64::MAX } else { from + seeds };
    // Nor is there anything to look for once one has failed.
    let has_failed = AtomicBool::new(false);
    let is_time =
        || until.is_none_or(|until| Instant::now() < until) && !has_failed.load(Ordering::Relaxed);
    let counts: Vec<Result<Counts, Box<Failure>>> = std::thread::scope(|scope| {
        let one = |job| {
            let seeds = (from + job..last).step_by(jobs as usize).take_while(|_| is_time());
            let has_failed = &has_failed;
            scope.spawn(move || {
                check_all(seeds, profile, wrong).map_err(|failure| {
                    has_failed.store(true, Ordering::Relaxed);
                    failure.shrink()
                })
            })
        };
        let threads: Vec<_> = (0..jobs).map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("panics are caught")).collect()
    });
    let mut all = Counts::default();
    for counts in counts {
        all.add(&counts?);
    }
    let took = start.elapsed().as_secs_f64();
    print!("{}{}{}", all.coverage, all.frames, all.paths);
    println!(
        "{} runs, {} steps, {} faults, {} restarts, {} checkpoints, {} ranks went on from one, in {took:.1} s: \
         {:.0} schedules/s; nothing violated",
        all.runs,
        all.steps,
        all.faults,
        all.restarts,
        all.checkpoints,
        all.restored,
        all.runs as f64 / took
    );
    Ok(())
}
