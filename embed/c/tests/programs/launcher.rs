//! The launcher of the tests' jobs: those of the `taffrail` command's parts that jobs need.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
enum Command {
    Run(Box<taffrail_launch::Args>),
    Eventlog(taffrail_launch::eventlog::Args),
    Guard,
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Run(args) => taffrail_launch::run(*args),
        Command::Eventlog(args) => taffrail_launch::eventlog::eventlog(&args),
        Command::Guard => taffrail_launch::guard(),
    }
}
