//! The product's event logger of one set, its rings, and its files.

use super::folder::MemoryFolder;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;
use taffrail_logging::event::RECORD;
use taffrail_logging::store::{
    Disk, Durability, Logger, Memory, Owner, RingReader, RingShape, RingWriter, Turn, Unpacked,
    Write, create_memory, empty_memory,
};
use taffrail_logging::{LoggedEvent, Rank, Set};

/// Events that a ring has room for at the most: these are true rings, in memory.
const MOST: u64 = 4096;
/// And at the least: room is given back in groups of events.
const LEAST: u64 = 64;

/// The ring of a member.
#[derive(Debug)]
struct Ring {
    memory: OwnedFd,
    writer: RingWriter<Memory>,
}

/// A member of the set.
#[derive(Debug)]
struct Member {
    rank: Rank,
    /// None: it has not come back since the logger, or it itself, has died.
    ring: Option<Ring>,
    /// Clock of the last event that is known to be stable.
    stable: u64,
    /// Its ring is lost, and its logger still writes a cut.
    is_lost: bool,
}

/// The logger of a set.
#[derive(Debug)]
pub(super) struct SetLogger {
    set: Set,
    capacity: u64,
    members: Vec<Member>,
    folder: MemoryFolder,
    logger: Logger,
}

impl SetLogger {
    pub(super) fn new(set: Set, members: &[Rank], capacity: u64) -> Self {
        let member = |&rank: &Rank| Member { rank, ring: None, stable: 0, is_lost: false };
        let mut this = SetLogger {
            set,
            capacity: (2 * capacity.next_power_of_two()).clamp(LEAST, MOST),
            members: members.iter().map(member).collect(),
            folder: MemoryFolder::default(),
            logger: Logger::new(Disk::Memory),
        };
        members.iter().for_each(|&rank| _ = this.serve(rank).expect("a new ring"));
        this
    }

    /// Most events of a member that are not stable: with as many its ring is half full.
    pub(super) fn most_unstable(&self) -> u64 {
        self.capacity / 2
    }

    fn member(&self, rank: Rank) -> &Member {
        self.members.iter().find(|member| member.rank == rank).expect("it is a member")
    }

    fn member_mut(&mut self, rank: Rank) -> &mut Member {
        self.members.iter_mut().find(|member| member.rank == rank).expect("it is a member")
    }

    /// Lets the logger serve a member, with a new ring. Whether something was left out of its file.
    pub(super) fn serve(&mut self, rank: Rank) -> Result<bool, String> {
        let shape = self.shape(rank);
        let memory = create_memory("simulated-ring", shape.bytes()).expect("memory for rings");
        shape.lay_out(&map(&memory, &shape));
        let cut = self.serve_ring(rank, &memory)?;
        let writer = RingWriter::attach(map(&memory, &shape), shape).map_err(|e| e.to_string())?;
        self.member_mut(rank).ring = Some(Ring { memory, writer });
        Ok(cut > 0)
    }

    fn serve_ring(&mut self, rank: Rank, memory: &OwnedFd) -> Result<u64, String> {
        let (shape, set) = (self.shape(rank), self.set);
        let reader =
            RingReader::attach(map(memory, &shape), shape, 0).map_err(|e| e.to_string())?;
        let served = self.logger.serve_in(&self.folder, set, reader);
        let served = served.map_err(|error| error.to_string())?;
        let member = self.member_mut(rank);
        if served.kept < member.stable {
            let (stable, kept) = (member.stable, served.kept);
            return Err(format!("of {stable} stable events of rank {rank}, {kept} are left"));
        }
        member.stable = served.kept;
        Ok(served.cut)
    }

    /// A new logger in place of the one that is there, which serves those that have a ring.
    fn renew(&mut self) -> Result<(), String> {
        self.logger = Logger::new(Disk::Memory);
        let ranks: Vec<Rank> = self.members.iter().map(|member| member.rank).collect();
        for rank in ranks {
            if let Some(ring) = self.member_mut(rank).ring.take() {
                self.serve_ring(rank, &ring.memory)?;
                self.member_mut(rank).ring = Some(ring);
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, rank: Rank, event: LoggedEvent) -> Result<(), String> {
        let member = self.member_mut(rank);
        let Some(ring) = member.ring.as_mut().filter(|_| !member.is_lost) else { return Ok(()) };
        match ring.writer.push(&event.event) {
            Ok(clock) if clock == event.clock => Ok(()),
            Ok(clock) => Err(format!("rank {rank} writes event {} as event {clock}", event.clock)),
            Err(_) => Err(format!("rank {rank} has no room for event {}", event.clock)),
        }
    }

    /// What is kept, whatever is announced.
    pub(super) fn stable(&self, rank: Rank) -> u64 {
        self.member(rank).stable
    }

    pub(super) fn announced(&self, rank: Rank) -> u64 {
        let member = self.member(rank);
        let announced = member.ring.as_ref().and_then(|ring| ring.writer.stable().ok());
        announced.unwrap_or(0).max(member.stable)
    }

    fn written(&self, member: &Member) -> u64 {
        member.ring.as_ref().map_or(member.stable, |ring| ring.writer.written())
    }

    /// Whether something was written that is not stable, and nothing is being written.
    pub(super) fn can_cut(&self) -> bool {
        !self.is_writing() && self.members.iter().any(|member| self.written(member) > member.stable)
    }

    pub(super) fn is_writing(&self) -> bool {
        self.logger.writes().next().is_some()
    }

    /// The logger takes what is new, and begins to write it.
    pub(super) fn cut(&mut self) -> Result<(), String> {
        let turn = self.logger.look();
        self.logger.begin_commit(Instant::now());
        reported(&turn)
    }

    /// What is being written is synced.
    pub(super) fn sync(&mut self) -> Result<(), String> {
        let writes: Vec<Write<'_>> = self.logger.writes().collect();
        for Write { file, at, bytes } in &writes {
            file.write_all_at(bytes, *at).map_err(|error| error.to_string())?;
        }
        let results = vec![Ok(()); writes.len()];
        drop(writes);
        let mut turn = Turn::default();
        self.logger.written(results, Instant::now(), &mut turn);
        for member in &mut self.members {
            member.stable = member.stable.max(self.logger.kept(member.rank).unwrap_or(0));
        }
        reported(&turn)?;
        self.forget_lost()
    }

    /// When nothing is being written, those whose rings were lost are not served any more.
    fn forget_lost(&mut self) -> Result<(), String> {
        if self.is_writing() || self.members.iter().all(|member| !member.is_lost) {
            return Ok(());
        }
        for member in self.members.iter_mut().filter(|member| member.is_lost) {
            (member.ring, member.is_lost) = (None, false);
        }
        self.renew()
    }

    /// All members have died. If not all had come back, nothing counts that some have written since.
    pub(super) fn died(&mut self) -> Result<(), String> {
        if self.members.iter().all(|member| member.ring.is_some()) {
            return Ok(());
        }
        self.members.iter_mut().for_each(|member| member.ring = None);
        self.restart(|_| false).map(drop)
    }

    pub(super) fn lost(&mut self, rank: Rank) -> Result<(), String> {
        self.member_mut(rank).is_lost = true;
        self.forget_lost()
    }

    pub(super) fn is_settled(&self, rank: Rank) -> bool {
        let member = self.member(rank);
        !member.is_lost && self.written(member) == member.stable
    }

    /// The events of a member. One that is not served has those of its file.
    pub(super) fn download(&mut self, rank: Rank) -> Result<Vec<LoggedEvent>, String> {
        let shape = self.shape(rank);
        let file = File::from(empty_memory("simulated-events").expect("memory for events"));
        let member = self.member_mut(rank);
        let copied = match &mut member.ring {
            Some(ring) => {
                let memory = map(&ring.memory, &shape);
                ring.writer = RingWriter::attach(memory, shape).map_err(|e| e.to_string())?;
                self.logger.copy(rank, &file)
            }
            None => self.of_file(rank)?.0.copy(rank, &file),
        };
        let copied = copied.ok_or_else(|| format!("rank {rank} is not served"))?;
        copied.map_err(|error| error.to_string())?;
        let len = file.metadata().map_or(0, |metadata| metadata.len() as usize);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let owner = Owner { rank, job: self.set.job };
        let events = Unpacked::new(owner, "simulated events", bytes);
        events.map(Iterator::collect).map_err(|error| error.to_string())
    }

    /// A logger that knows what is in the file of a member, and how much that is.
    fn of_file(&self, rank: Rank) -> Result<(Logger, u64), String> {
        let shape = self.shape(rank);
        let memory = create_memory("simulated-ring", shape.bytes()).expect("memory for rings");
        shape.lay_out(&map(&memory, &shape));
        let reader =
            RingReader::attach(map(&memory, &shape), shape, 0).map_err(|e| e.to_string())?;
        let mut logger = Logger::new(Disk::Memory);
        let served = logger.serve_in(&self.folder, self.set, reader);
        let kept = served.map_err(|error| error.to_string())?.kept;
        Ok((logger, kept))
    }

    /// The logger dies, and the rings with it.
    pub(super) fn crash(&mut self, left: &mut impl FnMut(usize) -> (usize, Option<usize>)) {
        for Write { file, at, bytes } in self.logger.writes() {
            let (kept, flipped) = left(bytes.len());
            let mut some = bytes[..kept].to_vec();
            // Without a cut file a file ends with its last whole record, and damage before that is refused.
            let open = if self.members.len() > 1 { kept } else { kept.min(RECORD) };
            if let Some(at) = flipped {
                some[kept - 1 - at % open] ^= 0x40;
            }
            file.write_all_at(&some, at).expect("memory for files");
        }
        for member in &mut self.members {
            (member.ring, member.is_lost) = (None, false);
        }
        self.logger = Logger::new(Disk::Memory);
    }

    /// A new logger serves those that are not awaited.
    pub(super) fn restart(&mut self, is_awaited: impl Fn(Rank) -> bool) -> Result<bool, String> {
        self.logger = Logger::new(Disk::Memory);
        let ranks: Vec<Rank> = self.members.iter().map(|member| member.rank).collect();
        let mut torn = false;
        for rank in ranks {
            if !is_awaited(rank) {
                torn |= self.serve(rank)?;
                continue;
            }
            // What the files have is stable, whatever the one before had announced.
            let (_, kept) = self.of_file(rank)?;
            let member = self.member_mut(rank);
            member.stable = member.stable.max(kept);
        }
        Ok(torn)
    }

    pub(super) fn awaits(&self, rank: Rank) -> bool {
        let member = self.member(rank);
        member.ring.is_none()
    }

    fn shape(&self, rank: Rank) -> RingShape {
        let (job, capacity) = (self.set.job, self.capacity);
        RingShape { rank, job, capacity, durability: Durability::Disk }
    }
}

fn reported(turn: &Turn) -> Result<(), String> {
    turn.reports.first().map_or(Ok(()), |report| Err(report.to_string()))
}

fn map(memory: &OwnedFd, shape: &RingShape) -> Memory {
    Memory::map(memory.as_fd(), shape.bytes()).expect("memory that was made for it")
}
