use super::*;
use crate::Event;
use crate::store::packed::pack;
use crate::store::{
    Durability, RingShape, RingWriter, Unpacked, create_memory, file_header, packed_header,
};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

mod copies;
mod crash;
mod sets;

const JOB: u64 = 6;

/// What outlives the logger: the rings of some ranks, which are one set, and what they are kept in.
struct Held {
    durability: Durability,
    capacity: u64,
    rings: Vec<OwnedFd>,
    stores: Vec<File>,
    folder: TempDir,
}

impl Held {
    fn new(durability: Durability, ranks: u32, capacity: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (rings, stores) = (Vec::new(), Vec::new());
        let mut held = Held { durability, capacity, rings, stores, folder };
        for rank in 0..ranks {
            let store = tempfile::tempfile().unwrap();
            let owner = Owner { rank, job: JOB };
            let header = match durability {
                Durability::Process => packed_header(owner),
                Durability::Disk | Durability::Node { .. } => file_header(owner),
            };
            store.write_all_at(&header, 0).unwrap();
            held.stores.push(store);
        }
        held.new_rings(ranks);
        held
    }

    fn on_disk(ranks: u32) -> Self {
        Held::new(Durability::Disk, ranks, 8)
    }

    /// As after the end of the node.
    fn new_rings(&mut self, ranks: u32) {
        let ring = |rank| {
            let shape = self.shape(rank);
            let ring = create_memory("ring", shape.bytes()).unwrap();
            shape.lay_out(&Memory::map(ring.as_fd(), shape.bytes()).unwrap());
            ring
        };
        self.rings = (0..ranks).map(ring).collect();
    }

    fn ranks(&self) -> u32 {
        self.rings.len() as u32
    }

    fn set(&self) -> Set {
        Set { number: 4, members: self.ranks(), job: JOB }
    }

    fn shape(&self, rank: Rank) -> RingShape {
        let (capacity, durability) = (self.capacity, self.durability);
        RingShape { rank, job: JOB, capacity, durability }
    }

    fn memory(&self, rank: Rank) -> Memory {
        let ring = &self.rings[rank as usize];
        Memory::map(ring.as_fd(), self.shape(rank).bytes()).unwrap()
    }

    fn writer(&self, rank: Rank) -> RingWriter<Memory> {
        RingWriter::attach(self.memory(rank), self.shape(rank)).unwrap()
    }

    fn stable(&self, rank: Rank) -> u64 {
        self.reader(rank).promised()
    }

    fn reader(&self, rank: Rank) -> RingReader<Memory> {
        RingReader::attach(self.memory(rank), self.shape(rank), 0).unwrap()
    }

    fn serve(&self, logger: &mut Logger, rank: Rank) -> Result<Served, ServeError> {
        match self.durability {
            Durability::Process | Durability::Node { .. } => {
                let store = self.stores[rank as usize].try_clone().unwrap();
                logger.serve(self.set(), self.reader(rank), store)
            }
            Durability::Disk => logger.serve_in(self.folder.path(), self.set(), self.reader(rank)),
        }
    }

    fn logger(&self) -> Result<Logger, ServeError> {
        let mut logger = Logger::new(match self.durability {
            Durability::Process | Durability::Node { .. } => Disk::Memory,
            Durability::Disk => Disk::Plain,
        });
        (0..self.ranks()).try_for_each(|rank| self.serve(&mut logger, rank).map(drop))?;
        Ok(logger)
    }

    fn file(&self, name: &str) -> File {
        File::options().read(true).write(true).open(self.folder.path().join(name)).unwrap()
    }
}

fn event(n: u64) -> Event {
    Event::Nothing { polls: n as u32 }
}

fn push(writer: &mut RingWriter<Memory>, events: u64) {
    for _ in 0..events {
        writer.push(&event(writer.written() + 1)).unwrap();
    }
}

/// How many events are handed out: all as they were written, without gaps.
fn copied(logger: &Logger, rank: Rank) -> u64 {
    let (count, events) = handed_out(logger, rank);
    assert_eq!(events.last_clock(), count);
    for (clock, got) in (1..).zip(events) {
        assert_eq!((got.clock, got.event), (clock, event(clock)));
    }
    count
}

fn handed_out(logger: &Logger, rank: Rank) -> (u64, Unpacked) {
    let mut into = tempfile::tempfile().unwrap();
    let count = logger.copy(rank, &into).unwrap().unwrap();
    let mut bytes = Vec::new();
    into.rewind().unwrap();
    into.read_to_end(&mut bytes).unwrap();
    (count, Unpacked::new(Owner { rank, job: JOB }, "copy", bytes).unwrap())
}

#[test]
fn events_are_kept_and_then_stable() {
    for durability in [Durability::Process, Durability::Disk] {
        let held = Held::new(durability, 1, 8);
        let mut logger = held.logger().unwrap();
        if durability == Durability::Disk {
            logger.disk = Disk::synced().0;
        }
        let mut writer = held.writer(0);
        for round in 0..5 {
            push(&mut writer, 8);
            assert!(writer.push(&event(0)).is_err());
            assert_eq!(copied(&logger, 0), 8 * (round + 1), "also what is in the ring");
            let turn = logger.turn();
            assert_eq!((turn.busy, turn.reports), (true, vec![]));
            assert_eq!(writer.stable(), Ok(8 * (round + 1)));
            assert_eq!(copied(&logger, 0), 8 * (round + 1));
        }
        assert!(!logger.turn().busy);
        assert!(logger.copy(1, &tempfile::tempfile().unwrap()).is_none());
    }
}

/// Written, and the first bytes of the next; not announced, and perhaps not synced.
#[test]
fn what_a_logger_has_written_before_it_was_killed_is_written_again() {
    let held = Held::on_disk(1);
    drop(held.logger().unwrap());
    let mut writer = held.writer(0);
    push(&mut writer, 2);
    let file = held.file("rank-0.events");
    file.write_all_at(&event(1).encode(0, 1), 32).unwrap();
    file.write_all_at(&event(2).encode(0, 2)[..9], 64).unwrap();
    let mut logger = held.logger().unwrap();
    assert_eq!((writer.stable(), copied(&logger, 0)), (Ok(0), 2));
    file.write_all_at(&[0; 16], 40).unwrap();
    logger.turn();
    assert_eq!((writer.stable(), copied(&logger, 0)), (Ok(2), 2));
}

/// All that the ring has room for, and part of what follows; not announced, so that the rank waits.
#[test]
fn what_a_logger_has_stored_before_it_was_killed_gives_the_ring_room() {
    let held = Held::new(Durability::Process, 1, 8);
    drop(held.logger().unwrap());
    let mut writer = held.writer(0);
    push(&mut writer, 8);
    let mut block = Vec::new();
    pack(0, 1, &(1..=8).map(event).collect(), &mut block);
    let torn = block.clone();
    block.extend_from_slice(&torn[..9]);
    held.stores[0].write_all_at(&block, 32).unwrap();
    assert!(writer.push(&event(0)).is_err());
    let mut logger = Logger::new(Disk::Memory);
    assert_eq!(held.serve(&mut logger, 0).unwrap(), Served { kept: 8, cut: 9 });
    assert!(!logger.turn().busy);
    push(&mut writer, 8);
    assert_eq!(copied(&logger, 0), 16, "also what is in the ring");
    logger.turn();
    assert_eq!(copied(&logger, 0), 16);
}

#[test]
fn a_new_ring_goes_on_behind_the_file() {
    let mut held = Held::on_disk(1);
    push(&mut held.writer(0), 3);
    held.logger().unwrap().turn();
    held.new_rings(1);
    let mut logger = Logger::new(Disk::Plain);
    assert_eq!(held.serve(&mut logger, 0).unwrap(), Served { kept: 3, cut: 0 });
    let mut writer = held.writer(0);
    assert_eq!((writer.written(), writer.stable()), (3, Ok(3)));
    push(&mut writer, 1);
    logger.turn();
    assert_eq!((writer.stable(), copied(&logger, 0)), (Ok(4), 4));
}

#[test]
fn stable_events_that_are_gone_are_missed() {
    let held = Held::on_disk(1);
    let mut logger = held.logger().unwrap();
    push(&mut held.writer(0), 3);
    logger.turn();
    let file = held.file("rank-0.events");
    file.set_len(32 + 2 * 32).unwrap();
    let error = held.logger().unwrap_err();
    let lost = LedgerError::Lost { rank: 0, promised: 3, have: 2, file: String::new() };
    let ServeError::RankStore(LedgerError::Lost { rank, promised, have, .. }) = error else {
        panic!("{error}, not {lost}")
    };
    assert_eq!((rank, promised, have), (0, 3, 2));
    for n in 1..=6 {
        file.write_all_at(&event(n).encode(0, n), 32 * n).unwrap();
    }
    let error = held.logger().unwrap_err();
    assert!(
        matches!(error, ServeError::RankStore(LedgerError::Behind { written: 3, have: 6, .. })),
        "{error}"
    );
}

#[test]
fn a_damaged_ring_is_reported_once_and_nothing_behind_the_damage_is_kept() {
    let held = Held::on_disk(1);
    let mut logger = held.logger().unwrap();
    let mut writer = held.writer(0);
    push(&mut writer, 3);
    let ring = File::from(held.rings[0].try_clone().unwrap());
    // The code of the second event.
    ring.write_all_at(&[0xff], 384 + 2).unwrap();
    let turn = logger.turn();
    assert!(
        matches!(
            turn.reports[..],
            [Report::Damaged { rank: 0, error: RingError::Code { clock: 2, .. } }]
        ),
        "{turn:?}"
    );
    assert_eq!(writer.stable(), Ok(1), "what was before it is kept");
    assert_eq!(logger.turn().reports, []);
    assert!(logger.copy(0, &tempfile::tempfile().unwrap()).unwrap().is_err());
}
