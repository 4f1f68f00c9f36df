use super::*;
use crate::Event;
use crate::store::{
    Durability, Owner, RingShape, RingWriter, create_memory, file_header, read_events,
};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// What outlives the logger.
struct Held {
    ring: OwnedFd,
    store: File,
}

fn shape(durability: Durability) -> RingShape {
    RingShape { rank: 1, job: 6, capacity: 8, durability }
}

const OWNER: Owner = Owner { rank: 1, job: 6 };

impl Held {
    fn new(durability: Durability) -> Self {
        let shape = shape(durability);
        let ring = create_memory("ring", shape.bytes()).unwrap();
        shape.lay_out(&Memory::map(ring.as_fd(), shape.bytes()).unwrap());
        let store = tempfile::tempfile().unwrap();
        store.write_all_at(&file_header(OWNER), 0).unwrap();
        Held { ring, store }
    }

    fn memory(&self, durability: Durability) -> Memory {
        Memory::map(self.ring.as_fd(), shape(durability).bytes()).unwrap()
    }

    fn writer(&self, durability: Durability) -> RingWriter<Memory> {
        RingWriter::attach(self.memory(durability), shape(durability)).unwrap()
    }

    fn ledger(&self, durability: Durability) -> Result<Ledger, LedgerError> {
        let ring = RingReader::attach(self.memory(durability), shape(durability)).unwrap();
        let file = self.store.try_clone().unwrap();
        Ledger::new(ring, EventFile::open(file, "store".into(), OWNER).unwrap().0)
    }

    fn logger(&self, durability: Durability, disk: Disk) -> Logger {
        let mut logger = Logger::new(disk);
        logger.serve(self.ledger(durability).unwrap());
        logger
    }
}

fn event(n: u64) -> Event {
    Event::Nothing { polls: n as u32 }
}

fn copied(logger: &mut Logger) -> u64 {
    let mut into = tempfile::tempfile().unwrap();
    let len = logger.copy(1, &into).unwrap().unwrap();
    let mut bytes = Vec::new();
    into.rewind().unwrap();
    into.read_to_end(&mut bytes).unwrap();
    assert_eq!(len, bytes.len() as u64);
    let events = read_events(OWNER, "copy", &bytes).unwrap();
    for (clock, got) in (1..).zip(&events) {
        assert_eq!((got.clock, got.event), (clock, event(clock)));
    }
    events.len() as u64
}

#[test]
fn events_are_kept_and_then_stable() {
    for (durability, disk) in
        [(Durability::Process, Disk::Memory), (Durability::Disk, Disk::synced().0)]
    {
        let held = Held::new(durability);
        let mut logger = held.logger(durability, disk);
        let mut writer = held.writer(durability);
        for round in 0..5 {
            for n in 1..=8 {
                writer.push(&event(8 * round + n)).unwrap();
            }
            assert!(writer.push(&event(0)).is_err());
            assert_eq!(
                copied(&mut logger),
                8 * (round + 1),
                "what is in the ring is handed out, too"
            );
            let turn = logger.turn();
            assert_eq!(turn.reports, []);
            assert_eq!(writer.stable(), Ok(8 * (round + 1)));
        }
        assert!(logger.copy(2, &held.store).is_none());
    }
}

#[test]
fn a_logger_that_was_killed_after_it_wrote_is_followed_by_one_that_goes_on() {
    let held = Held::new(Durability::Disk);
    let mut writer = held.writer(Durability::Disk);
    writer.push(&event(1)).unwrap();
    writer.push(&event(2)).unwrap();
    // Written, and the first bytes of the next; not announced.
    held.store.write_all_at(&event(1).encode(1, 1), 32).unwrap();
    held.store.write_all_at(&event(2).encode(1, 2)[..9], 64).unwrap();
    let mut logger = held.logger(Durability::Disk, Disk::Plain);
    assert_eq!(writer.stable(), Ok(1));
    logger.turn();
    assert_eq!((writer.stable(), copied(&mut logger)), (Ok(2), 2));
}

#[test]
fn stable_events_that_are_gone_are_missed() {
    let held = Held::new(Durability::Disk);
    let mut writer = held.writer(Durability::Disk);
    let mut logger = held.logger(Durability::Disk, Disk::Plain);
    for n in 1..=3 {
        writer.push(&event(n)).unwrap();
    }
    logger.turn();
    held.store.set_len(32 + 2 * 32).unwrap();
    let error = held.ledger(Durability::Disk).unwrap_err();
    assert_eq!(error, LedgerError::Lost { rank: 1, promised: 3, have: 2, file: "store".into() });
    held.store.set_len(32).unwrap();
    for n in 1..=6 {
        held.store.write_all_at(&event(n).encode(1, n), 32 * n).unwrap();
    }
    let error = held.ledger(Durability::Disk).unwrap_err();
    assert!(matches!(error, LedgerError::Behind { written: 3, have: 6, .. }), "{error}");
}

#[test]
fn a_full_disk_makes_ranks_wait_until_there_is_space() {
    let held = Held::new(Durability::Disk);
    let mut writer = held.writer(Durability::Disk);
    let mut ledger = held.ledger(Durability::Disk).unwrap();
    writer.push(&event(1)).unwrap();
    ledger.read().unwrap();
    let now = Instant::now();
    let error = CommitError::Short { expected: 32, got: 5 };
    let report = ledger.committed(Err(error), now);
    assert!(matches!(report, Some(Report::Waiting { rank: 1, .. })), "{report:?}");
    assert_eq!(ledger.committed(Err(error), now), None, "it is told once");
    assert!(!ledger.is_due(now) && ledger.is_due(now + 2 * FIRST_RETRY));
    assert_eq!(writer.stable(), Ok(0));
    assert_eq!(ledger.committed(Ok(()), now), Some(Report::Resumed { rank: 1 }));
    assert_eq!(writer.stable(), Ok(1));
}

#[test]
fn a_damaged_ring_is_told_once_and_nothing_behind_the_damage_is_kept() {
    let held = Held::new(Durability::Disk);
    let mut logger = held.logger(Durability::Disk, Disk::Plain);
    let mut writer = held.writer(Durability::Disk);
    for n in 1..=3 {
        writer.push(&event(n)).unwrap();
    }
    let ring = File::from(held.ring.try_clone().unwrap());
    ring.write_all_at(&[0xff], 512 + 32 + 20).unwrap();
    let turn = logger.turn();
    assert!(
        matches!(
            turn.reports[..],
            [Report::Damaged { rank: 1, error: RingError::Record { clock: 2, .. } }]
        ),
        "{turn:?}"
    );
    assert_eq!(writer.stable(), Ok(1), "what was before it is kept");
    assert_eq!(logger.turn().reports, []);
    assert!(logger.copy(1, &tempfile::tempfile().unwrap()).unwrap().is_err());
}
