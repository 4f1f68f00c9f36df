//! The event logger of a job: started before the ranks, started again when it is killed, ended after
//! them, and known to the guard meanwhile.

use super::guard::Guard;
use super::{Failure, say};
use crate::eventlog::{ChannelError, Keeper, KeeperError, Keeping};
use rustix::process::Pid;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use taffrail_logging::store::FILE_HEADER;

/// Records that the ring of a rank has room for.
const CAPACITY: u64 = 1 << 16;

/// Bytes of a record in an event file.
const RECORD: u64 = taffrail_logging::event::RECORD as u64;

/// How often it is tried to start a logger, with pauses of 2, 4, 8 ... ms between.
const TRIES: u32 = 10;

/// A logger that was killed so often is killed by something that will not end.
const MOST_DEATHS: u32 = 1000;

pub struct Logger {
    keeper: Keeper,
    deaths: u32,
    /// There is none any more, and there will be none.
    lost: bool,
}

impl Logger {
    /// Starts it, with a ring for each rank. `job` tells this execution from all others; `together` says
    /// for each rank whose events are stable together with its own: those with the same number.
    pub fn start(
        together: &[usize],
        job: u64,
        keeping: Keeping,
        guard: &Guard,
    ) -> Result<Logger, Failure> {
        let program = std::env::current_exe()
            .map_err(|e| Failure::new(format!("cannot start the event logger: {e}")))?;
        let keeper = Keeper::new(program, together, job, CAPACITY, keeping).map_err(failure)?;
        let mut logger = Logger { keeper, deaths: 0, lost: false };
        logger.try_to_start(guard)?;
        Ok(logger)
    }

    /// The ring of a rank, to be inherited by it.
    pub fn ring(&self, rank: usize) -> BorrowedFd<'_> {
        self.keeper.ring(rank as u32)
    }

    /// The incarnations of all ranks, added up, when this one was done with them, if it is.
    pub fn left(&self, rank: usize) -> Result<Option<u64>, Failure> {
        self.keeper.left(rank as u32).map_err(failure)
    }

    /// Its process.
    pub fn pid(&self) -> Option<Pid> {
        self.keeper.pids().next()
    }

    /// How often it was killed and started again.
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    /// Readable when it has said something, or is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.keeper.sockets().next().filter(|_| !self.lost)
    }

    /// Passes on what it has said, and starts it again if it is gone.
    pub fn look(&mut self, guard: &Guard) -> Result<(), Failure> {
        loop {
            match self.keeper.news() {
                Ok(news) => {
                    news.iter().for_each(|told| say(&told.to_string()));
                    return Ok(());
                }
                Err(error) => self.start_again(guard, error)?,
            }
        }
    }

    /// All events of a rank whose process has ended, for its successor, and how many there are.
    pub fn fetch(&mut self, rank: usize, guard: &Guard) -> Result<(OwnedFd, u64), Failure> {
        loop {
            match self.keeper.fetch_file(rank as u32) {
                Ok(file) => {
                    let bytes = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_size as u64);
                    return Ok((file, bytes.saturating_sub(FILE_HEADER as u64) / RECORD));
                }
                Err(KeeperError::Refused(why)) => {
                    let why = format!("rank {rank} cannot be started again: {why}");
                    return Err(Failure::new(why));
                }
                Err(error) => self.start_again(guard, error)?,
            }
        }
    }

    fn start_again(&mut self, guard: &Guard, error: KeeperError) -> Result<(), Failure> {
        let who = self.pid().map_or(0, |pid| pid.as_raw_pid());
        let why = match error {
            KeeperError::Channel(ChannelError::Closed) => "has ended".to_owned(),
            other => format!("is of no use ({other})"),
        };
        self.deaths += 1;
        if self.deaths > MOST_DEATHS {
            self.lost = true;
            let why = format!(
                "the event logger has ended {} times, and is not started again",
                self.deaths
            );
            return Err(Failure::new(why));
        }
        self.try_to_start(guard)?;
        say(&format!(
            "the event logger (pid {who}) {why}; another one goes on, and nothing is lost"
        ));
        Ok(())
    }

    fn try_to_start(&mut self, guard: &Guard) -> Result<(), Failure> {
        let mut attempt = 1;
        loop {
            // While the number of the one before cannot be used by anybody else.
            self.forget(guard);
            match self.keeper.start() {
                Ok(()) => {
                    self.pid().iter().for_each(|&pid| guard.watch(pid));
                    return Ok(());
                }
                Err(error) => {
                    let stays = matches!(error, KeeperError::Refused(_) | KeeperError::Ended(_));
                    if stays || attempt >= TRIES {
                        self.lost = true;
                        return Err(failure(error));
                    }
                    std::thread::sleep(Duration::from_millis(1 << attempt));
                }
            }
            attempt += 1;
        }
    }

    /// Before it is ended: the guard has nothing to do with it any more.
    pub fn forget(&self, guard: &Guard) {
        if let Some(pid) = self.pid() {
            guard.forget(pid);
        }
    }
}

fn failure(error: KeeperError) -> Failure {
    let kept = "the events of ranks cannot be kept, so none could be started again";
    Failure::new(format!("{kept}: {error}"))
}
