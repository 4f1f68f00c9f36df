//! The processes that help a job: its event loggers and its launcher are killed while ranks are.

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use rustix::process::{Pid, Signal, kill_process};

/// Kills one of the children of a launcher, if there is one like this.
fn kill_a(launcher: u32, what: impl Fn(&str) -> bool) -> u32 {
    let them: Vec<String> = children(launcher).into_iter().filter(|pid| what(pid)).collect();
    let Some(pid) = fastrand::choice(&them) else { return 0 };
    u32::from(kill_it(pid))
}

/// From the first moment of a job to its last no logger lives for long.
#[test]
fn the_event_logger_is_killed_again_and_again() {
    let part = "phases 64 600";
    let (answer, _) = in_peace(part, 3);
    let folder = tempfile::tempdir().unwrap();
    let disk = ["--durability", "disk", "--log-dir", folder.path().to_str().unwrap()];
    for (more, most) in [(&[][..], 20), (&disk, 50)] {
        let options = [&LOGGED[..], &["--events", "all", "--sets", "rank"], more].concat();
        let (mut loggers, mut ranks) = (0, 0);
        let mut run = || {
            disturbed(&mut application(part, 3, &options), |launcher, goes_on| {
                let pause = || Duration::from_micros(fastrand::u64(..most * 1000));
                while goes_on(pause()) && loggers < 900 {
                    loggers += kill_a(launcher, is_logger);
                    if loggers % 8 == 7 && ranks < 5 {
                        ranks += kill_a(launcher, is_rank);
                    }
                }
            })
        };
        let mut job = run();
        // One was killed when all were done with each other: nobody is restarted then.
        if job.err.contains("done with all others") {
            job = run();
        }
        println!("{loggers} loggers and {ranks} ranks killed in {:?}", job.took);
        assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{more:?}: {}", job.err);
        assert!(loggers > 3, "{loggers} loggers killed");
        let line = "; another one goes on, and nothing is lost";
        assert!(job.err.contains(line), "{}", job.err);
    }
}

/// Copies of all events.
const COPIES: usize = 3;

/// A job whose event loggers each have a copy, and the file with what its launcher says.
fn with_copies(folder: &Path) -> (Command, std::path::PathBuf) {
    let copies = ["--durability", "node", "--copies", &COPIES.to_string()];
    let options = [&LOGGED[..], &["--events", "all", "--sets", "rank"], &copies].concat();
    let mut job = application("phases 64 150", 3, &options);
    let said = folder.join("said");
    job.stderr(std::fs::File::create(&said).unwrap());
    (job, said)
}

fn loggers(launcher: u32) -> Vec<String> {
    children(launcher).into_iter().filter(|pid| is_logger(pid) && runs(pid)).collect()
}

fn kill_it(pid: &str) -> bool {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).is_ok()
}

#[test]
fn all_but_one_copy_of_the_events_are_killed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let (answer, _) = in_peace("phases 64 150", 3);
    let (mut job, said) = with_copies(folder.path());
    let (mut killed, mut ranks) = (0, 0);
    let job = disturbed(&mut job, |launcher, goes_on| {
        let tick = Duration::from_millis(2);
        while goes_on(tick) && loggers(launcher).len() < COPIES {}
        // Before the ranks are there, not all copies may be.
        while goes_on(tick) && !children(launcher).iter().any(|pid| is_rank(pid)) {}
        while goes_on(Duration::from_micros(fastrand::u64(..20_000))) {
            let replaced = || {
                let said = std::fs::read_to_string(&said).unwrap();
                said.matches("; another one goes on, and nothing is lost").count()
            };
            if ranks < 8 && fastrand::bool() {
                ranks += kill_a(launcher, is_rank);
            }
            // Only when all have everything again it may be any of them that is spared.
            if replaced() == killed {
                let mut all = loggers(launcher);
                fastrand::shuffle(&mut all);
                killed += all.iter().skip(1).filter(|pid| kill_it(pid)).count();
            }
        }
    });
    println!("{killed} loggers and {ranks} ranks killed in {:?}", job.took);
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{said}");
    assert!(killed >= 4 && ranks > 0, "{killed} loggers and {ranks} ranks killed");
}

#[test]
fn when_all_copies_of_the_events_are_gone_the_job_ends_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (mut job, said) = with_copies(folder.path());
    let job = disturbed(&mut job, |launcher, goes_on| {
        while goes_on(Duration::from_millis(2))
            && !children(launcher).iter().any(|pid| first_argument(pid) == "--exact")
        {}
        let launcher_pid = Pid::from_raw(launcher as i32).unwrap();
        // It sees the end of one when all are gone.
        kill_process(launcher_pid, Signal::STOP).unwrap();
        let all = loggers(launcher);
        assert_eq!(all.len(), COPIES);
        assert!(all.iter().all(|pid| kill_it(pid)));
        kill_process(launcher_pid, Signal::CONT).unwrap();
    });
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(job.status, 1, "{said}");
    let why = "all 3 event loggers are gone, and what they had with them";
    assert!(said.contains(why), "{said}");
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
