//! The `taffrail` command: starts jobs, and tells what a machine offers them.

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use taffrail_launch::{eventlog, info, mpi, mpirun, pages, print_usage, run, stack};

#[derive(Parser)]
#[command(
    name = "taffrail",
    version,
    about = "Starts and watches jobs, on this machine or on several"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a program as a job of N ranks, and ends with its status
    Run(run::Args),
    /// Starts an MPI program over Taffrail
    Mpi(mpi::Args),
    /// Tells what this machine offers, and why what is missing is missing
    Info(info::Args),
    /// Starts and watches the ranks of one node; started by `run --hosts`
    #[command(hide = true)]
    Agent(run::AgentArgs),
    /// Keeps the events of ranks; started by whoever starts the ranks
    #[command(hide = true)]
    Eventlog(eventlog::Args),
    /// Keeps copies of the events of other nodes' ranks; started by the agent of a node
    #[command(hide = true)]
    Copies(eventlog::CopiesArgs),
    /// Ends the ranks of a launcher that died; started by `run`
    #[command(hide = true)]
    Guard,
    /// Becomes a program that starts through PMIx; started by `run`
    #[command(hide = true)]
    PmixRank {
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Writes manual pages and completions; started by who installs it
    #[command(hide = true)]
    Pages(pages::Args),
    /// Serves PMIx to it
    #[command(hide = true)]
    PmixServer,
}

fn main() -> ExitCode {
    if let Err(status) = stack::check(512) {
        return status;
    }
    let words = mpirun::command_line(std::env::args_os(), &Cli::command());
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(e) => return print_usage(&e),
    };
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Mpi(args) => mpi::mpi(args),
        Command::Info(args) => info::info(&args),
        Command::Eventlog(args) => eventlog::eventlog(&args),
        Command::Copies(args) => eventlog::copies(&args),
        Command::Agent(args) => run::agent(&args),
        Command::Guard => run::guard(),
        Command::PmixRank { program, args } => run::pmix_rank(&program, &args),
        Command::Pages(args) => pages::pages(Cli::command(), &args),
        Command::PmixServer => run::pmix_server(),
    }
}
