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

/// How a process is waited for that was asked something.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A process that does not answer, and uses no processor for this time, counts as gone. One that works may take any time.
    pub answer: Duration,
    /// How long it may take to end when it was asked to end.
    pub end: Duration,
    /// Whether a question waits for its answer. If not, an answer that is not there yet is [`KeeperError::Unanswered`], and the same
    /// question is to be asked again later.
    pub waits: bool,
}

impl Patience {
    /// With an event logger: an answer goes through files of any length, and it keeps what is left when it is to end.
    pub const OF_LOGGER: Patience =
        Patience { answer: Duration::from_secs(60), end: Duration::from_secs(10), waits: true };

    /// Of an agent with a lease of this length, which must not wait.
    pub fn of_agent(lease: Duration) -> Patience {
        Patience { answer: lease / 2, end: lease / 8, waits: false }
    }
}

/// Between two looks at whether a process works that is waited for.
const LOOK: Duration = Duration::from_millis(50);

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
    /// One at a time.
    question: Option<Question>,
    /// It has not answered in time: it gets no time to end.
    is_silent: bool,
}

/// Something that it was asked.
#[derive(Debug)]
struct Question {
    asked: Packet,
    answer: Option<(Packet, Vec<OwnedFd>)>,
    /// When it was asked, or was last seen to have used a processor since.
    since: Instant,
    used: Option<u64>,
}

impl Question {
    fn is_answered_by(&self, packet: &Packet) -> bool {
        let is_answer = match packet {
            Packet::Ready { .. } | Packet::Events { .. } | Packet::Checkpoint { .. } => {
                packet.rank() == self.asked.rank()
            }
            Packet::Listens { .. } => matches!(self.asked, Packet::Secret { .. }),
            Packet::Told(news) => news.what == What::Refused,
            _ => false,
        };
        is_answer && self.answer.is_none()
    }
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
        let channel = Some(channel);
        Ok(Running { channel, process, patience, question: None, is_silent: false })
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

    /// Asks something of a rank, unless that was asked already, and takes the answer, with its files. What else is said is added
    /// to `heard`. The answer to an earlier question, which was not taken, is dropped.
    pub fn exchange(
        &mut self,
        asked: &Packet,
        files: &[BorrowedFd<'_>],
        heard: &mut Heard,
    ) -> Result<(Packet, Vec<OwnedFd>), KeeperError> {
        loop {
            if self.question.is_none() {
                self.put(asked, files)?;
            }
            let read = self.news(heard);
            let answered = self.question.take_if(|question| question.answer.is_some());
            match answered.map(|question| (question.asked == *asked, question.answer)) {
                Some((true, Some((Packet::Told(news), _)))) => {
                    return Err(KeeperError::Refused(news));
                }
                Some((true, Some(answer))) => return Ok(answer),
                Some(_) => continue,
                None => read?,
            }
            self.check_silence()?;
            match &self.channel {
                Some(channel) if self.patience.waits => channel.wait(LOOK),
                _ => return Err(KeeperError::Unanswered),
            }
        }
    }

    /// Asks something, and takes no answer yet.
    pub fn put(&mut self, asked: &Packet, files: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
        self.say(asked, files)?;
        let (since, used) = (Instant::now(), family::processor_time(self.pid()));
        self.question = Some(Question { asked: asked.clone(), answer: None, since, used });
        Ok(())
    }

    /// Whether this was asked, and the answer was not taken.
    pub fn is_asked(&self, packet: &Packet) -> bool {
        self.question.as_ref().is_some_and(|question| question.asked == *packet)
    }

    /// It counts as gone when it neither answers nor works for too long.
    fn check_silence(&mut self) -> Result<(), KeeperError> {
        let used = family::processor_time(self.pid());
        let Some(question) = &mut self.question else { return Ok(()) };
        if used != question.used {
            (question.used, question.since) = (used, Instant::now());
        }
        if question.since.elapsed() < self.patience.answer {
            return Ok(());
        }
        self.channel = None;
        self.is_silent = true;
        let pid = self.pid().as_raw_pid();
        Err(KeeperError::Silent { pid, patience: self.patience.answer })
    }

    /// Says something that is not answered.
    pub fn say(&mut self, packet: &Packet, files: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
        self.heed(|channel| Ok(channel.send(packet, files)?))
    }

    /// Adds what it has said by itself to `heard`. An answer stays until it is taken.
    pub fn news(&mut self, heard: &mut Heard) -> Result<(), KeeperError> {
        let mut question = self.question.take();
        let read = self.heed(|channel| {
            while let Some((packet, files)) = channel.receive()? {
                match &mut question {
                    Some(open) if open.is_answered_by(&packet) => {
                        open.answer = Some((packet, files))
                    }
                    _ => heard.take(packet)?,
                }
            }
            Ok(())
        });
        self.question = question;
        read
    }

    fn heed<T>(
        &mut self,
        what: impl FnOnce(&Channel) -> Result<T, KeeperError>,
    ) -> Result<T, KeeperError> {
        let done = what(self.channel.as_ref().ok_or(ChannelError::Closed)?);
        if let Err(KeeperError::Channel(ChannelError::Closed)) = done {
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
        let Patience { answer, end, waits } = self.patience;
        let grace = if self.is_silent { Duration::ZERO } else { end };
        let limit = if waits { family::PATIENCE } else { answer / 4 };
        // It may be stopped, or a disk does not let it go.
        family::end_within(&mut self.process, grace, limit);
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

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(300);

    /// Asks a script, which never answers, until this time has passed.
    fn ask(script: &str, time: Duration) -> (Instant, KeeperError) {
        let patience = Patience { answer: PATIENCE, end: Duration::from_secs(20), waits: false };
        let (shell, script) = (Path::new("/bin/sh"), [OsString::from(script)]);
        let mut running = Running::start(shell, "-c", &script, true, patience).unwrap();
        let asked = Packet::Fetch { rank: 0, epoch: 0 };
        let began = Instant::now();
        loop {
            let turn = Instant::now();
            let error = running.ask(&asked, &[], &mut Heard::default()).unwrap_err();
            assert!(turn.elapsed() < PATIENCE, "nobody waits for it");
            if !matches!(error, KeeperError::Unanswered) || began.elapsed() > time {
                return (began, error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn one_that_neither_answers_nor_works_is_gone_and_gets_no_time_to_end() {
        let (began, error) = ask("exec sleep 100", 30 * PATIENCE);
        assert!(matches!(error, KeeperError::Silent { .. }), "{error}");
        assert!(began.elapsed() >= PATIENCE && began.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn one_that_works_may_take_any_time() {
        let (_, error) = ask("while :; do :; done", 5 * PATIENCE);
        assert!(matches!(error, KeeperError::Unanswered), "{error}");
    }
}
