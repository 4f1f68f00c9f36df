//! The process of the event logger.
//!
//! It looks at the rings from time to time, more often while there is something in them: ranks write
//! without telling anybody, and on a machine whose cores are all taken by ranks a logger that spins
//! would take one of them. A rank that waits for its events wakes it (*asleep-is-awoken*).

mod args;

pub use args::{Args, Kept};

use super::channel::{Channel, ChannelError};
use super::copies::read_secret;
use super::forward::Forward;
use super::packet::{Malformed, Packet, Told, What};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::SocketType;
use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use taffrail_logging::Set;
use taffrail_logging::store::{
    Disk, Durability, Logger, Memory, Owner, Report, RingReader, RingShape, Served, Turn, Unpacked,
};

/// Runs the event logger until whoever started it closes the connection, which is standard input.
pub fn eventlog(args: &Args) -> ExitCode {
    crate::run::own_program::name_process(c"taffrail-eventlog");
    match Server::new(args).and_then(Server::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(&format!("{e}"));
            ExitCode::FAILURE
        }
    }
}

type Anything = Box<dyn Error>;

struct Server {
    channel: Channel,
    logger: Logger,
    keeps: Keeps,
    /// It copies to another node: from when it knows the secret on.
    forward: Option<Forward>,
    elsewhere: bool,
    /// What the other end has had no room for.
    unsaid: VecDeque<(Packet, Option<OwnedFd>)>,
}

/// Where events are kept.
enum Keeps {
    /// In memory that the starter has made.
    Lent,
    /// In memory of our own: this one of so many copies.
    Own { copies: u32, copy: u32 },
    /// In a folder.
    Folder(PathBuf),
}

/// How long the logger waits before it looks at the rings again: at first, and at most.
struct Pace {
    least: Duration,
    most: Duration,
    /// From how many hundredths of a ring on it hurries, if something is in one.
    hurries: u64,
    /// Down to how many it may take more time.
    delays: u64,
}

/// Ranks wait until their events are stable.
const AWAITED: Pace = Pace {
    least: Duration::from_micros(50),
    most: Duration::from_millis(5),
    hurries: 0,
    delays: 0,
};
/// Nobody waits, unless the ring becomes full: so each time a good part of a ring, since a logger that gets a
/// processor takes it away from a rank.
const UNHURRIED: Pace = Pace {
    least: Duration::from_millis(1),
    most: Duration::from_millis(10),
    hurries: 40,
    delays: 15,
};

/// Another node is waited for at a time.
const AWAITED_ELSEWHERE: Duration = Duration::from_millis(1);

impl Pace {
    /// How long after this turn, before which it was so long.
    fn next(&self, wait: Duration, turn: &Turn) -> Duration {
        let next = match turn.percent {
            _ if !turn.busy => 2 * wait,
            percent if percent >= 2 * self.hurries => self.least,
            percent if percent >= self.hurries => wait / 2,
            percent if percent <= self.delays => 2 * wait,
            _ => wait,
        };
        next.clamp(self.least, self.most)
    }
}

impl Server {
    fn new(args: &Args) -> Result<Self, Anything> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        if rustix::net::sockopt::socket_type(&socket) != Ok(SocketType::SEQPACKET) {
            return Err(
                "standard input is not a connection to whoever starts the ranks; this is not \
                        to be started by hand"
                    .into(),
            );
        }
        let (keeps, disk) = match args.durability {
            Kept::Process => (Keeps::Lent, Disk::Memory),
            Kept::Node => (own(args)?, Disk::Memory),
            Kept::Disk => (folder(args)?, synced()),
        };
        let channel = Channel::inherited(socket, !matches!(keeps, Keeps::Folder(_)));
        Ok(Server {
            channel,
            logger: Logger::new(disk),
            keeps,
            forward: None,
            elsewhere: args.elsewhere,
            unsaid: VecDeque::new(),
        })
    }

    fn run(mut self) -> Result<(), Anything> {
        let pace = if matches!(self.keeps, Keeps::Lent) { UNHURRIED } else { AWAITED };
        let mut wait = pace.least;
        loop {
            match self.round() {
                Ok(turn) => wait = pace.next(wait, &turn),
                // What is in the rings may still be of use to whoever reads the files.
                Err(ChannelError::Closed) => {
                    if !self.elsewhere {
                        self.logger.turn();
                    }
                    return Ok(());
                }
                Err(e) => return Err(e.into()),
            }
            let mut turn = Turn::default();
            if let Some(forward) = &mut self.forward
                && forward.wait(AWAITED_ELSEWHERE, &mut self.logger, &mut turn)
            {
                self.say_all(&turn);
                continue;
            }
            self.pause(wait);
        }
    }

    /// Waits until something is to be done, or for this long.
    fn pause(&mut self, wait: Duration) {
        // A rank that waits for its events wakes the logger. A packet that comes meanwhile is read after the time.
        let is_awaited = !matches!(self.keeps, Keeps::Lent);
        if is_awaited && self.logger.sleep(wait) {
            return;
        }
        // A connection that has something to read is no reason to hurry while it takes nothing.
        match self.unsaid.is_empty() {
            true => self.channel.wait(wait),
            false => std::thread::sleep(wait),
        }
    }

    /// Does what was asked for, then keeps what is new.
    fn round(&mut self) -> Result<Turn, ChannelError> {
        self.obey()?;
        let turn = match &mut self.forward {
            Some(forward) => forward.turn(&mut self.logger),
            None if self.elsewhere => Turn::default(),
            None => self.logger.turn(),
        };
        self.say_all(&turn);
        let said = self.forward.as_mut().map_or(Vec::new(), Forward::take_said);
        said.into_iter().for_each(|packet| self.say(packet, None));
        self.flush()?;
        Ok(turn)
    }

    fn say_all(&mut self, turn: &Turn) {
        for report in &turn.reports {
            self.say(Packet::Told(told(report)), None);
        }
    }

    /// Nothing more is read while there is no room for answers.
    fn obey(&mut self) -> Result<(), ChannelError> {
        while self.flush()? {
            let Some((packet, files)) = self.channel.receive()? else { break };
            let (answer, file) = match packet {
                Packet::Serve { rank, job, capacity, set: number, members } => {
                    let durability = match self.keeps {
                        Keeps::Lent => Durability::Process,
                        Keeps::Own { copies, .. } => Durability::Node { copies },
                        Keeps::Folder(_) => Durability::Disk,
                    };
                    let shape = RingShape { rank, job, capacity, durability };
                    (self.serve(shape, Set { number, members, job }, files), None)
                }
                Packet::Fetch { rank, .. } => self.fetch(rank),
                Packet::Secret { node, job, .. } if self.elsewhere => {
                    self.learn(node, job, files);
                    continue;
                }
                Packet::Copy { epoch, node, address } if self.forward.is_some() => {
                    if let Some(forward) = &mut self.forward {
                        forward.copy_to(epoch, node, address);
                    }
                    continue;
                }
                other => return Err(backwards(&other).into()),
            };
            self.say(answer, file);
        }
        Ok(())
    }

    /// Whether everything was said.
    fn flush(&mut self) -> Result<bool, ChannelError> {
        while let Some((packet, file)) = self.unsaid.pop_front() {
            let files: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
            match self.channel.send(&packet, &files) {
                Ok(()) => {}
                Err(ChannelError::Full) => {
                    self.unsaid.push_front((packet, file));
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn serve(&mut self, shape: RingShape, set: Set, files: Vec<OwnedFd>) -> Packet {
        let rank = shape.rank;
        match self.served(shape, set, files) {
            Ok(Served { kept, cut }) => Packet::Ready { rank, kept, cut },
            Err(e) => Packet::Told(Told::new(rank, What::Refused, &e)),
        }
    }

    fn served(
        &mut self,
        shape: RingShape,
        set: Set,
        files: Vec<OwnedFd>,
    ) -> Result<Served, Anything> {
        let mut files = files.into_iter();
        let ring = files.next().ok_or("a rank without a ring")?;
        let copy = if let Keeps::Own { copy, .. } = self.keeps { copy } else { 0 };
        let ring = RingReader::attach(Memory::map(ring.as_fd(), shape.bytes())?, shape, copy)?;
        let owner = Owner { rank: shape.rank, job: shape.job };
        let mut store = || files.next().map(File::from).ok_or("a rank without a store");
        Ok(match &self.keeps {
            Keeps::Folder(dir) => self.logger.serve_in(dir.as_path(), set, ring)?,
            Keeps::Lent => self.logger.serve(set, ring, store()?)?,
            Keeps::Own { .. } => self.logger.serve_copy(set, ring, known(owner, &store()?)?)?,
        })
    }

    fn fetch(&mut self, rank: u32) -> (Packet, Option<OwnedFd>) {
        match self.copy(rank) {
            Ok((count, file)) => (Packet::Events { rank, count }, Some(file)),
            Err(e) => (Packet::Told(Told::new(rank, What::Refused, &e)), None),
        }
    }

    fn learn(&mut self, node: u32, job: u64, files: Vec<OwnedFd>) {
        let secret = files.into_iter().next().map(read_secret);
        match secret.map(|secret| Forward::new(job, secret?, node)) {
            Some(Ok(forward)) => self.forward = Some(forward),
            Some(Err(e)) => say(&format!("it cannot copy to another node: {e}")),
            None => {}
        }
    }

    /// A copy that nobody can change any more, and how many events it has.
    fn copy(&mut self, rank: u32) -> Result<(u64, OwnedFd), Anything> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("taffrail-events", flags)?);
        let copied = self.logger.copy(rank, &file);
        let count = copied.ok_or_else(|| format!("rank {rank} was never served"))??;
        Ok((count, seal(file)?))
    }

    fn say(&mut self, packet: Packet, file: Option<OwnedFd>) {
        self.unsaid.push_back((packet, file));
    }
}

/// From now on nobody can change it.
pub fn seal(file: File) -> std::io::Result<OwnedFd> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

fn own(args: &Args) -> Result<Keeps, Anything> {
    let (copies, copy) = (args.copies.unwrap_or(1), args.copy.unwrap_or(0));
    if copy >= copies {
        return Err(format!("--copy {copy}: expected less than --copies, which is {copies}").into());
    }
    Ok(Keeps::Own { copies, copy })
}

fn folder(args: &Args) -> Result<Keeps, Anything> {
    let dir = args.dir.clone().ok_or("--durability disk needs --dir DIR")?;
    std::fs::create_dir_all(&dir)
        .map_err(|e| format!("cannot make the folder {}: {e}", dir.display()))?;
    Ok(Keeps::Folder(dir))
}

fn synced() -> Disk {
    let (disk, refused) = Disk::synced();
    if let Some(e) = refused {
        say(&format!("no io_uring ({e}): event files are synced one after the other"));
    }
    disk
}

/// What is known of a rank, as a packed store.
fn known(owner: Owner, store: &File) -> Result<Unpacked, Anything> {
    // Whoever else has the file may have read in it.
    let mut bytes = vec![0; store.metadata()?.len() as usize];
    store.read_exact_at(&mut bytes, 0)?;
    Ok(Unpacked::new(owner, &format!("what is known of rank {}", owner.rank), bytes)?)
}

fn told(report: &Report) -> Told {
    let (rank, what) = match report {
        Report::Waiting { rank, .. } => (*rank, What::Waiting),
        Report::Resumed { rank } => (*rank, What::Resumed),
        Report::Damaged { rank, .. } => (*rank, What::Damaged),
    };
    Told::new(rank, what, report)
}

fn backwards(packet: &Packet) -> Malformed {
    Malformed {
        field: "direction",
        expected: "a packet for the event logger".into(),
        got: packet.to_string(),
    }
}

/// One line on standard error.
fn say(what: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("taffrail eventlog: {what}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds between turns in which so many events of each millisecond are found.
    fn settled(pace: &Pace, mut wait: Duration, events: u64) -> u64 {
        for _ in 0..20 {
            let found = events * wait.as_micros() as u64 / 1000;
            let percent = (found * 100 / (1 << 16)).min(100);
            wait = pace.next(wait, &Turn { busy: found > 0, percent, ..Turn::default() });
        }
        wait.as_micros() as u64
    }

    #[test]
    fn a_logger_that_nobody_waits_for_takes_a_good_part_of_a_ring_each_time() {
        for begin in [UNHURRIED.least, UNHURRIED.most] {
            assert_eq!(settled(&UNHURRIED, begin, 0), 10_000);
            assert_eq!(settled(&UNHURRIED, begin, 100), 10_000, "next to nothing");
            assert!((4000..=5000).contains(&settled(&UNHURRIED, begin, 4000)));
            assert!((1000..=2500).contains(&settled(&UNHURRIED, begin, 10_000)));
            assert_eq!(settled(&UNHURRIED, begin, 1_000_000), 1000, "it is full at once");
        }
    }

    #[test]
    fn a_logger_that_is_waited_for_hurries_whenever_there_is_something() {
        let turn = |busy| Turn { busy, ..Turn::default() };
        assert_eq!(AWAITED.next(AWAITED.most, &turn(true)), AWAITED.least);
        assert_eq!(AWAITED.next(AWAITED.least, &turn(false)), 2 * AWAITED.least);
        assert_eq!(AWAITED.next(AWAITED.most, &turn(false)), AWAITED.most);
    }
}
