//! What the state machine takes and what it gives.

use super::rank::{By, End, Process};
use std::time::Duration;
pub use taffrail_agent::wire::LastCheckpoint as Checkpoint;
use taffrail_agent::wire::LeftBehind;

/// What has happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The direct child of a rank was started.
    Started { rank: usize, pid: i32 },
    /// A process of a rank has joined the job.
    Joined { rank: usize, pid: i32, by: By },
    /// It has finalised.
    Finalised { rank: usize, pid: i32, by: By },
    /// It says that it exits with this status.
    Exits { rank: usize, pid: i32, status: i32 },
    /// It says that its program is over, and waits until all are.
    ProgramOver { rank: usize, pid: i32 },
    /// A rank wants the job to end.
    Aborted { rank: usize, code: i64, text: Option<String> },
    /// A rank waits in a barrier that can never be complete.
    Stuck { waiting: usize, gone: usize },
    /// A process that had joined, and that is not the direct child, has ended.
    MemberGone { rank: usize, pid: i32 },
    /// A direct child has ended, and was reaped.
    Ended { rank: usize, end: End },
    /// A rank is done with all others. `known` is the sum of all incarnations when it was.
    Left { rank: usize, known: u64 },
    /// The events and the checkpoint that the ended lives of a rank leave for the next one.
    Recovered { rank: usize, events: u64, checkpoint: Option<Checkpoint> },
    /// These processes are about to end or gone, says the system.
    Exiting { processes: Vec<Process> },
    /// A rank has not called the library for too long.
    Overdue { rank: usize, limit: Duration },
    /// A signal to the launcher that ends the job; ranks get this one.
    Signalled { signal: i32, to_ranks: i32 },
    /// The job has taken longer than it may.
    TimedOut { limit: Duration },
    /// The launcher cannot go on.
    Trouble { status: u8, why: String },
    /// Time has passed.
    Tick,
}

impl Event {
    /// What the ended lives of a rank leave, as their keeper has found it.
    pub fn recovered(rank: usize, left: LeftBehind) -> Event {
        Event::Recovered { rank, events: left.events, checkpoint: left.checkpoint }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Say a line on standard error.
    Report(String),
    /// Find out which processes are about to end. Answered by [`Event::Exiting`].
    FindExiting,
    /// Kill and reap direct children. Answered by [`Event::Ended`] of each.
    Stop(Vec<usize>),
    /// Find out what these ranks leave for the next life. Answered by [`Event::Recovered`] of each.
    Recover(Vec<usize>),
    /// Start these ranks again. Answered by [`Event::Started`] of each.
    Start(Vec<usize>),
    /// A rank has ended for good: nobody waits for it in the start-up exchange.
    Leave(usize),
    /// Kill the process group of a rank.
    Kill(usize),
    /// Ask all ranks to end, with this signal.
    EndAll(i32),
    /// Kill all ranks.
    KillAll,
    /// All programs are over: let their processes end.
    Release,
}
