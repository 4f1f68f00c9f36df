//! The side of whoever starts ranks: the memory that outlives the event logger, and the logger's
//! process.

use super::channel::{Channel, ChannelError};
use super::packet::{Packet, Told, What};
use rustix::fs::MemfdFlags;
use rustix::process::Pid;
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use taffrail_logging::Clocked;
use taffrail_logging::store::{
    Durability, FileError, Memory, MemoryError, Owner, RingShape, create_memory, file_header,
    read_events,
};

/// How long an answer of the logger may take: it goes through files of any length.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the logger has to keep what is left when it is to end.
const GRACE: Duration = Duration::from_secs(10);

/// Where events are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In memory that the [`Keeper`] holds.
    Process,
    /// In this folder.
    Disk(PathBuf),
}

/// Why the events of ranks cannot be kept, or not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// There is no memory for rings or stores.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The logger cannot be started.
    #[error("cannot start the event logger {program}: {error}")]
    Start {
        /// Its program.
        program: PathBuf,
        /// The error of the operating system.
        error: Error,
    },
    /// The logger has ended by itself while it was started; starting it again does not help.
    #[error("the event logger ended with {0}; it has said why on standard error")]
    Ended(ExitStatus),
    /// The connection to the logger is broken. After [`ChannelError::Closed`] it can be started again.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The logger has refused; starting it again does not help.
    #[error(transparent)]
    Refused(Told),
    /// The logger does not answer.
    #[error("the event logger has not answered for {} s; kill it, and start it again", .0.as_secs())]
    Silent(Duration),
    /// What the logger has handed out is not as it should be.
    #[error(transparent)]
    Events(#[from] FileError),
    /// A file that the logger has handed out cannot be read.
    #[error("cannot read events that the event logger handed out: {0}")]
    Read(Error),
}

/// Keeps the events of ranks: as long as it lives, no event that is stable is lost by killing ranks
/// or the event logger.
#[derive(Debug)]
pub struct Keeper {
    program: PathBuf,
    keeping: Keeping,
    job: u64,
    capacity: u64,
    ranks: Vec<Held>,
    running: Option<Running>,
    told: Vec<Told>,
}

/// The memory of one rank.
#[derive(Debug)]
struct Held {
    set: usize,
    ring: OwnedFd,
    store: Option<OwnedFd>,
}

#[derive(Debug)]
struct Running {
    channel: Channel,
    process: Child,
}

impl Keeper {
    /// Makes a ring for each rank, with room for `capacity` records (a power of two). `sets` has the
    /// number of each rank's correlated set: on disk, the events of a set are stable together. `program`
    /// is the `taffrail` command; `job` tells this execution apart from others that use the folder.
    ///
    /// # Errors
    /// [`KeeperError::Memory`].
    ///
    /// # Panics
    /// If the capacity is no power of two up to 2^32.
    pub fn new(
        program: PathBuf,
        sets: &[usize],
        job: u64,
        capacity: u64,
        keeping: Keeping,
    ) -> Result<Self, KeeperError> {
        let mut keeper = Keeper {
            program,
            keeping,
            job,
            capacity,
            ranks: Vec::with_capacity(sets.len()),
            running: None,
            told: Vec::new(),
        };
        for (rank, &set) in (0..).zip(sets) {
            let held = keeper.hold(rank, set)?;
            keeper.ranks.push(held);
        }
        Ok(keeper)
    }

    fn hold(&self, rank: u32, set: usize) -> Result<Held, MemoryError> {
        let shape = self.shape(rank);
        let ring = create_memory("taffrail-event-ring", shape.bytes())?;
        shape.lay_out(&Memory::map(ring.as_fd(), shape.bytes())?);
        let store = match self.keeping {
            Keeping::Disk(_) => None,
            Keeping::Process => Some(new_store(Owner { rank, job: self.job })?),
        };
        Ok(Held { set, ring, store })
    }

    /// What the ring of a rank is like: the rank attaches to it as this.
    pub fn shape(&self, rank: u32) -> RingShape {
        let durability = match self.keeping {
            Keeping::Process => Durability::Process,
            Keeping::Disk(_) => Durability::Disk,
        };
        RingShape { rank, job: self.job, capacity: self.capacity, durability }
    }

    /// The ring of a rank, to be inherited by its process.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn ring(&self, rank: u32) -> BorrowedFd<'_> {
        self.ranks[rank as usize].ring.as_fd()
    }

    /// Starts the logger, or starts it again, and returns when it serves all ranks. No rank may run
    /// before the first start.
    ///
    /// # Errors
    /// [`KeeperError`]. It may be tried again; only [`KeeperError::Refused`] and
    /// [`KeeperError::Ended`] will stay.
    pub fn start(&mut self) -> Result<(), KeeperError> {
        self.stop();
        let started = self.try_to_start();
        if let (Err(KeeperError::Channel(ChannelError::Closed)), Some(running)) =
            (&started, &mut self.running)
            && let Ok(status) = running.process.wait()
            && status.code().is_some()
        {
            return Err(KeeperError::Ended(status));
        }
        started
    }

    fn try_to_start(&mut self) -> Result<(), KeeperError> {
        let start = |error| KeeperError::Start { program: self.program.clone(), error };
        let (channel, theirs) = Channel::pair(self.keeping == Keeping::Process)?;
        let mut command = Command::new(&self.program);
        command.args(["eventlog", "--durability"]);
        match &self.keeping {
            Keeping::Process => command.arg("process"),
            Keeping::Disk(dir) => command.args(["disk", "--dir"]).arg(dir),
        };
        // In a group of its own: what a terminal does to the job must not end the logger first.
        let process = command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(start)?;
        // Its end of the connection is closed here, so that we see when it dies.
        drop(command);
        self.running = Some(Running { channel, process });
        for rank in 0..self.ranks.len() as u32 {
            let held = &self.ranks[rank as usize];
            let files: Vec<BorrowedFd<'_>> = [Some(&held.ring), held.store.as_ref()]
                .into_iter()
                .flatten()
                .map(AsFd::as_fd)
                .collect();
            let set = held.set;
            let members = self.ranks.iter().filter(|other| other.set == set).count() as u32;
            let (job, capacity, set) = (self.job, self.capacity, set as u32);
            let packet = Packet::Serve { rank, job, capacity, set, members };
            self.channel()?.send(&packet, &files)?;
            self.answer(rank)?;
        }
        Ok(())
    }

    /// All events of a rank whose set is dead, whether they are stable or not, in order.
    ///
    /// # Errors
    /// [`KeeperError`]; if the logger was killed, start it again, then ask again.
    pub fn fetch(&mut self, rank: u32) -> Result<Vec<Clocked>, KeeperError> {
        let file = File::from(self.fetch_file(rank)?);
        let len = file.metadata().map_err(KeeperError::Read)?.len() as usize;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).map_err(KeeperError::Read)?;
        let owner = Owner { rank, job: self.job };
        Ok(read_events(owner, &format!("download of rank {rank}"), &bytes)?)
    }

    /// As [`fetch`](Self::fetch), as a file to be inherited by the restarted rank. It is in the format
    /// of an event file, and nobody can change it.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn fetch_file(&mut self, rank: u32) -> Result<OwnedFd, KeeperError> {
        self.channel()?.send(&Packet::Fetch { rank }, &[])?;
        match self.answer(rank)? {
            Some(file) => Ok(file),
            None => Err(unasked(&Packet::Fetch { rank }).into()),
        }
    }

    /// The logger's process, while it is started; it may have been killed.
    pub fn pid(&self) -> Option<Pid> {
        self.running.as_ref().map(|running| Pid::from_child(&running.process))
    }

    /// The connection: readable when there is news, or the logger is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.channel.as_fd())
    }

    /// What the logger has said by itself since last time.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when it is gone and is to be started again. What it said before is told
    /// afterwards.
    pub fn news(&mut self) -> Result<Vec<Told>, KeeperError> {
        while let Some((packet, _)) = self.channel()?.receive()? {
            match packet {
                Packet::Told(told) => self.told.push(told),
                other => return Err(unasked(&other).into()),
            }
        }
        Ok(std::mem::take(&mut self.told))
    }

    fn channel(&self) -> Result<&Channel, ChannelError> {
        self.running.as_ref().map(|running| &running.channel).ok_or(ChannelError::Closed)
    }

    /// Waits for the answer about this rank: the file that came with it, if it is one of events.
    fn answer(&mut self, asked: u32) -> Result<Option<OwnedFd>, KeeperError> {
        let started = Instant::now();
        loop {
            let channel = self.channel()?;
            match channel.receive()? {
                Some((Packet::Ready { rank, .. }, _)) if rank == asked => return Ok(None),
                Some((Packet::Events { rank, .. }, files)) if rank == asked => {
                    return Ok(files.into_iter().next());
                }
                Some((Packet::Told(told), _)) if told.what == What::Refused => {
                    return Err(KeeperError::Refused(told));
                }
                Some((Packet::Told(told), _)) => self.told.push(told),
                Some((other, _)) => return Err(unasked(&other).into()),
                None if started.elapsed() > PATIENCE => return Err(KeeperError::Silent(PATIENCE)),
                None => channel.wait(Duration::from_secs(1)),
            }
        }
    }

    /// Ends the logger, unless somebody has done so, and waits until it is gone.
    fn stop(&mut self) {
        let Some(Running { channel, mut process }) = self.running.take() else { return };
        drop(channel);
        let started = Instant::now();
        while started.elapsed() < GRACE && matches!(process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // One that is stopped, or that a disk does not let go.
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Drop for Keeper {
    /// The logger ends after it has kept what is in the rings, if it can.
    fn drop(&mut self) {
        self.stop();
    }
}

/// An empty event file in memory.
fn new_store(owner: Owner) -> Result<OwnedFd, MemoryError> {
    let header = file_header(owner);
    let os = |call| move |errno| MemoryError::Os { call, bytes: header.len(), errno };
    let flags = MemfdFlags::CLOEXEC;
    let file =
        rustix::fs::memfd_create("taffrail-event-store", flags).map_err(os("memfd_create"))?;
    rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, &header, 0)).map_err(os("pwrite"))?;
    Ok(file)
}

fn unasked(packet: &Packet) -> ChannelError {
    ChannelError::Malformed(super::packet::Malformed {
        field: "order",
        expected: "an answer to what was asked".into(),
        got: format!("{packet:?}"),
    })
}
