//! Ranks that are killed when all are done with each other, or nearly so: the job ends, and says what
//! is not done; nobody waits for ever.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use taffrail::{Job, collectives};

/// A rank that closes its endpoint, and then writes its results for a while. Alone it does nothing.
#[test]
fn a_rank_that_writes_results() {
    let Some(dir) = std::env::var_os("FAREWELLS") else { return };
    let dir = Path::new(&dir);
    let tell = |what: &str| {
        let life = std::env::var("TAFFRAIL_INCARNATION").unwrap();
        let rank = std::env::var("PMI_RANK").unwrap();
        std::fs::write(dir.join(format!("{what}.{rank}.{life}")), std::process::id().to_string())
            .unwrap();
    };
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let mut sum = [1];
    collectives::allreduce(&mut endpoint, &mut sum, collectives::sum).unwrap();
    tell("computed");
    let stops = std::env::var("STOPS") == Ok(job.rank().to_string());
    if stops && sum == [u64::from(job.size())] {
        kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
        // Another thread may take the signal, a moment later.
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(endpoint);
    tell("closed");
    let writes = std::env::var("WRITES").unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(writes));
}

/// Starts two of them. What they tell is in the folder.
fn writers(dir: &Path, writes: &str, stops: &str) -> std::process::Child {
    let mut command = taffrail(&["run", "-n", "2", "--sets", "rank", "--timeout", "50"]);
    command.args(LOGGED).arg(std::env::current_exe().unwrap());
    let this = "restarts::farewells::a_rank_that_writes_results";
    command.args(["--exact", this, "--nocapture", "--quiet"]);
    command.env("FAREWELLS", dir).env("WRITES", writes).env("STOPS", stops);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The process that has told this.
fn who_told(dir: &Path, what: &str) -> Pid {
    let mut pid = None;
    let told = || std::fs::read_to_string(dir.join(what)).ok().and_then(|pid| pid.parse().ok());
    assert!(soon(|| {
        pid = told().and_then(Pid::from_raw);
        pid.is_some()
    }));
    pid.unwrap()
}

#[test]
fn a_rank_that_writes_its_results_is_not_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let job = writers(dir.path(), "60000", "");
    let started = Instant::now();
    who_told(dir.path(), "closed.0.0");
    kill_process(who_told(dir.path(), "closed.1.0"), Signal::KILL).unwrap();
    let job = ended(job.wait_with_output().unwrap(), started);
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert!(
        job.err.contains("it is not restarted, since rank 0 is done with all others"),
        "{}",
        job.err
    );
    assert!(!dir.path().join("computed.1.1").exists());
}

/// Rank 0 hears the farewell of rank 1 when that was killed and started again. It may see that; if not,
/// the launcher does.
#[test]
fn a_farewell_of_the_dead_leaves_nobody_waiting() {
    let mut seen = [0, 0];
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let job = writers(dir.path(), "0", "0");
        let started = Instant::now();
        let stopped = who_told(dir.path(), "computed.0.0");
        let dead = who_told(dir.path(), "computed.1.0");
        // It says its farewell, and waits for that of rank 0.
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..200)));
        kill_process(dead, Signal::KILL).unwrap();
        // Its successor is there, and waits for rank 0.
        let known = [stopped, dead].map(|pid| pid.as_raw_pid().to_string());
        let is_new = |pid: &String| is_rank(pid) && !known.contains(pid);
        assert!(soon(|| children(job.id()).iter().any(is_new)));
        std::thread::sleep(Duration::from_millis(fastrand::u64(..50)));
        kill_process(stopped, Signal::CONT).unwrap();
        let job = ended(job.wait_with_output().unwrap(), started);
        match job.status {
            0 => seen[0] += 1,
            1 => {
                assert!(
                    job.err.contains("was done with all others when one of them"),
                    "{}",
                    job.err
                );
                seen[1] += 1;
            }
            other => panic!("{other}: {}", job.err),
        }
    }
    println!("{} times rank 0 saw it, {} times the launcher", seen[0], seen[1]);
}

/// Rank 0 says of which incarnations it knew when it was done with the others.
#[test]
fn who_leaves_without_knowing_of_a_restart_is_told() {
    let with = |known: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = job(dir.path(), &[&LOGGED[..], &["--sets", "rank"]].concat());
        command.env("KILL", "2.0.5:2 2.1.5:2").env("LEAVE0", known);
        ended(command.output().unwrap(), Instant::now())
    };
    let job = with("1");
    assert_eq!(job.status, 1, "{}", job.err);
    assert!(
        job.err.contains("was done with all others when one of them was killed"),
        "{}",
        job.err
    );
    let job = with("2");
    assert_eq!(job.status, 0, "{}", job.err);
}
