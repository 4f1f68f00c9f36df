//! The present life of one rank: its direct child, and its members, which are the processes that have
//! joined the job.

use super::cause::{Cause, Kind, signal_status};
use crate::run::ranks::low_byte;
use crate::run::signals;
use std::time::Duration;

/// How a direct child has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signal(i32),
}

/// A process of a rank that the launcher knows: its direct child, or a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub rank: usize,
    pub pid: i32,
}

/// How a process takes part in the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// PMI-1, `init` and `finalize`.
    Pmi,
    /// The PMIx server of the rank speaks for its client.
    Pmix,
    /// An endpoint of the provider.
    Endpoint,
}

/// A process that has joined the job.
#[derive(Clone, Default, Debug)]
struct Member {
    pid: i32,
    pmi: bool,
    /// Endpoints that it has opened, and those of them that are open.
    endpoints: u32,
    open: u32,
    pmix: bool,
    pmi_finalised: bool,
    pmix_finalised: bool,
    /// The status that it said it exits with.
    exits: Option<i32>,
    /// It has said that its program is over.
    over: bool,
}

impl Member {
    /// PMI says least: an MPICH finalises it whenever it exits.
    fn has_finalised(&self) -> bool {
        match (self.pmix, self.endpoints) {
            (_, 1..) => self.open == 0 || self.pmix_finalised,
            (true, 0) => self.pmix_finalised,
            (false, 0) => self.pmi_finalised || !self.pmi,
        }
    }
}

/// What is known of the direct child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It runs, or has not been started yet.
    Running,
    /// It runs, but a member is gone that had not finalised.
    Lost {
        /// The member.
        pid: i32,
        /// The status that it said it exits with.
        exits: Option<i32>,
        /// When it was noticed.
        since: Duration,
        /// The direct child was killed because of it.
        killed: bool,
    },
    /// It has ended with status 0, or nothing was left to do.
    Ended,
    /// It has ended by itself with another status.
    Failed,
    /// It was killed; what follows is not decided yet.
    Killed,
    /// It is to be started again; `reaped` once its present process has ended.
    Restarting { reaped: bool },
    /// It was killed and is not started again.
    GivenUp,
}

/// How far the members of a rank are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// There was none.
    Started,
    /// One has joined and has not finalised.
    Joined,
    /// All that have joined have finalised.
    Finalised,
}

/// One rank.
#[derive(Clone, Debug)]
pub struct RankLife {
    pub rank: usize,
    pub pid: i32,
    pub state: State,
    members: Vec<Member>,
    /// It has asked for the end of the job: that it ends explains nothing any more.
    pub aborted: bool,
    /// Its process said that it is done with all others, and of how many restarts it knew.
    pub left: Option<u64>,
}

/// What the end of a direct child means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// It has ended with status 0.
    Well,
    /// It has ended by itself, in a way that is a failure.
    Failed(Cause),
    /// It was killed: it may be started again.
    Killed(Cause, Option<i32>),
}

impl RankLife {
    pub fn new(rank: usize) -> RankLife {
        let (state, members) = (State::Running, Vec::new());
        RankLife { rank, pid: 0, state, members, aborted: false, left: None }
    }

    /// Its direct child was started.
    pub fn start(&mut self, pid: i32) {
        *self = RankLife { pid, ..RankLife::new(self.rank) };
    }

    pub fn runs(&self) -> bool {
        matches!(
            self.state,
            State::Running | State::Lost { .. } | State::Restarting { reaped: false }
        )
    }

    /// `rank 2 (pid 17)`.
    pub fn who(&self) -> String {
        format!("rank {} (pid {})", self.rank, self.pid)
    }

    pub fn membership(&self) -> Membership {
        match self.members.iter().all(Member::has_finalised) {
            _ if self.members.is_empty() => Membership::Started,
            true => Membership::Finalised,
            false => Membership::Joined,
        }
    }

    /// Runs, and takes part in the job: it may wait for any other rank.
    pub fn takes_part(&self) -> bool {
        self.state == State::Running && self.membership() == Membership::Joined
    }

    /// Processes that have joined by PMI, one after the other: each needs one of every other rank.
    pub fn programs(&self) -> usize {
        self.members.iter().filter(|member| member.pmi).count()
    }

    pub fn join(&mut self, pid: i32, by: By) {
        let member = self.member(pid);
        match by {
            By::Pmi => (member.pmi, member.pmi_finalised) = (true, false),
            By::Pmix => (member.pmix, member.pmix_finalised) = (true, false),
            By::Endpoint => {
                member.endpoints += 1;
                member.open += 1;
            }
        }
    }

    pub fn finalise(&mut self, pid: i32, by: By) {
        let member = self.member(pid);
        match by {
            By::Pmi => member.pmi_finalised = true,
            By::Pmix => member.pmix_finalised = true,
            By::Endpoint => member.open = member.open.saturating_sub(1),
        }
    }

    pub fn exits(&mut self, pid: i32, status: i32) {
        self.member(pid).exits = Some(status);
    }

    pub fn program_over(&mut self, pid: i32) {
        self.member(pid).over = true;
    }

    /// A process; 0 is the direct child.
    fn member(&mut self, pid: i32) -> &mut Member {
        let pid = if pid == 0 { self.pid } else { pid };
        let at = self.members.iter().position(|member| member.pid == pid);
        let at = at.unwrap_or_else(|| {
            self.members.push(Member { pid, ..Member::default() });
            self.members.len() - 1
        });
        &mut self.members[at]
    }

    /// A program whose messages are logged has ended but for its process.
    pub fn is_over(&self) -> bool {
        self.members.iter().any(|member| member.over)
    }

    /// The direct child itself has said that its program is over.
    pub fn child_is_over(&self) -> bool {
        self.members.iter().any(|member| member.over && member.pid == self.pid)
    }

    /// Whether its end is to come, and may be what failures of other ranks follow from. `exiting` are the processes
    /// that are about to end or gone, says the system.
    pub fn is_going(&self, exiting: &[Process]) -> bool {
        let is_exiting = |pid| exiting.contains(&Process { rank: self.rank, pid });
        let goes = |member: &Member| {
            !member.has_finalised() && (member.exits.is_some() || is_exiting(member.pid))
        };
        let any = is_exiting(self.pid) || self.members.iter().any(goes);
        self.runs() && !self.aborted && (any || matches!(self.state, State::Lost { .. }))
    }

    /// A member that is not the direct child has gone.
    pub fn member_gone(&mut self, pid: i32, now: Duration) {
        let found = self.members.iter().find(|member| member.pid == pid);
        let Some(member) = found.filter(|member| !member.has_finalised()) else { return };
        if self.state == State::Running && pid != self.pid && !self.aborted {
            self.state = State::Lost { pid, exits: member.exits, since: now, killed: false };
        }
    }

    /// What it means that the direct child has ended in this way.
    pub fn meaning(&self, end: End) -> Meaning {
        let cause = |kind, status, how: String| Cause::of_rank(self, kind, status, how);
        if let State::Lost { pid, exits, killed, .. } = self.state {
            let end = if killed { End::Exited(0) } else { end };
            let how = format!("lost its process {pid}, which had not finalised");
            match (exits, end) {
                (_, End::Signal(_)) => {}
                (Some(0), End::Exited(0)) => return Meaning::Well,
                (Some(by_itself), End::Exited(passed_on)) => {
                    let status = if passed_on == 0 { by_itself } else { passed_on };
                    let how = format!("{how}: it exited with status {by_itself}");
                    return Meaning::Failed(cause(Kind::Ended, low_byte(status), how));
                }
                (None, End::Exited(status)) => {
                    return Meaning::Killed(cause(Kind::Lost, low_byte(status), how), None);
                }
            }
        }
        match end {
            End::Exited(0) => Meaning::Well,
            End::Exited(status) => {
                let how = format!("exited with status {status}");
                Meaning::Failed(cause(Kind::Ended, low_byte(status), how))
            }
            End::Signal(signal) => {
                let how = format!("killed by signal {}", signals::name(signal));
                Meaning::Killed(cause(Kind::Signal, signal_status(signal), how), Some(signal))
            }
        }
    }
}
