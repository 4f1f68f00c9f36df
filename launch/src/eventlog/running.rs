//! A running event logger, as seen by whoever started it.

use super::channel::{Channel, ChannelError};
use super::keeper::{Download, KeeperError};
use super::packet::{Malformed, Packet, Told, What};
use crate::run::family;
use rustix::process::Pid;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long an answer of the logger may take: it goes through files of any length.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the logger has to keep what is left when it is to end.
const GRACE: Duration = Duration::from_secs(10);

/// What loggers have said by themselves.
#[derive(Debug, Default)]
pub struct Heard {
    /// What has happened to ranks.
    pub told: Vec<Told>,
    /// What has become of copies on other nodes.
    pub copies: Vec<CopyNews>,
}

/// What has become of an order to copy to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyNews {
    /// All of it is there.
    Copied {
        /// The number of the order.
        epoch: u64,
    },
    /// It cannot be brought there.
    Lost {
        /// The number of the order.
        epoch: u64,
        /// Why.
        why: String,
    },
}

impl Heard {
    /// Takes what was not asked for.
    fn take(&mut self, packet: Packet) -> Result<(), KeeperError> {
        match packet {
            Packet::Told(news) => self.told.push(news),
            Packet::Copied { epoch } => self.copies.push(CopyNews::Copied { epoch }),
            Packet::Lost { epoch, why } => self.copies.push(CopyNews::Lost { epoch, why }),
            other => return Err(unasked(&other).into()),
        }
        Ok(())
    }
}

/// The process of a logger and the connection with it.
#[derive(Debug)]
pub struct Running {
    /// `None` when it is known to be closed.
    channel: Option<Channel>,
    process: Child,
}

impl Running {
    /// Starts it, as this command of the program. It serves nobody yet.
    pub fn start(
        program: &Path,
        subcommand: &str,
        arguments: &[OsString],
        in_memory: bool,
    ) -> Result<Self, KeeperError> {
        let (channel, theirs) = Channel::pair(in_memory)?;
        let mut command = Command::new(program);
        command
            .arg0("taffrail")
            .arg(subcommand)
            .args(arguments)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null());
        // In a group of its own: what a terminal does to the job must not end the logger first.
        let started = command.process_group(0).spawn();
        let process =
            started.map_err(|error| KeeperError::Start { program: program.into(), error })?;
        // Its end of the connection is closed here, so that we see when it dies.
        drop(command);
        Ok(Running { channel: Some(channel), process })
    }

    /// Its process, which may have been killed.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Readable when there is news, or the logger is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Whether it is not known to be gone.
    pub fn is_there(&mut self) -> bool {
        self.channel.is_some() && matches!(self.process.try_wait(), Ok(None))
    }

    /// How it has ended by itself, if it has: not killed.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.channel = None;
        self.process.wait().ok().filter(|status| status.code().is_some())
    }

    /// Asks something of a rank and waits for the answer: the events that come with it, if any do. What
    /// else is said is added to `heard`.
    pub fn ask(
        &mut self,
        asked: &Packet,
        files: &[BorrowedFd<'_>],
        heard: &mut Heard,
    ) -> Result<Option<Download>, KeeperError> {
        self.heed(|channel| {
            channel.send(asked, files)?;
            answer(channel, asked.rank(), heard)
        })
    }

    /// Says something that is not answered.
    pub fn say(&mut self, packet: &Packet, files: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
        self.heed(|channel| Ok(channel.send(packet, files)?))
    }

    /// Waits for a packet.
    pub fn await_packet(&mut self) -> Result<Packet, KeeperError> {
        let started = Instant::now();
        self.heed(|channel| {
            loop {
                match channel.receive()? {
                    Some((packet, _)) => return Ok(packet),
                    None if started.elapsed() > PATIENCE => {
                        return Err(KeeperError::Silent(PATIENCE));
                    }
                    None => channel.wait(Duration::from_secs(1)),
                }
            }
        })
    }

    /// Adds what it has said by itself to `heard`.
    pub fn news(&mut self, heard: &mut Heard) -> Result<(), KeeperError> {
        self.heed(|channel| {
            while let Some((packet, _)) = channel.receive()? {
                heard.take(packet)?;
            }
            Ok(())
        })
    }

    fn heed<T>(
        &mut self,
        what: impl FnOnce(&Channel) -> Result<T, KeeperError>,
    ) -> Result<T, KeeperError> {
        let done = what(self.channel.as_ref().ok_or(ChannelError::Closed)?);
        if let Err(KeeperError::Channel(ChannelError::Closed) | KeeperError::Silent(_)) = done {
            self.channel = None;
        }
        done
    }
}

impl Drop for Running {
    /// Ends the logger, unless somebody has done so, and waits until it is gone: it keeps what is in
    /// the rings, if it can.
    fn drop(&mut self) {
        self.channel = None;
        // It may be stopped, or a disk does not let it go.
        family::end(&mut self.process, GRACE);
    }
}

fn answer(
    channel: &Channel,
    asked: u32,
    heard: &mut Heard,
) -> Result<Option<Download>, KeeperError> {
    let started = Instant::now();
    loop {
        match channel.receive()? {
            Some((Packet::Ready { rank, .. }, _)) if rank == asked => return Ok(None),
            Some((Packet::Events { rank, count }, files)) if rank == asked => {
                return Ok(files.into_iter().next().map(|file| Download { file, count }));
            }
            Some((Packet::Told(news), _)) if news.what == What::Refused => {
                return Err(KeeperError::Refused(news));
            }
            Some((other, _)) => heard.take(other)?,
            None if started.elapsed() > PATIENCE => return Err(KeeperError::Silent(PATIENCE)),
            None => channel.wait(Duration::from_secs(1)),
        }
    }
}

/// Something that was not asked for.
pub fn unasked(packet: &Packet) -> ChannelError {
    ChannelError::Malformed(Malformed {
        field: "order",
        expected: "an answer to what was asked".into(),
        got: packet.to_string(),
    })
}
