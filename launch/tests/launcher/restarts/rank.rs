//! The ranks of these tests: each checks what it was given, writes events, exchanges values with the
//! others step by step, and kills whom it was told to kill.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taffrail::Job;
use taffrail_logging::Event;
use taffrail_logging::store::{Memory, Owner, RingShape, RingWriter, Unpacked};

/// Steps that each rank does, with an event and an exchange of values in each.
pub const STEPS: u32 = 40;

/// The event of this clock of this rank.
fn event(rank: u32, clock: u64) -> Event {
    Event::Found { polls: clock as u32, index: rank }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"))
}

fn numbers(name: &str) -> Vec<u32> {
    variable(name).split(',').map(|n| n.parse().expect("a number")).collect()
}

/// A descriptor that the launcher has left open for us.
fn inherited(number: &str) -> OwnedFd {
    let number = number.parse().expect("a descriptor");
    // SAFETY: the launcher says that it is open and ours, and it is taken once.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).expect("an open descriptor");
    file
}

/// What a rank is: it is the test program once more, started by the launcher. Alone it does nothing.
#[test]
fn a_rank() {
    let Ok(dir) = std::env::var("RESTARTS") else { return };
    Member::start(Path::new(&dir)).run();
}

struct Member {
    dir: PathBuf,
    rank: u32,
    incarnation: u32,
    ring: RingWriter<Memory>,
    /// Events of those before us that are to be replayed.
    replay: u64,
    job: Job,
}

impl Member {
    fn start(dir: &Path) -> Member {
        assert_eq!(variable("TAFFRAIL_LOGGING"), "pessimistic");
        assert_eq!(variable("TAFFRAIL_EVENTS"), "nondeterministic");
        let rank: u32 = variable("PMI_RANK").parse().unwrap();
        let incarnation: u32 = variable("TAFFRAIL_INCARNATION").parse().unwrap();
        let (sets, generations) = (numbers("TAFFRAIL_SETS"), numbers("TAFFRAIL_GENERATIONS"));
        // Who and which life, for the tests and for those who are to kill us.
        let about = format!("{} {} {generations:?}", std::process::id(), variable("TAFFRAIL_SETS"));
        let new = dir.join(format!("{rank}.{incarnation}.new"));
        std::fs::write(&new, about).unwrap();
        std::fs::rename(&new, new.with_extension("")).unwrap();

        let (ring, shape) = attach(rank, &sets);
        let replay = replayed(Owner { rank, job: shape.job });
        assert_eq!(replay, ring.written(), "what is replayed is what was written");
        assert_eq!(incarnation > 0, variable("TAFFRAIL_REPLAY") != "none");
        assert_eq!(incarnation > 0, generations[rank as usize] > 0);
        let job = Job::from_env().expect("a job");
        assert_eq!((job.rank(), job.size() as usize), (rank, sets.len()));
        assert_eq!(job.size() as usize, generations.len());
        Member { dir: dir.into(), rank, incarnation, ring, replay, job }
    }

    fn run(mut self) {
        let mut sum = 0;
        for step in 0..STEPS {
            // The first steps are those that earlier incarnations have done.
            if u64::from(step) >= self.replay {
                let clock = self.ring.push(&event(self.rank, u64::from(step) + 1));
                assert_eq!(clock, Ok(u64::from(step) + 1));
            }
            self.kill(step);
            let mine = format!("{}", self.rank * 1000 + step);
            let all = self.job.exchange("step", &mine).expect("an exchange");
            for (rank, value) in all.iter().enumerate() {
                assert_eq!(*value, format!("{}", rank as u32 * 1000 + step));
                sum += u64::from(rank as u32 * 1000 + step);
            }
            let pause = std::env::var("PAUSE").map_or(0, |ms| ms.parse().unwrap());
            std::thread::sleep(Duration::from_millis(pause));
        }
        self.job.barrier().expect("the last barrier");
        if let Ok(incarnations) = std::env::var(format!("LEAVE{}", self.rank)) {
            self.ring.leave(incarnations.parse().unwrap());
        }
        let exit = std::env::var("EXIT").unwrap_or_default();
        if let Some(code) = exit.strip_prefix(&format!("{}:", self.rank)) {
            std::process::exit(code.parse().unwrap());
        }
        let line = format!("\nrank {} done {sum}\n", self.rank);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }

    /// Kills whom `KILL` says: `rank.incarnation.step:victims`, separated by blanks.
    fn kill(&self, step: u32) {
        let now = format!("{}.{}.{step}:", self.rank, self.incarnation);
        let orders = std::env::var("KILL").unwrap_or_default();
        for victims in orders.split(' ').filter_map(|order| order.strip_prefix(&now)) {
            let mut pids: Vec<i32> =
                victims.split(',').map(|victim| pid(&self.dir, victim.parse().unwrap())).collect();
            // Ourselves at last.
            pids.sort_by_key(|&pid| pid == std::process::id() as i32);
            for pid in pids {
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            }
        }
    }
}

/// The process of a rank that was started last.
pub fn pid(dir: &Path, rank: u32) -> i32 {
    let last = lives(dir, rank);
    assert!(last > 0, "rank {rank} has not written down its process");
    about(dir, rank, last - 1).split(' ').next().unwrap().parse().unwrap()
}

/// How many processes of a rank there were.
pub fn lives(dir: &Path, rank: u32) -> u32 {
    (0..).find(|life| !dir.join(format!("{rank}.{life}")).exists()).unwrap()
}

/// `pid sets [generations]`, as a process of a rank saw them.
pub fn about(dir: &Path, rank: u32, incarnation: u32) -> String {
    std::fs::read_to_string(dir.join(format!("{rank}.{incarnation}"))).unwrap()
}

/// Our ring. Those of all members of our set, and only these, are readable, and each is its own.
fn attach(rank: u32, sets: &[u32]) -> (RingWriter<Memory>, RingShape) {
    let mut rings: Vec<(u32, Memory)> = Vec::new();
    for ring in variable("TAFFRAIL_RINGS").split(',') {
        let (of, number) = ring.split_once(':').unwrap();
        let file = File::from(inherited(number));
        let bytes = file.metadata().unwrap().len() as usize;
        let file = OwnedFd::from(file);
        let memory = Memory::map(std::os::fd::AsFd::as_fd(&file), bytes).unwrap();
        rings.push((of.parse().unwrap(), memory));
    }
    let members = (0..sets.len() as u32).filter(|&of| sets[of as usize] == sets[rank as usize]);
    assert!(rings.iter().map(|(of, _)| *of).eq(members), "{rings:?}");
    for (of, memory) in &rings {
        RingShape::found(memory, *of).unwrap();
    }
    let (_, memory) = rings.into_iter().find(|(of, _)| *of == rank).unwrap();
    let shape = RingShape::found(&memory, rank).unwrap();
    assert_eq!(shape.capacity, 65536);
    (RingWriter::attach(memory, shape).unwrap(), shape)
}

/// How many events there are to be replayed: all are as they were written, and nobody can change them.
fn replayed(owner: Owner) -> u64 {
    let number = variable("TAFFRAIL_REPLAY");
    if number == "none" {
        return 0;
    }
    let file = File::from(inherited(&number));
    assert!(file.write_all_at(&[0], 0).is_err() && file.set_len(0).is_err(), "it is sealed");
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let events = Unpacked::new(owner, "replay", bytes).unwrap();
    let count = events.last_clock();
    for (clock, got) in (1..).zip(events) {
        assert_eq!((got.clock, got.event), (clock, event(owner.rank, clock)));
    }
    count
}
