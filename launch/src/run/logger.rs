//! The event logger of a job, or several with the same events: started before the ranks, started again
//! when they are killed, ended after them, and known to the guard meanwhile.

use super::guard::Guard;
use super::{Failure, own_program, say};
use crate::eventlog::{
    ChannelError, CopiedCheckpoint, CopyNews, Download, Elsewhere, Keeper, KeeperError, Keeping,
    Patience, Target,
};
use rustix::process::Pid;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use taffrail_logging::causal::Counters;

/// Records that the ring of a rank has room for.
pub const CAPACITY: u64 = 1 << 16;

/// How often it is tried to start a logger that cannot be started, with pauses of 2, 4, 8 ... ms between.
const TRIES: u32 = 10;

/// A logger that was killed so often is killed by something that will not end.
const MAX_DEATHS: u32 = 1000;

/// What is beyond the node: others with copies, and what ranks that were started elsewhere have brought.
#[derive(Default)]
pub struct Beyond {
    /// The loggers behind the first copy to other nodes.
    pub elsewhere: Option<Elsewhere>,
    /// As it was said where to, for each of these.
    pub targets: Vec<(usize, Target)>,
    /// Ranks that were started on another node: their next incarnations, and their events.
    pub moved: Vec<(u32, u32, OwnedFd)>,
    /// The last checkpoints of these.
    pub checkpoints: HashMap<u32, CopiedCheckpoint>,
    /// How loggers are waited for, if not as on one host.
    pub patience: Option<Patience>,
}

pub struct Logger {
    keeper: Keeper,
    deaths: u32,
    /// Loggers were started that do not serve all ranks yet. Only where nobody waits for them.
    is_starting: bool,
    /// All ranks were served once: they may run.
    has_begun: bool,
    /// Attempts to start them that have failed, since they served all ranks.
    failed: u32,
    /// Between two of these at most.
    pause: Duration,
    /// There is none any more, and there will be none.
    lost: bool,
}

impl Logger {
    /// Starts it, with a ring for each of these ranks. Where loggers are not waited for, ranks may not run before it
    /// [has begun](Self::has_begun). `job` is of this execution alone. Behind each rank stands a number: the events of ranks with
    /// the same number are stable together.
    pub fn start(
        ranks: &[(u32, usize)],
        job: u64,
        keeping: Keeping,
        beyond: Beyond,
        guard: &Guard,
    ) -> Result<Logger, Failure> {
        let mut keeper =
            Keeper::new(own_program::path(), ranks, job, CAPACITY, keeping).map_err(failure)?;
        let Beyond { elsewhere, targets, moved, patience, .. } = beyond;
        let patience = patience.unwrap_or(Patience::OF_LOGGER);
        keeper.set_patience(patience);
        moved.into_iter().for_each(|(rank, _, events)| keeper.begin_with(rank, events));
        elsewhere.into_iter().for_each(|elsewhere| keeper.copy_elsewhere(elsewhere));
        for (logger, target) in targets {
            keeper.copy_to(logger, target).map_err(failure)?;
        }
        let mut logger = Logger {
            keeper,
            deaths: 0,
            is_starting: false,
            has_begun: false,
            failed: 0,
            pause: patience.end / TRIES,
            lost: false,
        };
        logger.try_to_start(guard)?;
        Ok(logger)
    }

    /// The ring of a rank, to be inherited by it.
    pub fn ring(&self, rank: usize) -> BorrowedFd<'_> {
        self.keeper.ring(rank as u32)
    }

    /// What causal logging has sent with the messages of a rank that is done.
    pub fn sent(&self, rank: usize) -> Result<Counters, Failure> {
        self.keeper.sent(rank as u32).map_err(failure)
    }

    /// The incarnations of all ranks, added up, when this one was done with them, if it is.
    pub fn left(&self, rank: usize) -> Result<Option<u64>, Failure> {
        self.keeper.left(rank as u32).map_err(failure)
    }

    /// The processes.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.keeper.pids()
    }

    /// How often one was killed and started again.
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    /// Readable when one has said something, or is gone.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.keeper.sockets().filter(|_| !self.lost)
    }

    /// Where this one of the loggers behind the first copies to from now on.
    pub fn copy_to(&mut self, logger: usize, target: Target, guard: &Guard) -> Result<(), Failure> {
        match self.keeper.copy_to(logger, target) {
            Ok(()) => Ok(()),
            Err(error) => self.start_again(guard, error),
        }
    }

    /// Passes on what they have said, and starts again those that are gone. What has become of copies elsewhere.
    pub fn look(&mut self, guard: &Guard) -> Result<Vec<CopyNews>, Failure> {
        loop {
            let is_complete = self.serves(guard)?;
            match self.keeper.news() {
                Ok(news) => {
                    news.told.iter().for_each(|told| say(&told.to_string()));
                    return Ok(news.copies);
                }
                // Some are missing, and are about to be started.
                Err(KeeperError::Channel(ChannelError::Closed)) if !is_complete => {
                    return Ok(Vec::new());
                }
                Err(error) => self.start_again(guard, error)?,
            }
        }
    }

    /// Whether all of them serve all ranks. If not, those that are missing are started, and none is waited for.
    pub fn serves(&mut self, guard: &Guard) -> Result<bool, Failure> {
        if self.is_starting {
            let before: Vec<Pid> = self.pids().collect();
            let started = self.keeper.start_missing();
            self.settle(guard, &before, started)?;
        }
        Ok(!self.is_starting)
    }

    /// Whether ranks may run: all were served once. Loggers that are started again serve them while they run.
    pub fn has_begun(&mut self, guard: &Guard) -> Result<bool, Failure> {
        Ok(self.has_begun || self.serves(guard)?)
    }

    /// Whether something is to be tried again without news.
    pub fn is_starting(&self) -> bool {
        self.is_starting
    }

    /// All events of a rank whose process has ended, for its successor. None where loggers are not waited for, and have not answered
    /// yet: it is to be asked again.
    pub fn fetch(&mut self, rank: usize, guard: &Guard) -> Result<Option<Download>, Failure> {
        loop {
            if !self.serves(guard)? {
                return Ok(None);
            }
            match self.keeper.download(rank as u32) {
                Ok(download) => {
                    // Another copy has answered for one that is gone.
                    if self.keeper.lacks_one() {
                        self.start_again(guard, ChannelError::Closed.into())?;
                    }
                    return Ok(Some(download));
                }
                Err(KeeperError::Unanswered) => return Ok(None),
                Err(KeeperError::Refused(why)) => {
                    let why = format!("rank {rank} cannot be started again: {why}");
                    return Err(Failure::new(why));
                }
                Err(error) => self.start_again(guard, error)?,
            }
        }
    }

    fn start_again(&mut self, guard: &Guard, error: KeeperError) -> Result<(), Failure> {
        let before: Vec<Pid> = self.pids().collect();
        self.died()?;
        self.try_to_start(guard).map_err(|failure| match &error {
            // What it comes from.
            KeeperError::Silent { .. } => {
                Failure { why: format!("{}: {error}", failure.why), ..failure }
            }
            _ => failure,
        })?;
        let why = match error {
            KeeperError::Channel(ChannelError::Closed) => "has ended".to_owned(),
            other => format!("is of no use ({other})"),
        };
        let now: Vec<Pid> = self.pids().collect();
        for pid in before.iter().filter(|pid| !now.contains(pid)) {
            say(&format!(
                "the event logger (pid {pid}) {why}; another one goes on, and nothing is lost"
            ));
        }
        Ok(())
    }

    fn died(&mut self) -> Result<(), Failure> {
        self.deaths += 1;
        if self.deaths <= MAX_DEATHS {
            return Ok(());
        }
        self.lost = true;
        let deaths = self.deaths;
        let why = format!("the event logger has ended {deaths} times, and is not started again");
        Err(Failure::new(why))
    }

    fn try_to_start(&mut self, guard: &Guard) -> Result<(), Failure> {
        // While the numbers of those before cannot be used by anybody else.
        self.forget(guard);
        let started = self.keeper.start();
        self.settle(guard, &[], started)
    }

    /// What has come of an attempt to start them; it is made again where that may help. The guard knows of those `before`.
    fn settle(
        &mut self,
        guard: &Guard,
        before: &[Pid],
        started: Result<(), KeeperError>,
    ) -> Result<(), Failure> {
        let (mut known, mut started) = (before.to_vec(), started);
        loop {
            let error = match started {
                Ok(()) | Err(KeeperError::Unanswered) => {
                    self.is_starting = started.is_err();
                    self.has_begun |= started.is_ok();
                    self.failed *= u32::from(self.is_starting);
                    let now: Vec<Pid> = self.pids().collect();
                    known
                        .iter()
                        .filter(|pid| !now.contains(pid))
                        .for_each(|pid| guard.forget(*pid));
                    now.iter().filter(|pid| !known.contains(pid)).for_each(|pid| guard.watch(*pid));
                    return Ok(());
                }
                Err(error) => error,
            };
            match error {
                // Killed while it was started.
                KeeperError::Channel(ChannelError::Closed) => self.died()?,
                error => {
                    self.failed += 1;
                    let stays = matches!(
                        error,
                        KeeperError::Refused(_) | KeeperError::Ended(_) | KeeperError::Lost { .. }
                    );
                    if stays || self.failed >= TRIES {
                        (self.lost, self.is_starting) = (true, false);
                        return Err(failure(error));
                    }
                    std::thread::sleep(Duration::from_millis(1 << self.failed).min(self.pause));
                }
            }
            known.drain(..).for_each(|pid| guard.forget(pid));
            started = self.keeper.start();
        }
    }

    /// Before they are ended: the guard has nothing to do with them any more.
    pub fn forget(&self, guard: &Guard) {
        self.pids().for_each(|pid| guard.forget(pid));
    }
}

fn failure(error: KeeperError) -> Failure {
    let kept = "the events of ranks cannot be kept, so none could be started again";
    Failure::new(format!("{kept}: {error}"))
}
