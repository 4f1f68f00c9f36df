//! The `taffrail-perf` command.

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use taffrail_perf::app::App;
use taffrail_perf::compare::Compare;
use taffrail_perf::determinants::Determinants;
use taffrail_perf::growth::Growth;
use taffrail_perf::limits::Limits;
use taffrail_perf::logging::Logging;
use taffrail_perf::matching::Match;
use taffrail_perf::mpi::{Mpi, MpiKill};
use taffrail_perf::netpipe::Netpipe;
use taffrail_perf::overcommit::Overcommit;
use taffrail_perf::pingpong::Pingpong;
use taffrail_perf::poll::Poll;
use taffrail_perf::rate::Rate;
use taffrail_perf::recovery::{Faults, Recovery};
use taffrail_perf::say::Verbosity;
use taffrail_perf::tune::Tune;
use taffrail_perf::{launching, provenance, say};

/// Measures Taffrail on this machine, beside what the machine allows and what others reach.
///
/// Every command starts the ranks it needs, each pinned to a CPU; started by a launcher, it
/// measures between the ranks of that job. Figures are medians with their 1st and 99th percentile.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Netpipe(Netpipe),
    Pingpong(Pingpong),
    Rate(Rate),
    Match(Match),
    Poll(Poll),
    Overcommit(Overcommit),
    Compare(Compare),
    Limits(Limits),
    Logging(Logging),
    Growth(Growth),
    Determinants(Determinants),
    Recovery(Recovery),
    Faults(Faults),
    Mpi(Mpi),
    MpiKill(MpiKill),
    Tune(Tune),
    App(App),
    /// Keeps the events of ranks; started by whoever starts them
    #[command(hide = true)]
    Eventlog(taffrail_launch::eventlog::Args),
    /// Starts and watches the ranks of one node; started by `--hosts`
    #[command(hide = true)]
    Agent(taffrail_launch::AgentArgs),
    /// Keeps copies of the events of other nodes' ranks; started by the agent of a node
    #[command(hide = true)]
    Copies(taffrail_launch::eventlog::CopiesArgs),
    /// Ends the ranks of a launcher that died; started by it
    #[command(hide = true)]
    Guard,
    /// Writes manual pages and completions; started by who installs it
    #[command(hide = true)]
    Pages(taffrail_launch::pages::Args),
}

impl Command {
    /// Whether it measures.
    fn measures(&self) -> bool {
        use Command::{Agent, App, Copies, Eventlog, Guard, Pages};
        !matches!(self, App(_) | Agent(_) | Copies(_) | Eventlog(_) | Guard | Pages(_))
            && !matches!(self, Command::Tune(tune) if tune.show)
    }
}

fn main() -> ExitCode {
    if let Err(status) = taffrail_launch::stack::check(1024) {
        return status;
    }
    let command = match Arguments::try_parse() {
        Ok(Arguments { verbosity, command }) => {
            if let Err(error) = verbosity.apply() {
                say::note(format_args!("taffrail-perf: {error}"));
                return ExitCode::from(2);
            }
            command
        }
        Err(e) => return taffrail_launch::print_usage(&e),
    };
    if command.measures() && !launching::in_a_job() {
        provenance::warn_of_debug_build();
        if say::is_verbose() {
            provenance::say_tuning();
        }
    }
    let result = match command {
        Command::Netpipe(netpipe) => netpipe.run(),
        Command::Pingpong(pingpong) => pingpong.run(),
        Command::Rate(rate) => rate.run(),
        Command::Match(matching) => matching.run(),
        Command::Poll(poll) => poll.run(),
        Command::Overcommit(overcommit) => overcommit.run(),
        Command::Compare(compare) => compare.run(),
        Command::Limits(limits) => limits.run(),
        Command::Logging(logging) => logging.run(),
        Command::Growth(growth) => growth.run(),
        Command::Determinants(determinants) => determinants.run(),
        Command::Recovery(recovery) => recovery.run(),
        Command::Faults(faults) => faults.run(),
        Command::Mpi(mpi) => mpi.run(),
        Command::MpiKill(kill) => kill.run(),
        Command::Tune(tune) => tune.run(),
        Command::App(app) => app.run(),
        Command::Eventlog(args) => return taffrail_launch::eventlog::eventlog(&args),
        Command::Agent(args) => return taffrail_launch::agent(&args),
        Command::Copies(args) => return taffrail_launch::eventlog::copies(&args),
        Command::Guard => return taffrail_launch::guard(),
        Command::Pages(args) => return taffrail_launch::pages::pages(Arguments::command(), &args),
    };
    result.unwrap_or_else(|error| {
        if !error.is_reader_gone() {
            say::note(format_args!("taffrail-perf: {error}"));
        }
        ExitCode::FAILURE
    })
}
