//! An application as a job that is disturbed while it runs.

use super::*;
use clap::ValueEnum;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use taffrail::Job;
use taffrail_perf::app;

/// Seconds that a job may take; it is over after a few. Then its ranks have said several times what they
/// wait for.
const LIMIT: u64 = 180;

/// A rank of `APP`: name, size and iterations of an application. Alone it does nothing.
#[test]
fn a_rank_of_an_application() {
    let Ok(part) = std::env::var("APP") else { return };
    // What a rank says that waits for long.
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    log.with_writer(std::io::stderr).init();
    let fields: Vec<&str> = part.split(' ').collect();
    let name = app::Name::from_str(fields[0], true).unwrap();
    let (size, iterations) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let every = fields.get(3).map_or(0, |every| every.parse().unwrap());
    let checksum = app::run(name, &mut endpoint, size, iterations, every, |_| {}).unwrap();
    if let Some(determinants) = endpoint.determinants() {
        let line = format!("rank {}: {determinants}\n", endpoint.rank());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    if endpoint.rank() == 0 {
        let line = format!("\nchecksum {checksum:016x}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// A job of so many ranks that run an application: its name, size, iterations, and, if it takes
/// checkpoints, after how many of these.
pub fn application(part: &str, ranks: u32, options: &[&str]) -> Command {
    let mut command = taffrail(&["run", "-n", &ranks.to_string(), "--timeout", &LIMIT.to_string()]);
    command.args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::apps::a_rank_of_an_application", "--nocapture", "--quiet"]);
    command.env("APP", part).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The answer of an application in peace, and how long that took.
pub fn in_peace(part: &str, ranks: u32) -> (String, Duration) {
    let job = disturbed(&mut application(part, ranks, &[]), |_, _| {});
    assert_eq!(job.status, 0, "{}", job.err);
    (checksum(&job).expect("rank 0 tells it").to_owned(), job.took)
}

/// Runs a job to its end. `disturb` is told of the launcher, and whether the job goes on after so much
/// time.
pub fn disturbed(
    command: &mut Command,
    disturb: impl FnOnce(u32, &dyn Fn(Duration) -> bool),
) -> Ended {
    let started = Instant::now();
    let job = command.spawn().unwrap();
    let launcher = job.id();
    let (over, is_over) = channel::<()>();
    let waits = std::thread::spawn(move || {
        let output = job.wait_with_output().unwrap();
        drop(over);
        ended(output, started)
    });
    let goes_on = |pause| is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
    disturb(launcher, &goes_on);
    if goes_on(Duration::from_secs(LIMIT + 60)) {
        panic!("the launcher does not end its job: {}", states(launcher));
    }
    waits.join().unwrap()
}

pub fn checksum(job: &Ended) -> Option<&str> {
    job.out.lines().find_map(|line| line.strip_prefix("checksum "))
}

/// What a process and its children are doing, as far as the kernel tells.
fn states(of: u32) -> String {
    let of = of.to_string();
    let all = [of.clone()].into_iter().chain(children(of.parse().unwrap()));
    let state = |pid: String| {
        let about =
            |what| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let status = about("status");
        let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or("gone");
        format!("\n{pid} {}: {state}, {}", first_argument(&pid), about("wchan"))
    };
    all.map(state).collect()
}
