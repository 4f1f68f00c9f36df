//! The event logger on real processes: ranks, loggers and starters that are killed, disks that are
//! full, files that are damaged.

mod copies;
mod elsewhere;
mod sets;

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use taffrail_launch::eventlog::{ChannelError, Keeper, KeeperError, Keeping, Patience, What};
use taffrail_logging::Event;
use taffrail_logging::store::{
    Durability, FILE_HEADER, Memory, Owner, RingShape, RingWriter, Words, read_events,
};

const JOB: u64 = 0xfeed;
const CAPACITY: u64 = 256;
/// Events whose room is free only when all of them are kept.
const GROUP: u64 = CAPACITY / 2;

fn event(rank: u32, clock: u64) -> Event {
    Event::Found { polls: clock as u32, index: rank }
}

fn keeper(sets: &[usize], keeping: &Keeping) -> Keeper {
    let program = env!("CARGO_BIN_EXE_taffrail").into();
    let ranks: Vec<(u32, usize)> = (0..).zip(sets.iter().copied()).collect();
    Keeper::new(program, &ranks, JOB, CAPACITY, keeping.clone()).unwrap()
}

/// A word of a ring, as the format has it.
fn word(keeper: &Keeper, rank: u32, at: usize) -> u64 {
    let memory = Memory::map(keeper.ring(rank), keeper.shape(rank).bytes()).unwrap();
    memory.word(at / 8).load(std::sync::atomic::Ordering::Acquire)
}

fn written(keeper: &Keeper, rank: u32) -> u64 {
    word(keeper, rank, 128)
}

fn stable(keeper: &Keeper, rank: u32) -> u64 {
    let durability = keeper.shape(rank).durability;
    match durability {
        Durability::Process => written(keeper, rank),
        Durability::Disk | Durability::Node { .. } => {
            let copies = 0..durability.copies() as usize;
            copies.map(|copy| word(keeper, rank, 264 + 128 * copy)).min().unwrap()
        }
    }
}

/// All events are those that were written, without gaps.
fn check(keeper: &mut Keeper, rank: u32) -> u64 {
    let events = keeper.fetch(rank).unwrap();
    for (clock, got) in (1..).zip(&events) {
        assert_eq!((got.clock, got.event), (clock, event(rank, clock)));
    }
    events.len() as u64
}

/// What the test program is when another test starts it: a rank that writes events without end into
/// the ring that is its standard input, or a starter of an event logger. Alone it does the former,
/// for a while, with a ring of its own.
#[test]
fn a_rank_or_a_starter() {
    let Ok(part) = std::env::var("EVENTLOG_PART") else {
        let keeper = keeper(&[0], &Keeping::Process);
        let memory = Memory::map(keeper.ring(0), keeper.shape(0).bytes()).unwrap();
        let mut writer = RingWriter::attach(memory, keeper.shape(0)).unwrap();
        (1..=CAPACITY).for_each(|clock| assert_eq!(writer.push(&event(0, clock)), Ok(clock)));
        return;
    };
    // A test that fails leaves nobody behind.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut fields = part.split(' ');
    match (fields.next().unwrap(), fields.next().unwrap()) {
        ("starter", _) => {
            let mut keeper = keeper(&[0, 1], &Keeping::Process);
            keeper.start().unwrap();
            println!("logger {}", keeper.pids().next().unwrap().as_raw_pid());
            std::thread::sleep(Duration::from_secs(60));
        }
        ("member", rank) => sets::member(rank.parse().unwrap(), fields),
        (kind, rank) => {
            let rank = rank.parse().unwrap();
            let durability = match kind {
                "process" => Durability::Process,
                "disk" => Durability::Disk,
                copies => Durability::Node { copies: copies.parse().unwrap() },
            };
            let shape = RingShape { rank, job: JOB, capacity: CAPACITY, durability };
            let memory = Memory::map(std::io::stdin().as_fd(), shape.bytes()).unwrap();
            let mut writer = RingWriter::attach(memory, shape).unwrap();
            loop {
                // A full ring makes it wait; nothing else may happen to it.
                while writer.push(&event(rank, writer.written() + 1)).is_err() {
                    std::thread::sleep(Duration::from_micros(20));
                }
                assert!(writer.stable().unwrap() <= writer.written());
                if writer.written().is_multiple_of(4) {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
    }
}

fn start(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "eventlog::a_rank_or_a_starter", "--nocapture", "--quiet"]);
    command.env("EVENTLOG_PART", part).stdout(Stdio::null());
    command
}

fn rank(keeper: &Keeper, rank: u32) -> Child {
    let kind = match keeper.shape(rank).durability {
        Durability::Process => "process".to_owned(),
        Durability::Disk => "disk".to_owned(),
        Durability::Node { copies } => copies.to_string(),
    };
    let ring = keeper.ring(rank).try_clone_to_owned().unwrap();
    start(&format!("{kind} {rank}")).stdin(ring).spawn().unwrap()
}

fn kill(process: &mut Child) {
    assert!(process.try_wait().unwrap().is_none(), "it ended by itself");
    process.kill().unwrap();
    process.wait().unwrap();
}

fn kill_logger(keeper: &Keeper) {
    keeper.pids().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
}

fn pause(most: u64) {
    std::thread::sleep(Duration::from_micros(fastrand::u64(..most)));
}

#[test]
fn all_that_a_killed_rank_has_written_is_there_and_the_next_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    for keeping in [Keeping::Process, Keeping::Disk(folder.path().into())] {
        let mut keeper = keeper(&[0, 0], &keeping);
        keeper.start().unwrap();
        let mut last = 0;
        for _ in 0..5 {
            let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
            assert!(soon(|| written(&keeper, 0) > last + 300 && written(&keeper, 1) > last));
            pause(3000);
            ranks.iter_mut().for_each(kill);
            last = written(&keeper, 0);
            assert_eq!(check(&mut keeper, 0), last);
            assert_eq!(check(&mut keeper, 1), written(&keeper, 1));
        }
    }
}

/// The ring is lost with the node; the file has all that was announced.
#[test]
fn all_that_was_announced_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = keeper(&[0], &Keeping::Disk(folder.path().into()));
    keeper.start().unwrap();
    let mut writer = rank(&keeper, 0);
    for _ in 0..20 {
        let before = stable(&keeper, 0);
        assert!(soon(|| stable(&keeper, 0) > before));
        pause(2000);
        kill_logger(&keeper);
        on_disk(folder.path(), stable(&keeper, 0));
        keeper.start().unwrap();
    }
    kill(&mut writer);
}

/// The file has so many good records, whatever is behind them.
fn on_disk(folder: &Path, records: u64) {
    let bytes = std::fs::read(folder.join("rank-0.events")).unwrap();
    let end = FILE_HEADER + 32 * records as usize;
    assert!(bytes.len() >= end, "{} bytes for {records} records", bytes.len());
    let owner = Owner { rank: 0, job: JOB };
    let events = read_events(owner, "file", &bytes[..end]).unwrap();
    assert!((1..).zip(&events).all(|(clock, got)| got.event == event(0, clock)));
}

#[test]
fn a_logger_killed_a_hundred_times_loses_nothing_in_memory() {
    killed_a_hundred_times(&[0, 0], &Keeping::Process);
}

#[test]
fn a_logger_killed_a_hundred_times_loses_nothing_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    killed_a_hundred_times(&[0, 1], &Keeping::Disk(folder.path().into()));
}

#[test]
fn a_logger_killed_a_hundred_times_loses_nothing_of_a_set() {
    let folder = tempfile::tempdir().unwrap();
    killed_a_hundred_times(&[0, 0], &Keeping::Disk(folder.path().into()));
}

fn killed_a_hundred_times(sets: &[usize], keeping: &Keeping) {
    let mut keeper = keeper(sets, keeping);
    keeper.start().unwrap();
    let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
    assert!(soon(|| written(&keeper, 0) > 0 && written(&keeper, 1) > 0));
    let (mut deaths, mut in_start) = (0, 0);
    while deaths < 100 {
        pause(4000);
        let promised = [stable(&keeper, 0), stable(&keeper, 1)];
        kill_logger(&keeper);
        deaths += 1;
        // Some are killed while they start.
        if deaths % 4 == 0 {
            let killer = kill_the_next_logger(rustix::thread::gettid());
            if let Err(e) = keeper.start() {
                assert!(matches!(e, KeeperError::Channel(ChannelError::Closed)), "{e}");
                in_start += 1;
            }
            deaths += u32::from(killer.join().unwrap());
        }
        keeper.start().unwrap();
        for rank in [0, 1] {
            assert!(stable(&keeper, rank) >= promised[rank as usize]);
        }
    }
    println!("{deaths} loggers killed, {in_start} of them while they started");
    let before = [written(&keeper, 0), written(&keeper, 1)];
    assert!(soon(|| (0..2).all(|rank| written(&keeper, rank) > before[rank as usize])));
    ranks.iter_mut().for_each(kill);
    for rank in [0, 1] {
        assert_eq!(check(&mut keeper, rank), written(&keeper, rank));
    }
    assert!(keeper.news().unwrap().told.is_empty(), "nothing was wrong");
}

/// Kills the next logger that this thread starts, a moment later. Returns whether there was one.
fn kill_the_next_logger(starter: Pid) -> std::thread::JoinHandle<bool> {
    let known = loggers(starter);
    let wait = fastrand::u64(..3000);
    std::thread::spawn(move || {
        let mut next = None;
        soon(|| {
            next = loggers(starter).into_iter().find(|pid| !known.contains(pid));
            next.is_some()
        });
        std::thread::sleep(Duration::from_micros(wait));
        next.and_then(Pid::from_raw).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    })
}

/// Event loggers among the children of a thread of this process.
fn loggers(starter: Pid) -> Vec<i32> {
    let path = format!("/proc/self/task/{}/children", starter.as_raw_pid());
    let children = std::fs::read_to_string(path).unwrap();
    let pids = children.split_whitespace();
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"eventlog")
    })
    .filter_map(|pid| pid.parse().ok())
    .collect()
}

#[test]
fn damaged_files_are_refused_by_name_and_never_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank-0.events");
    let keeping = Keeping::Disk(folder.path().into());
    let mut keeper = keeper(&[0], &keeping);
    keeper.start().unwrap();
    let mut writer = rank(&keeper, 0);
    assert!(soon(|| stable(&keeper, 0) > 20));
    kill(&mut writer);
    let all = check(&mut keeper, 0);
    assert!(soon(|| stable(&keeper, 0) == all));

    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut refused = |what: &str| {
        kill_logger(&keeper);
        let Err(KeeperError::Refused(told)) = keeper.start() else { panic!("{what}: not refused") };
        assert!(told.text.contains(&path.display().to_string()), "{told}");
        assert!(told.text.contains(what), "{told}");
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, 32 + 32 * 6 + 21).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 32 + 32 * 6 + 21).unwrap();
    refused("record 7: damaged record 7");
    file.write_all_at(&byte, 32 + 32 * 6 + 21).unwrap();
    file.set_len(32 + 32 * 9 + 5).unwrap();
    refused(&format!("events up to {all} are stable"));
    file.set_len(20).unwrap();
    refused("length in bytes");
}

#[test]
fn ranks_wait_while_the_disk_is_full() {
    let this = "eventlog::ranks_wait_while_the_disk_is_full";
    let Some(folder) = disks::own_folder(this) else { return };
    disks::small_disk(&folder, "256k");
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 200 * 1024]).unwrap();

    let mut keeper = keeper(&[0, 0], &Keeping::Disk(folder.clone()));
    keeper.start().unwrap();
    let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
    let mut news = Vec::new();
    assert!(soon(|| {
        news.extend(keeper.news().unwrap().told);
        let full = |rank| stable(&keeper, rank) / GROUP * GROUP + CAPACITY;
        (0..2).all(|rank| written(&keeper, rank) == full(rank))
            && news.iter().any(|told| told.what == What::Waiting)
    }));
    let waiting = news.iter().find(|told| told.what == What::Waiting).expect("found above");
    assert!(waiting.text.contains(".events: "), "{waiting}");
    let stopped = [stable(&keeper, 0), stable(&keeper, 1)];

    // A new logger has no space, either, and loses nothing.
    kill_logger(&keeper);
    keeper.start().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    for rank in [0, 1] {
        let now = stable(&keeper, rank);
        assert!(now >= stopped[rank as usize] && now < written(&keeper, rank));
    }
    assert!(ranks.iter_mut().all(|rank| rank.try_wait().unwrap().is_none()), "ranks wait");

    std::fs::remove_file(&ballast).unwrap();
    assert!(soon(|| (0..2).all(|rank| stable(&keeper, rank) > stopped[rank as usize] + CAPACITY)));
    ranks.iter_mut().for_each(kill);
    for rank in [0, 1] {
        assert_eq!(check(&mut keeper, rank), written(&keeper, rank));
    }
    let news = keeper.news().unwrap().told;
    assert!(news.iter().any(|told| told.what == What::Resumed), "{news:?}");
}

#[test]
fn a_damaged_ring_is_told_and_not_handed_out() {
    let mut keeper = keeper(&[0, 1], &Keeping::Process);
    keeper.start().unwrap();
    kill_logger(&keeper);
    let mut writer = rank(&keeper, 0);
    assert!(soon(|| written(&keeper, 0) == CAPACITY));
    kill(&mut writer);
    let memory = Memory::map(keeper.ring(0), keeper.shape(0).bytes()).unwrap();
    // The code of the third event.
    memory.word(48).fetch_xor(1 << 33, std::sync::atomic::Ordering::Relaxed);
    keeper.start().unwrap();
    let mut news = Vec::new();
    assert!(soon(|| {
        news.extend(keeper.news().unwrap().told);
        !news.is_empty()
    }));
    assert_eq!((news[0].rank, news[0].what), (0, What::Damaged));
    assert!(news[0].text.contains("ring of rank 0, record 3"), "{}", news[0]);
    assert!(matches!(keeper.fetch(0), Err(KeeperError::Refused(_))));
    assert!(keeper.fetch(1).unwrap().is_empty(), "the others are served");
}

#[test]
fn a_logger_with_nothing_to_do_takes_no_processor() {
    let folder = tempfile::tempdir().unwrap();
    for keeping in [Keeping::Process, Keeping::Disk(folder.path().into())] {
        let mut keeper = keeper(&[3; 16], &keeping);
        keeper.start().unwrap();
        let pid = keeper.pids().next().unwrap().as_raw_pid();
        std::thread::sleep(Duration::from_millis(100));
        let before = ticks(pid);
        std::thread::sleep(Duration::from_secs(1));
        let used = ticks(pid) - before;
        println!("{keeping:?}: {used} ticks of 10 ms in a second");
        assert!(used <= 10, "{used} ticks of 10 ms in a second");
    }
}

/// Processor time, in ticks of 10 ms.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_logger_ends_with_whoever_started_it() {
    let mut starter =
        start("starter 0").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let logger = lines.find_map(|line| Some(line.unwrap().split_once("logger ")?.1.to_owned()));
    let logger = logger.expect("the starter tells");
    assert!(runs(&logger));
    kill(&mut starter);
    assert!(soon(|| !runs(&logger)));
}

#[test]
fn started_by_hand_it_says_so() {
    let job = run(&["eventlog", "--durability", "process"]);
    assert_eq!(job.status, 1);
    assert!(job.err.starts_with("taffrail eventlog: standard input is not"), "{}", job.err);
    let job = run(&["eventlog", "--durability", "disk"]);
    assert!(job.status == 2 && job.err.contains("--dir"), "{}", job.err);
}
