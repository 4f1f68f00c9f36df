//! Why a job fails: the first cause decides its status and its one line.

use super::rank::{Membership, RankLife};
use crate::run::ranks::low_byte;

/// What kind of event it was. Of two that are seen together, the one that comes first here is the cause
/// and the other one follows from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A signal to the launcher, the time limit, or a failure of the launcher itself.
    Launcher,
    /// A direct child was ended by a signal.
    Signal,
    /// A member of a rank is gone.
    Lost,
    /// A direct child has ended by itself.
    Ended,
    /// A rank wants the job to end, perhaps since another one is gone.
    Aborted,
}

/// A failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// Of the rank, if it is of one.
    pub rank: Option<usize>,
    pub kind: Kind,
    /// The status of the job.
    pub status: u8,
    /// `rank 2 (pid 17)`; empty if it is of no rank.
    pub who: String,
    /// What has happened to it.
    pub how: String,
}

impl Cause {
    pub fn of_launcher(status: u8, why: String) -> Cause {
        Cause { rank: None, kind: Kind::Launcher, status, who: String::new(), how: why }
    }

    pub fn of_rank(rank: &RankLife, kind: Kind, status: u8, how: String) -> Cause {
        Cause { rank: Some(rank.rank), kind, status, who: rank.who(), how }
    }

    pub fn aborted(rank: &RankLife, code: i64, text: Option<String>) -> Cause {
        let text = text.map(|text| format!(": {text}")).unwrap_or_default();
        let status = low_byte(i32::try_from(code & 0xff).unwrap_or(1));
        let how = format!("aborted the job with code {code}{text}");
        Cause::of_rank(rank, Kind::Aborted, status, how)
    }

    /// A rank waits in a barrier that can never be complete.
    pub fn stuck(waiting: usize, gone: usize) -> Cause {
        let how = format!(
            "rank {waiting} waits in a start-up barrier that rank {gone}, which ended, never entered"
        );
        Cause { rank: Some(waiting), kind: Kind::Aborted, ..Cause::of_launcher(1, how) }
    }

    /// Whether this one, which was seen first, is a consequence of the other one.
    pub fn follows_from(&self, other: &Cause) -> bool {
        self.kind > other.kind && self.rank != other.rank && other.kind != Kind::Launcher
    }

    /// `gone` has ended with status 0 while `waiting` takes part in the job.
    pub fn in_vain(gone: &RankLife, waiting: &RankLife) -> Cause {
        let how = match gone.membership() {
            Membership::Started => format!(
                "ended with status 0 and never joined the job; rank {} has joined it, and waits for \
                 all ranks",
                waiting.rank
            ),
            Membership::Finalised => format!(
                "ended with status 0; rank {} has joined the job again, by another process, and waits for all ranks",
                waiting.rank
            ),
            Membership::Joined => format!(
                "ended with status 0 without finalising (MPI_Finalize), while rank {} goes on",
                waiting.rank
            ),
        };
        Cause::of_rank(gone, Kind::Ended, 1, how)
    }

    /// The line that the job ends with.
    pub fn line(&self) -> String {
        match self.who.is_empty() {
            true => self.how.clone(),
            false => format!("{} {}", self.who, self.how),
        }
    }

    /// What has happened, as the beginning of a longer line.
    pub fn clause(&self) -> String {
        let was = if self.kind == Kind::Signal { "was " } else { "" };
        format!("{} {was}{}", self.who, self.how)
    }
}

/// The status of a job in which something was ended by a signal, as in a shell.
pub fn signal_status(signal: i32) -> u8 {
    low_byte(128 + signal)
}
