//! What a job over nodes is.

use crate::run::nodes::options::Plan;
use crate::run::ranks::is_of_launcher;
use crate::run::{App, Args, Bind, Failure, job_name, pmix};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use taffrail_agent::Secret;
use taffrail_agent::launcher::{Config, LINK_LAPSE};
use taffrail_agent::wire::{Binding, Logging, Program, RankCare};

/// Output that each node may have under way.
const OUTPUT_WINDOW: u32 = 256 * 1024;

/// At least one: 0 stands for never.
fn in_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

/// The job that the command line asks for, with a name and a secret of its own.
pub fn config(args: &Args, plan: &Plan, logging: Option<Logging>) -> Result<Config, Failure> {
    let mut secret = Secret([0; 32]);
    rustix::rand::getrandom(&mut secret.0, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Failure::new(format!("no random numbers (getrandom): {e}")))?;
    let directory = std::env::current_dir()
        .map_err(|e| Failure::new(format!("the working directory is not known: {e}")))?;
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    let ours = std::env::vars_os().filter(|(name, _)| !is_of_launcher(name));
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> =
        ours.map(|(name, value)| (bytes(&name), bytes(&value))).collect();
    let more = args.environment.iter();
    environment.extend(more.map(|(name, value)| (name.as_bytes().to_vec(), bytes(value))));
    let before = if args.pmix { &pmix::BEFORE_PROGRAM.map(OsStr::new)[..] } else { &[] };
    let program = |(number, app): (usize, &App)| Program {
        app: number as u32,
        directory: bytes(directory.as_os_str()),
        arguments: before.iter().copied().chain(app.command()).map(bytes).collect(),
        environment: environment.clone(),
    };
    Ok(Config {
        hosts: plan.hosts.clone(),
        reliable: plan.reliable,
        ranks: args.ranks() as usize,
        oversubscribe: plan.oversubscribe,
        sets: logging
            .as_ref()
            .map(|logging| logging.sets.iter().map(|set| *set as usize).collect()),
        logging,
        programs: args.apps().iter().enumerate().map(program).collect(),
        apps: args.app_numbers().into_iter().map(|app| app as u32).collect(),
        job: job_name::draw()?.0,
        secret,
        network: plan.network.clone(),
        terms: plan.terms,
        start_timeout: plan.start_timeout,
        link_timeout: plan.link_timeout,
        link_lapse: LINK_LAPSE,
        output_window: OUTPUT_WINDOW,
        care: RankCare {
            heartbeat_ms: args.failures.heartbeat().map_or(0, in_ms),
            binding: match args.bind {
                None => Binding::Auto,
                Some(Bind::Core) => Binding::Core,
                Some(Bind::None) => Binding::None,
            },
        },
    })
}
