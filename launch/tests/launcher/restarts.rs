//! Ranks that are killed and started again.

mod apps;
mod causal;
mod checkpoints;
mod ends;
mod farewells;
mod gate;
mod heartbeats;
mod helpers;
mod pauses;
mod queues;
mod rank;
mod shortage;
mod silence;
mod standing_in;
mod storms;
mod torture;

use super::*;
use rank::{STEPS, about, lives, pid};
use std::path::Path;

/// `taffrail run` of four ranks that are [`rank::a_rank`], with these options.
fn job(dir: &Path, options: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "100", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "4"]);
    command.args(options).arg(test);
    command.args(["--exact", "restarts::rank::a_rank", "--nocapture", "--quiet"]);
    command.env("RESTARTS", dir).stdin(Stdio::null());
    command
}

const LOGGED: [&str; 2] = ["--logging", "pessimistic"];

/// Runs it with these orders to kill: `rank.incarnation.step:victims`.
fn killed(dir: &Path, options: &[&str], orders: &str) -> Ended {
    let mut command = job(dir, &[&LOGGED, options].concat());
    ended(command.env("KILL", orders).output().unwrap(), Instant::now())
}

/// The lines of the ranks that have finished.
fn finished(job: &Ended) -> Vec<&str> {
    sorted(&job.out).into_iter().filter(|line| line.starts_with("rank ")).collect()
}

/// Those of all four, each with the sum of all that all have exchanged.
fn all_four() -> Vec<String> {
    let sum: u32 = (0..STEPS).map(|step| (0..4).map(|rank| rank * 1000 + step).sum::<u32>()).sum();
    (0..4).map(|rank| format!("rank {rank} done {sum}")).collect()
}

/// The sets and generations as a process of a rank saw them.
fn seen(dir: &Path, rank: u32, incarnation: u32) -> String {
    about(dir, rank, incarnation).split_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_rank_that_is_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let job = killed(dir.path(), &["--sets", "rank"], "2.0.5:2 2.1.9:2");
    assert_eq!(
        (job.status, finished(&job)),
        (0, all_four().iter().map(|s| &**s).collect()),
        "{}",
        job.err
    );
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 1, 3, 1]);
    assert_eq!(seen(dir.path(), 0, 0), "0,1,2,3 [0, 0, 0, 0]");
    assert_eq!(seen(dir.path(), 2, 1), "0,1,2,3 [0, 0, 1, 0]");
    assert_eq!(seen(dir.path(), 2, 2), "0,1,2,3 [0, 0, 2, 0]");
    let told: Vec<&str> = job.err.lines().filter(|line| line.starts_with("taffrail: ")).collect();
    let first = format!(
        "taffrail: rank 2 (pid {}) was killed by signal 9 (SIGKILL); \
        restarting it as incarnation 1 (6 events to replay)",
        told_pid(dir.path(), 2, 0)
    );
    assert_eq!(told[0], first);
    assert!(
        told[1].ends_with("restarting it as incarnation 2 (10 events to replay)"),
        "{}",
        told[1]
    );
    assert!(told[2].starts_with("taffrail: 2 failures; 2 processes started again; from noticing"));
    assert!(told[2].ends_with("; 16 events handed out for replay"), "{}", told[2]);
    assert_eq!(told.len(), 3, "{told:?}");
}

fn told_pid(dir: &Path, rank: u32, incarnation: u32) -> String {
    about(dir, rank, incarnation).split(' ').next().unwrap().to_owned()
}

#[test]
fn a_set_falls_back_together_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let sets = dir.path().join("sets");
    std::fs::write(&sets, "# pairs\n0 1\n3, 2\n").unwrap();
    let job = killed(dir.path(), &["--sets", sets.to_str().unwrap()], "3.0.7:3 2.1.20:2");
    assert_eq!(
        (job.status, finished(&job)),
        (0, all_four().iter().map(|s| &**s).collect()),
        "{}",
        job.err
    );
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 1, 3, 3]);
    for rank in [2, 3] {
        assert_eq!(seen(dir.path(), rank, 1), "0,0,1,1 [0, 0, 1, 1]");
        assert_eq!(seen(dir.path(), rank, 2), "0,0,1,1 [0, 0, 2, 2]");
    }
    assert!(job.err.contains("(SIGKILL); restarting ranks 2-3 ("), "{}", job.err);
}

#[test]
fn without_sets_all_ranks_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let job = killed(dir.path(), &[], "1.0.3:1");
    assert_eq!(
        (job.status, finished(&job)),
        (0, all_four().iter().map(|s| &**s).collect()),
        "{}",
        job.err
    );
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [2, 2, 2, 2]);
    assert_eq!(seen(dir.path(), 3, 1), "0,0,0,0 [1, 1, 1, 1]");
    assert!(job.err.contains("restarting ranks 0-3 ("), "{}", job.err);
}

/// All that were killed at once are started again knowing of each other, if they are seen together.
#[test]
fn several_are_killed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let job = killed(dir.path(), &["--sets", "rank"], "1.0.4:0,2,3,1 0.1.30:3,1,2,0");
    assert_eq!(
        (job.status, finished(&job)),
        (0, all_four().iter().map(|s| &**s).collect()),
        "{}",
        job.err
    );
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [3, 3, 3, 3]);
    assert!(job.err.contains("taffrail: 8 failures; 8 processes started again"), "{}", job.err);
}

#[test]
fn events_are_kept_on_disk_where_that_is_asked_for() {
    let (dir, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk =
        ["--sets", "rank", "--durability", "disk", "--log-dir", log.path().to_str().unwrap()];
    let job = killed(dir.path(), &disk, "0.0.20:0,1 1.1.2:1");
    assert_eq!(
        (job.status, finished(&job)),
        (0, all_four().iter().map(|s| &**s).collect()),
        "{}",
        job.err
    );
    for rank in 0..4 {
        let file = log.path().join(format!("rank-{rank}.events"));
        assert_eq!(file.metadata().unwrap().len(), 32 + 32 * u64::from(STEPS), "rank {rank}");
    }
    // Another job does not go on with them.
    let job = killed(dir.path(), &disk, "");
    assert_eq!(job.status, 1);
    assert!(job.err.contains("give a folder of its own to each job"), "{}", job.err);
}

#[test]
fn options_are_passed_on() {
    let show = "env | grep ^TAFFRAIL_ | sort | tr '\\n' ' '; \
        echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD";
    let options = ["--events", "all", "--sets", "rank", "--log-memory", "64K"];
    let arguments = [&["run", "-n", "1"], &LOGGED[..], &options, &["bash", "-c", show]].concat();
    // What a launcher above has said is not said to our ranks.
    let outer =
        [("TAFFRAIL_REPLAY", "7"), ("TAFFRAIL_FORMER_FILES", "9"), ("TAFFRAIL_TUNING", "off")];
    let silent = |arguments: &[&str]| {
        let mut command = taffrail(arguments);
        // What other tests are told is none of its business.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("TAFFRAIL_")) {
            command.env_remove(name);
        }
        command.envs(outer).output().unwrap()
    };
    let job = silent(&arguments);
    let out = String::from_utf8(job.stdout).unwrap();
    let fixed = "TAFFRAIL_CONNECT_TIMEOUT=0000600 TAFFRAIL_EVENTS=all TAFFRAIL_GENERATIONS=0 \
                 TAFFRAIL_INCARNATION=0 TAFFRAIL_JOB=";
    for further in [
        " TAFFRAIL_LOGGING=pessimistic TAFFRAIL_LOG_FILES=",
        " TAFFRAIL_LOG_MEMORY=65536 TAFFRAIL_OVER=",
        " TAFFRAIL_REPLAY=none TAFFRAIL_RINGS=0:",
    ] {
        assert!(out.contains(further), "{out}");
    }
    assert!(out.starts_with(fixed), "{out}");
    assert!(out.contains(" TAFFRAIL_SETS=0 TAFFRAIL_TUNING=off TAFFRAIL_VAULT="), "{out}");
    let job = silent(&["run", "-n", "1", "bash", "-c", show]);
    let out = String::from_utf8(job.stdout).unwrap();
    assert!(out.starts_with("TAFFRAIL_JOB=") && out.ends_with(" TAFFRAIL_TUNING=off "), "{out}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (options, why) in [
        (&["--sets", "rank"][..], "--sets needs --logging pessimistic"),
        (
            &["--logging", "pessimistic", "--durability", "disk"],
            "--durability disk needs --log-dir",
        ),
        (&["--logging", "pessimistic", "--sets", "nowhere"], "--sets nowhere: No such file"),
        (&["--logging", "pessimistic", "--log-memory", "big"], "expected a size above 0"),
    ] {
        let job = run(&[&["run", "-n", "2"], options, &["true"]].concat());
        assert!(
            job.status == 2 && job.err.contains(why),
            "{options:?}: {} {}",
            job.status,
            job.err
        );
    }
}

/// Rank 0 reads its input from the beginning, as it did.
#[test]
fn a_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (input, once) = (dir.path().join("input"), dir.path().join("once"));
    std::fs::write(&input, "skipped\none\ntwo\n").unwrap();
    let read = "read line; echo $line; [ -e $ONCE ] || { touch $ONCE; kill -KILL $$; }; cat";
    let arguments = [&["run", "-n", "1", "--label"], &LOGGED[..], &["bash", "-c", read]].concat();
    let mut file = std::fs::File::open(&input).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(8)).unwrap();
    let job = taffrail(&arguments).env("ONCE", once).stdin(file).output().unwrap();
    let out = String::from_utf8(job.stdout).unwrap();
    assert_eq!(out, "[0] one\n[0] one\n[0] two\n", "{}", String::from_utf8_lossy(&job.stderr));
}

/// Where the lines of ranks are labelled, none of a process that was killed is lost or mixed.
#[test]
fn what_a_killed_rank_has_said_is_heard() {
    let dir = tempfile::tempdir().unwrap();
    let once = dir.path().join("once");
    let say = "echo first; printf half; [ -e $ONCE ] || { touch $ONCE; kill -KILL $$; }; echo";
    let arguments = [&["run", "-n", "1", "--label"], &LOGGED[..], &["bash", "-c", say]].concat();
    let job = taffrail(&arguments).env("ONCE", once).output().unwrap();
    let out = String::from_utf8(job.stdout).unwrap();
    assert_eq!(out, "[0] first\n[0] half\n[0] first\n[0] half\n");
}

fn is_guard(pid: &str) -> bool {
    first_argument(pid) == "guard"
}

/// Also one that is not what it will be yet: it looks like its launcher.
fn is_rank(pid: &str) -> bool {
    ["--exact", "run"].contains(&&*first_argument(pid))
}
