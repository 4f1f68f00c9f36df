//! Sets of several members on disk: whatever is killed at whatever moment, what the files have is one
//! cut, in which no event depends on one that is not there.

use super::*;
use taffrail_logging::{LoggedEvent, MsgId};

const MEMBERS: u32 = 3;

/// A member writes events, each of which depends on all that it has seen of another one.
fn seen(rank: u32, clock: u64, source: u32, seen: u64) -> Event {
    let message = MsgId { source, context: 0, seq: seen as u32 };
    Event::Matched { polls: clock as u32, post: rank, message }
}

/// What a process is that writes such events: its ring is standard input, those of all members are
/// the files named. It reads of another member as a rank does, after a message from it.
pub fn member<'a>(rank: u32, rings: impl Iterator<Item = &'a str>) {
    let shape =
        |rank| RingShape { rank, job: JOB, capacity: CAPACITY, durability: Durability::Disk };
    let open = |path| File::options().read(true).write(true).open(path).unwrap();
    let map = |file: &File| Memory::map(file.as_fd(), shape(0).bytes()).unwrap();
    let rings: Vec<Memory> = rings.map(|path| map(&open(path))).collect();
    let own = Memory::map(std::io::stdin().as_fd(), shape(rank).bytes()).unwrap();
    let mut writer = RingWriter::attach(own, shape(rank)).unwrap();
    loop {
        let source = fastrand::u32(..MEMBERS);
        let clock = rings[source as usize].word(16).load(std::sync::atomic::Ordering::Acquire);
        let clock = if source == rank { 0 } else { clock };
        while writer.push(&seen(rank, writer.written() + 1, source, clock)).is_err() {
            std::thread::sleep(Duration::from_micros(20));
        }
        if fastrand::u8(..8) == 0 {
            std::thread::sleep(Duration::from_micros(fastrand::u64(..200)));
        }
    }
}

fn set(folder: &Path) -> Keeper {
    keeper(&[5; MEMBERS as usize], &Keeping::Disk(folder.into()))
}

fn members(keeper: &Keeper) -> Vec<Child> {
    let path = |ring: &std::os::fd::OwnedFd| {
        format!("/proc/{}/fd/{}", std::process::id(), ring.as_fd().as_raw_fd())
    };
    let rings: Vec<_> =
        (0..MEMBERS).map(|rank| keeper.ring(rank).try_clone_to_owned().unwrap()).collect();
    let paths: Vec<_> = rings.iter().map(path).collect();
    let start = |rank: u32| {
        let ring = keeper.ring(rank).try_clone_to_owned().unwrap();
        start(&format!("member {rank} {}", paths.join(" "))).stdin(ring).spawn().unwrap()
    };
    let started: Vec<Child> = (0..MEMBERS).map(start).collect();
    // They have opened the rings when they write.
    let before: Vec<u64> = (0..MEMBERS).map(|rank| written(keeper, rank)).collect();
    assert!(soon(|| (0..MEMBERS).all(|rank| written(keeper, rank) > before[rank as usize])));
    started
}

fn promised(keeper: &Keeper) -> Vec<u64> {
    (0..MEMBERS).map(|rank| stable(keeper, rank)).collect()
}

/// What all members have is as it was written, and none of it depends on what is not there. Returns
/// how much it is.
fn one_cut(keeper: &mut Keeper) -> Vec<u64> {
    let events: Vec<Vec<LoggedEvent>> =
        (0..MEMBERS).map(|rank| keeper.fetch(rank).unwrap()).collect();
    for (rank, events) in (0..).zip(&events) {
        for (clock, got) in (1..).zip(events) {
            let Event::Matched { message, .. } = got.event else { panic!("{got:?}") };
            let expected = seen(rank, clock, message.source, message.seq.into());
            assert_eq!((got.clock, got.event), (clock, expected));
        }
    }
    let lens: Vec<u64> = events.iter().map(|events| events.len() as u64).collect();
    for got in events.iter().flatten() {
        let Event::Matched { post, message, .. } = got.event else { unreachable!("checked") };
        assert!(
            u64::from(message.seq) <= lens[message.source as usize],
            "event {} of member {post} depends on event {} of member {}; there are {lens:?}",
            got.clock,
            message.seq,
            message.source
        );
    }
    lens
}

/// The node ends with all that is on it, again and again: the files have one cut of all members, and
/// all that was announced. (The memory of the files survives here; what a disk may lose is tested
/// where the files are made.)
#[test]
fn after_each_end_of_the_node_the_files_have_one_cut() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = vec![0; MEMBERS as usize];
    for _ in 0..15 {
        let mut keeper = set(folder.path());
        keeper.start().unwrap();
        assert_eq!(one_cut(&mut keeper), before);
        let mut ranks = members(&keeper);
        assert!(soon(|| promised(&keeper).iter().zip(&before).all(|(now, then)| now > then)));
        pause(5000);
        kill_logger(&keeper);
        let promised = promised(&keeper);
        ranks.iter_mut().for_each(kill);
        drop(keeper);

        let mut keeper = set(folder.path());
        keeper.start().unwrap();
        before = one_cut(&mut keeper);
        assert!(before.iter().zip(&promised).all(|(have, promised)| have >= promised));
        assert_eq!(self::promised(&keeper), before, "a rank goes on behind what is kept");
    }
}

/// At every moment at which the logger is killed, the files are what a set could be replayed from, and
/// the logger that comes next loses nothing.
#[test]
fn a_killed_logger_leaves_one_cut() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = set(folder.path());
    keeper.start().unwrap();
    let mut ranks = members(&keeper);
    for _ in 0..40 {
        let before = promised(&keeper);
        assert!(soon(|| promised(&keeper) != before));
        pause(3000);
        kill_logger(&keeper);
        let promised = promised(&keeper);
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let mut other = set(copy.path());
        other.start().unwrap();
        let have = one_cut(&mut other);
        assert!(have.iter().zip(&promised).all(|(have, promised)| have >= promised));
        keeper.start().unwrap();
    }
    ranks.iter_mut().for_each(kill);
    let all = one_cut(&mut keeper);
    assert_eq!(all, (0..MEMBERS).map(|rank| written(&keeper, rank)).collect::<Vec<_>>());
    assert!(keeper.news().unwrap().told.is_empty(), "nothing was wrong");
}

#[test]
fn damaged_files_of_a_set_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = set(folder.path());
    keeper.start().unwrap();
    let mut ranks = members(&keeper);
    assert!(soon(|| promised(&keeper).iter().all(|stable| *stable > 20)));
    kill_logger(&keeper);
    ranks.iter_mut().for_each(kill);
    drop(keeper);
    let refused = |what: &[&str]| {
        let Err(KeeperError::Refused(told)) = set(folder.path()).start() else {
            panic!("{what:?}: not refused")
        };
        assert!(what.iter().all(|what| told.text.contains(what)), "{told}, not {what:?}");
    };
    let file = |name: &str| {
        let path = folder.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        (File::options().write(true).open(&path).unwrap(), bytes)
    };
    let (events, whole) = file("rank-1.events");
    events.write_all_at(&[whole[32 * 7 + 21] ^ 4], 32 * 7 + 21).unwrap();
    refused(&["rank-1.events, record 7: damaged record 7", "cut"]);
    events.write_all_at(&whole, 0).unwrap();
    events.set_len(32 * 9 + 5).unwrap();
    refused(&["rank-1.events, record 9", "cut", "of its set has this record"]);
    events.write_all_at(&whole, 0).unwrap();
    let (cuts, whole) = file("set-5.cuts");
    cuts.set_len(100).unwrap();
    refused(&["set-5.cuts: length in bytes"]);
    cuts.write_all_at(&vec![1; whole.len()], 0).unwrap();
    refused(&["set-5.cuts: magic"]);
    std::fs::remove_file(folder.path().join("set-5.cuts")).unwrap();
    refused(&["set-5.cuts is not there", "rank 0 of its set has"]);
}
