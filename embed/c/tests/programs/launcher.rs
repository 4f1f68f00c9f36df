//! The launcher of the tests' jobs: `taffrail run` as a program of this package.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
enum Command {
    Run(taffrail_launch::Args),
    Guard,
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Run(args) => taffrail_launch::run(args),
        Command::Guard => taffrail_launch::guard(),
    }
}
