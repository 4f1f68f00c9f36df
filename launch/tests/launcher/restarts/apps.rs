//! Applications whose ranks are killed at random moments: the answer is that of a run in peace.

use super::*;
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use taffrail::Job;
use taffrail_perf::app;

const RANKS: u32 = 4;

/// A rank of `APP`: name, size and iterations of an application. Alone it does nothing.
#[test]
fn a_rank_of_an_application() {
    let Ok(part) = std::env::var("APP") else { return };
    let fields: Vec<&str> = part.split(' ').collect();
    let name = app::Name::from_str(fields[0], true).unwrap();
    let (size, iterations) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let checksum = app::run(name, &mut endpoint, size, iterations, |_| {}).unwrap();
    if endpoint.rank() == 0 {
        let line = format!("\nchecksum {checksum:016x}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// Runs an application; `killer` is told of the launcher, and ends when it says so.
fn application(
    part: &str,
    options: &[&str],
    killer: impl FnOnce(u32, &dyn Fn(Duration) -> bool),
) -> Ended {
    let mut command = taffrail(&["run", "-n", &RANKS.to_string(), "--timeout", "100"]);
    command.args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::apps::a_rank_of_an_application", "--nocapture", "--quiet"]);
    command.env("APP", part).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let job = command.spawn().unwrap();
    let launcher = job.id();
    let (over, is_over) = channel::<()>();
    let waits = std::thread::spawn(move || {
        let output = job.wait_with_output().unwrap();
        drop(over);
        ended(output, started)
    });
    // Whether the job goes on after so much time.
    killer(launcher, &|pause| is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout));
    waits.join().unwrap()
}

fn checksum(job: &Ended) -> Option<&str> {
    job.out.lines().find_map(|line| line.strip_prefix("checksum "))
}

/// Kills ranks of this application, in as many jobs as there are options for.
fn killed(part: &str, all_options: &[&[&str]]) {
    let peace = application(part, &[], |_, _| {});
    assert_eq!(peace.status, 0, "{}", peace.err);
    let answer = checksum(&peace).unwrap();
    let seed =
        std::env::var("TAFFRAIL_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    println!("{part}: {answer} in {:?}, seed {seed}", peace.took);
    let mut random = fastrand::Rng::with_seed(seed);
    for options in all_options {
        let options = [&LOGGED, *options].concat();
        let mut late = 0;
        loop {
            let pause = peace.took.as_micros() as u64 / [1, 2, 8, 64][random.usize(..4)];
            let mut killed = 0;
            let job = application(part, &options, |launcher, goes_on| {
                while killed < 6 && goes_on(Duration::from_micros(random.u64(..pause))) {
                    // Now and then the event logger.
                    let wanted = if random.u32(..8) == 0 { is_logger } else { is_rank };
                    let them = children(launcher).into_iter().filter(|pid| wanted(pid));
                    let Some(pid) = random.choice(them.collect::<Vec<_>>()) else { continue };
                    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
                    killed += u32::from(kill_process(pid, Signal::KILL).is_ok());
                }
            });
            // All ranks were done, and one was killed before it had ended; or it was over before.
            let done = job.err.contains("it is not restarted, since rank");
            if (done || killed == 0) && late < 10 {
                late += 1;
                continue;
            }
            assert_eq!(job.status, 0, "{options:?}: {}", job.err);
            assert_eq!(checksum(&job), Some(answer), "{options:?}: {}", job.err);
            println!(
                "{options:?}: {killed} killed, {:?}; {}",
                job.took,
                job.err.lines().last().unwrap_or_default()
            );
            break;
        }
    }
}

/// Each rank for itself, pairs, and all together.
fn killed_in_sets(part: &str) {
    let folder = tempfile::tempdir().unwrap();
    let pairs = folder.path().join("pairs");
    std::fs::write(&pairs, "0 1\n2 3\n").unwrap();
    let pairs = ["--sets", pairs.to_str().unwrap()];
    killed(part, &[&["--sets", "rank"], &["--sets", "rank"], &pairs, &["--sets", "node"]]);
}

#[test]
fn tokens_arrive() {
    killed_in_sets("ring 1024 4000");
}

#[test]
fn waves_go_on() {
    killed_in_sets("wave2d 96 300");
}

#[test]
fn a_cube_goes_on() {
    killed_in_sets("jacobi3d 16 150");
}

#[test]
fn equations_are_solved() {
    killed_in_sets("cg 32 8");
}

#[test]
fn no_grain_is_lost() {
    killed_in_sets("phases 256 60");
}

#[test]
fn every_piece_is_answered_once() {
    killed_in_sets("irregular 64 30");
}

#[test]
fn with_all_receptions_as_events_and_events_on_disk() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let disk = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    let on = |dir| ["--durability", "disk", "--log-dir", dir, "--sets", "rank"];
    killed(
        "irregular 64 30",
        &[&["--events", "all", "--sets", "rank"], &on(disk[0]), &on(disk[1])],
    );
    let pairs = ["--events", "all", "--durability", "disk", "--log-dir", disk[2]];
    killed("phases 256 60", &[&["--events", "all"], &pairs]);
}
