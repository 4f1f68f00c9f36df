//! The processes that help a job: its event loggers and its launcher are killed while ranks are.

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use rustix::process::{Pid, Signal, kill_process};

/// Kills one of the children of a launcher, if there is one like this.
fn kill_a(launcher: u32, what: impl Fn(&str) -> bool) -> u32 {
    let them: Vec<String> = children(launcher).into_iter().filter(|pid| what(pid)).collect();
    let Some(pid) = fastrand::choice(&them) else { return 0 };
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    u32::from(kill_process(pid, Signal::KILL).is_ok())
}

/// From the first moment of a job to its last no logger lives for long.
#[test]
fn the_event_logger_is_killed_again_and_again() {
    let part = "phases 64 150";
    let (answer, _) = in_peace(part, 3);
    let folder = tempfile::tempdir().unwrap();
    let disk = ["--durability", "disk", "--log-dir", folder.path().to_str().unwrap()];
    for (more, most) in [(&[][..], 30), (&disk, 100)] {
        let options = [&LOGGED[..], &["--events", "all", "--sets", "rank"], more].concat();
        let (mut loggers, mut ranks) = (0, 0);
        let job = disturbed(&mut application(part, 3, &options), |launcher, goes_on| {
            while goes_on(Duration::from_micros(fastrand::u64(..most * 1000))) && loggers < 900 {
                loggers += kill_a(launcher, is_logger);
                if loggers % 8 == 7 && ranks < 5 {
                    ranks += kill_a(launcher, is_rank);
                }
            }
        });
        println!("{loggers} loggers and {ranks} ranks killed in {:?}", job.took);
        assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{more:?}: {}", job.err);
        assert!(loggers > 3, "{loggers} loggers killed");
        let line = "; another one goes on, and nothing is lost";
        assert!(job.err.contains(line), "{}", job.err);
    }
}

/// Whatever the launcher is doing when it is killed: starting ranks, a logger or a guard again, or
/// waiting for ends.
#[test]
fn nobody_is_left_when_the_launcher_is_killed_while_it_starts_others_again() {
    for _ in 0..12 {
        // In the environment of all that belong to the job.
        let mark = format!("{:016x}", fastrand::u64(..));
        let options = [&LOGGED[..], &["--sets", "rank", "--events", "all"]].concat();
        let mut command = application("ring 64 100000000", 4, &options);
        command.env("MARK", &mark).stdout(Stdio::null()).stderr(Stdio::null());
        let mut launcher = command.spawn().unwrap();
        let kills = fastrand::u32(..12);
        for _ in 0..kills {
            let what = [is_rank, is_rank, is_logger, is_guard][fastrand::usize(..4)];
            kill_a(launcher.id(), what);
            std::thread::sleep(Duration::from_micros(fastrand::u64(..20_000)));
        }
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        assert!(soon(|| marked(&mark).is_empty()), "{kills} kills: {:?}", marked(&mark));
    }
}

/// The processes that have this in their environment.
fn marked(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let names = processes.filter_map(|process| process.file_name().into_string().ok());
    let has = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let wanted = format!("MARK={mark}");
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) && runs(pid)
    };
    names.filter(has).map(|pid| format!("{pid} {}", first_argument(&pid))).collect()
}
