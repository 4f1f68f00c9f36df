//! A running event logger, as seen by whoever started it.

use super::channel::{Channel, ChannelError};
use super::keeper::{Download, KeeperError};
use super::packet::{Malformed, Packet, Told, What};
use crate::run::family;
use rustix::process::Pid;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long it is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an answer.
    pub answer: Duration,
    /// For its end, when it was asked to end.
    pub end: Duration,
}

impl Patience {
    /// With an event logger: an answer goes through files of any length, and it keeps what is left when it is to end.
    pub const OF_LOGGER: Patience =
        Patience { answer: Duration::from_secs(60), end: Duration::from_secs(10) };
}

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
    patience: Patience,
}

impl Running {
    /// Starts it, as this command of the program. It serves nobody yet.
    pub fn start(
        program: &Path,
        subcommand: &str,
        arguments: &[OsString],
        in_memory: bool,
        patience: Patience,
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
        Ok(Running { channel: Some(channel), process, patience })
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
        match self.exchange(asked, files, heard)? {
            (Packet::Events { count, .. }, files) => {
                Ok(files.into_iter().next().map(|file| Download { file, count }))
            }
            (Packet::Ready { .. }, _) => Ok(None),
            (other, _) => Err(unasked(&other).into()),
        }
    }

    /// Asks something of a rank and waits for the answer, with its files. What else is said is added to `heard`.
    pub fn exchange(
        &mut self,
        asked: &Packet,
        files: &[BorrowedFd<'_>],
        heard: &mut Heard,
    ) -> Result<(Packet, Vec<OwnedFd>), KeeperError> {
        let patience = self.patience.answer;
        self.heed(|channel| {
            channel.send(asked, files)?;
            answer(channel, asked.rank(), heard, patience)
        })
    }

    /// Says something that is not answered.
    pub fn say(&mut self, packet: &Packet, files: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
        self.heed(|channel| Ok(channel.send(packet, files)?))
    }

    /// Waits for a packet, for this long.
    pub fn await_packet(&mut self, patience: Duration) -> Result<Packet, KeeperError> {
        let started = Instant::now();
        self.heed(|channel| {
            loop {
                let left = patience.saturating_sub(started.elapsed());
                match channel.receive()? {
                    Some((packet, _)) => return Ok(packet),
                    None if left.is_zero() => return Err(KeeperError::Silent(patience)),
                    None => channel.wait(left),
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
        family::end(&mut self.process, self.patience.end);
    }
}

fn answer(
    channel: &Channel,
    asked: u32,
    heard: &mut Heard,
    patience: Duration,
) -> Result<(Packet, Vec<OwnedFd>), KeeperError> {
    let started = Instant::now();
    loop {
        let left = patience.saturating_sub(started.elapsed());
        match channel.receive()? {
            Some((
                packet @ (Packet::Ready { .. } | Packet::Events { .. } | Packet::Checkpoint { .. }),
                files,
            )) if packet.rank() == asked => return Ok((packet, files)),
            Some((Packet::Told(news), _)) if news.what == What::Refused => {
                return Err(KeeperError::Refused(news));
            }
            Some((other, _)) => heard.take(other)?,
            None if left.is_zero() => return Err(KeeperError::Silent(patience)),
            None => channel.wait(left),
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
