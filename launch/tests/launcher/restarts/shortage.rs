//! Ranks that are killed while something has run out: room on a disk, memory for the log.

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use crate::disks::{own_folder, small_disk};
use rustix::process::{Pid, Signal, kill_process};

/// Bytes that are free in a folder, and that are in use.
fn room(folder: &Path) -> (u64, u64) {
    let all = rustix::fs::statvfs(folder).unwrap();
    (all.f_bfree * all.f_frsize, (all.f_blocks - all.f_bfree) * all.f_frsize)
}

/// Kills a child of the launcher. Whether there was one.
fn kill_a(launcher: u32, what: impl Fn(&str) -> bool) -> bool {
    let Some(pid) = children(launcher).into_iter().find(|pid| what(pid)) else { return false };
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).is_ok()
}

#[test]
fn a_job_waits_for_room_in_its_log_folder() {
    let this = "restarts::shortage::a_job_waits_for_room_in_its_log_folder";
    let Some(folder) = own_folder(this) else { return };
    small_disk(&folder, "1m");
    // Its events take more than 400 KiB.
    let part = "phases 64 150";
    let (answer, _) = in_peace(part, 3);
    let pairs = folder.join("pairs");
    std::fs::write(&pairs, "0 1\n2\n").unwrap();
    for sets in ["rank", pairs.to_str().unwrap()] {
        let (log, ballast) = (folder.join("log"), folder.join("ballast"));
        std::fs::write(&ballast, vec![1; 900 << 10]).unwrap();
        let log = log.to_str().unwrap();
        let options = ["--sets", sets, "--events", "all", "--durability", "disk", "--log-dir", log];
        let options = [&LOGGED[..], &options].concat();
        let mut killed = 0;
        let job = disturbed(&mut application(part, 3, &options), |launcher, goes_on| {
            // If it ends too early, it has not waited, or has failed; that is seen below.
            while room(&folder).0 > 0 && goes_on(Duration::from_millis(10)) {}
            // Nobody has any luck while it is full, and nothing is lost.
            for what in [is_rank, is_logger, is_rank] {
                if goes_on(Duration::from_millis(300)) {
                    killed += u32::from(kill_a(launcher, what));
                }
            }
            goes_on(Duration::from_millis(300));
            std::fs::remove_file(&ballast).unwrap();
        });
        assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{sets}: {}", job.err);
        assert_eq!(killed, 3, "{sets}: {}", job.err);
        for said in ["wait for their events to be stable: ", "(free space on the disk)"] {
            assert!(job.err.contains(said), "{said}: {}", job.err);
        }
        std::fs::remove_dir_all(log).unwrap();
    }
}

/// Logs about 26 MB on each rank.
const MUCH: &str = "ring 65536 400";

#[test]
fn a_log_that_is_larger_than_its_memory_goes_on_in_a_file_and_comes_back() {
    let this =
        "restarts::shortage::a_log_that_is_larger_than_its_memory_goes_on_in_a_file_and_comes_back";
    let Some(folder) = own_folder(this) else { return };
    small_disk(&folder, "256m");
    let (answer, _) = in_peace(MUCH, 3);
    let options = [&LOGGED[..], &["--sets", "rank", "--log-memory", "1M"]].concat();
    let mut job = application(MUCH, 3, &options);
    let (mut most, mut killed) = (0, 0);
    let job = disturbed(job.env("TAFFRAIL_SPILL", &folder), |launcher, goes_on| {
        while goes_on(Duration::from_millis(1)) {
            let (_, used) = room(&folder);
            most = used.max(most);
            // Its successor gets out of the files of the others what it had received.
            if killed < 4 && used > (1 + killed) << 22 {
                killed += u64::from(kill_a(launcher, is_rank));
            }
        }
    });
    assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{}", job.err);
    println!("{killed} killed, up to {most} bytes in files");
    assert!(killed > 0 && most > 1 << 22, "{killed} killed, up to {most} bytes in files");
}

#[test]
fn a_log_without_room_ends_the_job_and_says_what_helps() {
    let this = "restarts::shortage::a_log_without_room_ends_the_job_and_says_what_helps";
    let Some(folder) = own_folder(this) else { return };
    small_disk(&folder, "2m");
    for sets in ["rank", "node"] {
        let options = [&LOGGED[..], &["--sets", sets, "--log-memory", "1M"]].concat();
        let mut job = application(MUCH, 3, &options);
        let job = disturbed(job.env("TAFFRAIL_SPILL", &folder), |_, _| {});
        if sets == "node" {
            // Nothing leaves the set, so nothing is logged.
            assert_eq!(job.status, 0, "{}", job.err);
            continue;
        }
        assert_eq!(job.status, 101, "{}", job.err);
        for said in ["No space left on device", "--log-memory", "TAFFRAIL_SPILL"] {
            assert!(job.err.contains(said), "{said}: {}", job.err);
        }
    }
}
