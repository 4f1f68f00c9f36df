//! The side of whoever starts ranks: the memory that outlives the event logger, and the logger's
//! process.

mod error;
mod keeping;

pub use error::KeeperError;
pub use keeping::{Download, Elsewhere, Keeping, Target};

use super::channel::ChannelError;
use super::packet::Packet;
use super::running::{Heard, Patience, Running, unasked};
use rustix::fs::MemfdFlags;
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use taffrail_logging::LoggedEvent;
use taffrail_logging::causal::Counters;
use taffrail_logging::store::{
    Copies, CopyStep, Memory, MemoryError, Owner, RingShape, Unpacked, counters, create_memory,
    left, packed_header,
};

/// What events are asked for, as a number of the question: those for a copy may lack the last ones of a rank that has ended since.
const FOR_RESTART: u64 = 0;
const FOR_COPY: u64 = 1;

/// Keeps the events of ranks: as long as it lives, no event that is stable is lost by killing ranks
/// or event loggers; with [`Keeping::Node`], by killing all but one of these.
#[derive(Debug)]
pub struct Keeper {
    program: PathBuf,
    keeping: Keeping,
    job: u64,
    capacity: u64,
    ranks: BTreeMap<u32, Held>,
    /// One for each copy.
    loggers: Vec<Option<Running>>,
    copies: Copies,
    heard: Heard,
    elsewhere: Option<Elsewhere>,
    /// Where loggers copy to other nodes, and those that know it.
    targets: BTreeMap<usize, Target>,
    informed: BTreeSet<usize>,
    patience: Patience,
}

/// The memory of one rank.
#[derive(Debug)]
struct Held {
    set: usize,
    ring: OwnedFd,
    store: Option<OwnedFd>,
    /// The events that it begins with, as a packed store, if there are any.
    before: Option<OwnedFd>,
}

impl Keeper {
    /// Makes a ring for each rank, with room for `capacity` records (a power of two). `ranks` are their numbers and
    /// those of their correlated sets: the events of a set are stable together. `program` is the `taffrail`
    /// command; `job` tells this execution apart from others that use the folder.
    ///
    /// # Errors
    /// [`KeeperError::Memory`].
    ///
    /// # Panics
    /// If the capacity is no power of two up to 2^32, or if there are no copies or more than 8.
    pub fn new(
        program: PathBuf,
        ranks: &[(u32, usize)],
        job: u64,
        capacity: u64,
        keeping: Keeping,
    ) -> Result<Self, KeeperError> {
        let copies = keeping.durability().copies();
        let own_memory = matches!(keeping, Keeping::Node { .. });
        let mut keeper = Keeper {
            program,
            keeping,
            job,
            capacity,
            ranks: BTreeMap::new(),
            loggers: (0..copies).map(|_| None).collect(),
            copies: Copies::new(copies, ranks.iter().map(|(rank, _)| *rank), own_memory),
            heard: Heard::default(),
            elsewhere: None,
            targets: BTreeMap::new(),
            informed: BTreeSet::new(),
            patience: Patience::OF_LOGGER,
        };
        for &(rank, set) in ranks {
            let held = keeper.hold(rank, set)?;
            keeper.ranks.insert(rank, held);
        }
        Ok(keeper)
    }

    fn hold(&self, rank: u32, set: usize) -> Result<Held, MemoryError> {
        let shape = self.shape(rank);
        let ring = create_memory("taffrail-event-ring", shape.bytes())?;
        shape.lay_out(&Memory::map(ring.as_fd(), shape.bytes())?);
        let store = match self.keeping {
            Keeping::Disk(_) | Keeping::Node { .. } => None,
            Keeping::Process => Some(new_store(&packed_header(Owner { rank, job: self.job }))?),
        };
        Ok(Held { set, ring, store, before: None })
    }

    /// How loggers are waited for that are started from now on.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Lets each of the loggers behind the first copy to another node, before they are started.
    pub fn copy_elsewhere(&mut self, elsewhere: Elsewhere) {
        self.elsewhere = Some(elsewhere);
    }

    /// Lets the loggers begin with events of a rank, before they are started: it was started elsewhere.
    ///
    /// # Panics
    /// If its events are not kept in the loggers' memory.
    pub fn begin_with(&mut self, rank: u32, events: OwnedFd) {
        assert!(matches!(self.keeping, Keeping::Node { .. }), "{:?}", self.keeping);
        if let Some(held) = self.ranks.get_mut(&rank) {
            held.before = Some(events);
        }
    }

    /// Where this one of the loggers behind the first copies to from now on.
    ///
    /// # Errors
    /// [`KeeperError::Channel`]; it knows when it has been started again.
    pub fn copy_to(&mut self, logger: usize, target: Target) -> Result<(), KeeperError> {
        self.targets.insert(logger, target);
        self.informed.remove(&logger);
        self.say_targets()
    }

    fn say_targets(&mut self) -> Result<(), KeeperError> {
        let copies = self.elsewhere.is_some();
        let targets = self.targets.iter().filter(|(logger, _)| copies && **logger > 0);
        for (&logger, Target { epoch, node, address }) in targets {
            let running = self.loggers.get_mut(logger).and_then(Option::as_mut);
            let Some(running) = running.filter(|_| !self.informed.contains(&logger)) else {
                continue;
            };
            let (epoch, node, address) = (*epoch, *node, address.clone());
            running.say(&Packet::Copy { epoch, node, address }, &[])?;
            self.informed.insert(logger);
        }
        Ok(())
    }

    /// What the ring of a rank is like: the rank attaches to it as this.
    pub fn shape(&self, rank: u32) -> RingShape {
        let durability = self.keeping.durability();
        RingShape { rank, job: self.job, capacity: self.capacity, durability }
    }

    /// The ring of a rank, to be inherited by its process.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn ring(&self, rank: u32) -> BorrowedFd<'_> {
        self.ranks[&rank].ring.as_fd()
    }

    /// The incarnations of all ranks, added up, when a rank was done with them; `None` as long as it is
    /// not.
    ///
    /// # Errors
    /// [`KeeperError::Memory`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn left(&self, rank: u32) -> Result<Option<u64>, KeeperError> {
        Ok(left(&Memory::map(self.ring(rank), self.shape(rank).bytes())?))
    }

    /// What causal logging has sent with the messages of a rank that is done; zeros before.
    ///
    /// # Errors
    /// [`KeeperError::Memory`] when its ring cannot be mapped.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn sent(&self, rank: u32) -> Result<Counters, KeeperError> {
        Ok(counters(&Memory::map(self.ring(rank), self.shape(rank).bytes())?))
    }

    /// Starts the logger, or starts it again, and returns when it serves all ranks. No rank may run
    /// before the first start. Of several loggers, those that are gone are started.
    ///
    /// # Errors
    /// [`KeeperError`]. It may be tried again; only [`KeeperError::Refused`], [`KeeperError::Ended`]
    /// and [`KeeperError::Lost`] will stay.
    pub fn start(&mut self) -> Result<(), KeeperError> {
        // The only one is of no use, also if it is there.
        if self.loggers.len() == 1 {
            self.copies.gone(0);
        }
        self.start_missing()
    }

    /// As [`start`](Self::start), after [`KeeperError::Unanswered`]: what was done is not done again.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn start_missing(&mut self) -> Result<(), KeeperError> {
        self.find_gone();
        loop {
            match self.copies.next() {
                CopyStep::Start { copy } => self.start_one(copy)?,
                CopyStep::Serve { copy, rank, from } => {
                    let served = self.serve(copy, rank, from);
                    served.map_err(|error| match error {
                        KeeperError::Unanswered => error,
                        error => self.not_served(copy, error),
                    })?;
                }
                CopyStep::Lost => {
                    let copies = self.loggers.len() as u32;
                    return Err(KeeperError::Lost { copies });
                }
                // One that was there may be found to be gone when it is asked for what it has.
                CopyStep::Done if self.lacks_one() => {}
                CopyStep::Done => return self.say_targets(),
            }
        }
    }

    /// Whether a logger is gone and is to be started again: also one that was found to be gone when it was
    /// asked something, whose connection says nothing any more.
    pub fn lacks_one(&mut self) -> bool {
        self.find_gone();
        self.copies.next() != CopyStep::Done
    }

    fn find_gone(&mut self) {
        for (copy, running) in self.loggers.iter_mut().enumerate() {
            if !running.as_mut().is_some_and(Running::is_there) {
                self.copies.gone(copy);
            }
        }
    }

    fn start_one(&mut self, copy: usize) -> Result<(), KeeperError> {
        let elsewhere = self.elsewhere.as_ref().filter(|_| copy > 0);
        let mut arguments: Vec<OsString> = match &self.keeping {
            Keeping::Process => vec!["--durability=process".into()],
            Keeping::Disk(dir) => vec!["--durability=disk".into(), "--dir".into(), dir.into()],
            Keeping::Node { copies } => {
                let numbers = [format!("--copies={copies}"), format!("--copy={copy}")];
                ["--durability=node".into()]
                    .into_iter()
                    .chain(numbers.map(OsString::from))
                    .collect()
            }
        };
        let in_memory = !matches!(self.keeping, Keeping::Disk(_));
        arguments.extend(elsewhere.map(|_| "--elsewhere".into()));
        // The one before it has ended first.
        self.loggers[copy] = None;
        let mut running =
            Running::start(&self.program, "eventlog", &arguments, in_memory, self.patience)?;
        if let Some(elsewhere) = elsewhere {
            let (packet, files) = elsewhere.introduction(self.job);
            running.say(&packet, &files)?;
            self.informed.remove(&copy);
        }
        self.loggers[copy] = Some(running);
        self.copies.started(copy);
        Ok(())
    }

    /// Lets a logger serve a rank, with what another one has of it.
    fn serve(&mut self, copy: usize, rank: u32, from: Option<usize>) -> Result<(), KeeperError> {
        let (set, job, capacity) = (self.ranks[&rank].set, self.job, self.capacity);
        let members = self.ranks.values().filter(|other| other.set == set).count() as u32;
        let packet = Packet::Serve { rank, job, capacity, set: set as u32, members };
        let is_asked = self.loggers[copy].as_ref().is_some_and(|it| it.is_asked(&packet));
        let known = match self.keeping {
            _ if is_asked => None,
            Keeping::Node { .. } if from.is_none() && self.ranks[&rank].before.is_some() => None,
            Keeping::Node { .. } if from.is_none() => {
                Some(new_store(&packed_header(Owner { rank, job: self.job }))?)
            }
            Keeping::Node { .. } => match self.download_for(rank, FOR_COPY) {
                Ok(download) => Some(download.file),
                // The next step reports that no copy is left.
                Err(KeeperError::Channel(ChannelError::Closed) | KeeperError::Silent { .. }) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            Keeping::Process | Keeping::Disk(_) => None,
        };
        let held = &self.ranks[&rank];
        let known = known.as_ref().or(held.before.as_ref());
        let files = [Some(&held.ring), held.store.as_ref(), known];
        let files: Vec<BorrowedFd<'_>> = files.into_iter().flatten().map(AsFd::as_fd).collect();
        let running = self.loggers[copy].as_mut().ok_or(ChannelError::Closed)?;
        running.ask(&packet, &files, &mut self.heard)?;
        self.copies.served(copy);
        Ok(())
    }

    /// Why a logger does not serve a rank. It is ended, and is to be started again.
    fn not_served(&mut self, copy: usize, error: KeeperError) -> KeeperError {
        self.copies.gone(copy);
        let running = self.loggers[copy].take();
        match (error, running) {
            (KeeperError::Channel(ChannelError::Closed), Some(mut running)) => {
                running.ended().map_or(ChannelError::Closed.into(), KeeperError::Ended)
            }
            (error, _) => error,
        }
    }

    /// All events of a rank whose set is dead, whether they are stable or not, in order.
    ///
    /// # Errors
    /// [`KeeperError`]; if the logger was killed, start it again, then ask again.
    pub fn fetch(&mut self, rank: u32) -> Result<Vec<LoggedEvent>, KeeperError> {
        let file = File::from(self.download(rank)?.file);
        let len = file.metadata().map_err(KeeperError::Read)?.len() as usize;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).map_err(KeeperError::Read)?;
        let owner = Owner { rank, job: self.job };
        Ok(Unpacked::new(owner, &format!("download of rank {rank}"), bytes)?.collect())
    }

    /// As [`fetch`](Self::fetch), to be inherited by the restarted rank.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn download(&mut self, rank: u32) -> Result<Download, KeeperError> {
        self.download_for(rank, FOR_RESTART)
    }

    fn download_for(&mut self, rank: u32, epoch: u64) -> Result<Download, KeeperError> {
        let packet = Packet::Fetch { rank, epoch };
        let mut why = ChannelError::Closed.into();
        for copy in self.copies.sources() {
            let Some(running) = &mut self.loggers[copy] else { continue };
            match running.ask(&packet, &[], &mut self.heard) {
                Ok(Some(download)) => return Ok(download),
                Ok(None) => return Err(unasked(&packet).into()),
                Err(KeeperError::Channel(ChannelError::Closed)) => {}
                Err(silent @ KeeperError::Silent { .. }) => why = silent,
                Err(error) => return Err(error),
            }
            self.copies.gone(copy);
        }
        Err(why)
    }

    /// The processes of the loggers that are started; they may have been killed.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.loggers.iter().flatten().map(Running::pid)
    }

    /// The connections: readable when there is news, or a logger is gone. One that is known to be gone
    /// has none.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.loggers.iter().flatten().filter_map(Running::socket)
    }

    /// What the loggers have said by themselves since last time.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when one is gone and is to be started again. What was said before is told
    /// afterwards.
    pub fn news(&mut self) -> Result<Heard, KeeperError> {
        let mut read = Ok(());
        for running in &mut self.loggers {
            let of_one = match running {
                Some(running) => running.news(&mut self.heard),
                None => Err(ChannelError::Closed.into()),
            };
            read = read.and(of_one);
        }
        read.map(|()| std::mem::take(&mut self.heard))
    }
}

/// Memory of no events, with this header.
fn new_store(header: &[u8]) -> Result<OwnedFd, MemoryError> {
    let os = |call| move |errno| MemoryError::Os { call, bytes: header.len(), errno };
    let flags = MemfdFlags::CLOEXEC;
    let file =
        rustix::fs::memfd_create("taffrail-event-store", flags).map_err(os("memfd_create"))?;
    rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, header, 0)).map_err(os("pwrite"))?;
    Ok(file)
}
