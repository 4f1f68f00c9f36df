//! Chores of the project. `cargo xtask test` is all that a contributor, and CI, needs.

mod command;
mod counts;
mod failures;
mod header;
mod install;
mod place;
mod report;
mod steps;
mod structure;
mod tools;
mod wheels;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Chores of the project", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Installs what the tests need, and runs all of them.
    Test {
        /// Only these steps, in their usual order.
        #[arg(long, value_delimiter = ',')]
        only: Vec<steps::Step>,
        /// For how many seconds step `sim` runs schedules.
        #[arg(long, default_value_t = steps::SCHEDULES)]
        schedules: u32,
    },
    /// Builds the programs and libraries, and installs them under a prefix. With DESTDIR set, below
    /// that folder, for a package.
    Install {
        /// The folder that gets bin/, lib/, include/ and share/.
        #[arg(long)]
        prefix: PathBuf,
        /// Build them for debugging: several times slower, and several times larger.
        #[arg(long, conflicts_with = "release")]
        debug: bool,
        /// As without it: optimised.
        #[arg(long, hide = true)]
        release: bool,
        /// Have taffrail-perf and the C library join jobs whose launcher speaks PMIx, too.
        #[arg(long)]
        pmix: bool,
    },
    /// Writes embed/c/include/taffrail.h out of the sources of the C library.
    Header,
    /// Looks for inputs that break a parser or decoder.
    Fuzz {
        /// The target, a file of fuzz/fuzz_targets without its ending [default: all of them].
        target: Option<String>,
        /// How long to look, for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Runs this input once instead.
        #[arg(long, requires = "target")]
        input: Option<PathBuf>,
    },
    /// Simulates ranks that fail and are replayed: `--seeds N`, or `--seed S` for one and its trace.
    Sim {
        /// Passed on to the simulator, which has `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Counts instructions for each message and compares them with xtask/instructions.toml.
    Instructions,
}

fn main() -> ExitCode {
    let place = place::Place::find();
    let outcomes = match Arguments::parse().chore {
        Chore::Test { only, schedules } => steps::run(&place, &only, schedules),
        Chore::Install { prefix, debug, pmix, release: _ } => {
            return install::chore(&place, &prefix, install::How::Alone { release: !debug, pmix });
        }
        Chore::Header => vec![report::timed("header", || header::chore(&place))],
        Chore::Fuzz { target, seconds, input } => {
            let outcome = steps::fuzz::chore(&place, target.as_deref(), seconds, input.as_deref());
            vec![report::timed("fuzz", || outcome)]
        }
        Chore::Sim { arguments } => {
            vec![report::timed("sim", || steps::tests::sim(&place, &arguments))]
        }
        Chore::Instructions => {
            vec![report::timed("instructions", || steps::instructions::step(&place))]
        }
    };
    report::print(&outcomes)
}
