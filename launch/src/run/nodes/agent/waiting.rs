//! What an agent does in pieces, since it asks an event logger or the copy store for it and does not wait for the answer.
//!
//! **Invariant no-turn-waits**: no turn of the agent's loop waits for the answer of another process, so none takes longer than half
//! of a lease. A question is sent in one turn, and its answer is taken in the turn in which the socket has it; between the two the
//! agent renews its lease and serves its ranks. So an answer may take any time, as that with a long log does, and only a process that
//! neither answers nor uses a processor for half of a lease counts as gone ([`Patience::of_agent`](crate::eventlog::Patience)). What
//! still waits is the end of a logger that is killed: an eighth of a lease for one that is asked to end, and another one until the
//! kernel has ended it.

use super::job::Job;
use super::rank::NodeRank;
use super::recovery::failed;
use crate::run::Failure;
use crate::run::nodes::index;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use taffrail_agent::RankIncarnation;
use taffrail_agent::agent::Event;
use taffrail_agent::wire::{End, Frame};

/// Processes that are asked are looked at after this, whether they say something or not.
const LOOK: Duration = Duration::from_millis(20);

/// Orders that wait for an answer.
#[derive(Default)]
pub struct Waiting {
    /// RECOVER, in order: which incarnation has ended, and the order by which its copy is here, or 0.
    recoveries: VecDeque<(RankIncarnation, u64)>,
    /// A START whose event logger has not begun.
    start: Option<Start>,
}

/// A rank that is to be started.
struct Start {
    life: RankIncarnation,
    app: u32,
    generations: Vec<u32>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.recoveries.is_empty() && self.start.is_none()
    }

    /// An incarnation is on another node: what those before it have left is not asked for here any more.
    pub fn placed_elsewhere(&mut self, life: RankIncarnation) {
        self.recoveries.retain(|(of, copy)| {
            *copy == 0 || of.rank != life.rank || of.incarnation >= life.incarnation
        });
    }
}

impl Job {
    /// Whether frames behind a START wait for it.
    pub fn is_starting(&self) -> bool {
        self.waiting.start.is_some()
    }

    fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.logs.are_starting()
    }

    /// When processes that were asked are to be looked at.
    pub(super) fn look_due(&self) -> Option<Instant> {
        self.waits().then(|| Instant::now() + LOOK)
    }

    /// Goes on with what waited for an answer.
    pub fn resume(&mut self) -> Vec<Event> {
        if !self.waits() {
            return Vec::new();
        }
        let mut events = self.check_logger();
        events.extend(self.check_store());
        events.extend(self.recover_next());
        if let Some(Start { life, app, generations }) = self.waiting.start.take() {
            events.extend(self.spawn(life, app, generations));
        }
        events
    }

    /// What a rank that has ended leaves for its next incarnation: here, or, by an order to copy, on another node. It is found out
    /// behind what was ordered before.
    pub fn recover(&mut self, life: RankIncarnation, copy: u64) -> Vec<Event> {
        self.waiting.recoveries.push_back((life, copy));
        self.recover_next()
    }

    /// Finds out what ranks leave, one after the other, as far as it is there: for an eighth of a lease at most.
    fn recover_next(&mut self) -> Vec<Event> {
        let (began, mut events) = (Instant::now(), Vec::new());
        while began.elapsed() < self.about.lease / 8
            && let Some(&(life, copy)) = self.waiting.recoveries.front()
        {
            let left = match copy {
                0 => self.try_to_recover(index(life)),
                _ => self.try_to_take_over(life, copy),
            };
            events.push(match left {
                Ok(None) => break,
                Ok(Some(left)) => Event::Recovered { life, left },
                // It may be elsewhere, too.
                Err(failure) if copy > 0 => Event::Brought { life, epoch: copy, why: failure.why },
                Err(failure) => failed(failure),
            });
            self.waiting.recoveries.pop_front();
            // The copy store may have said something else before it has answered, or have ended.
            events.extend(self.check_store());
        }
        events
    }

    /// Starts a rank, now or when its event logger has begun.
    pub(super) fn spawn(
        &mut self,
        life: RankIncarnation,
        app: u32,
        generations: Vec<u32>,
    ) -> Option<Event> {
        let number = index(life);
        match self.logs.are_kept() {
            // Each on a node of its own, as on one host: all messages of an MPI are to pass the provider.
            true => self.server.set_nodes(&(0..).take(self.nodes.len()).collect::<Vec<_>>()),
            false => self.server.set_nodes(&self.nodes),
        }
        self.server.set_app(number, app as usize);
        if life.incarnation.0 > 0 {
            crate::mpi::remove_left_behind(&self.about.name, [number]);
        }
        let started = match self.log_env(life, app, &generations) {
            Ok(Some(env)) => NodeRank::start(self, life, app, env),
            Ok(None) => {
                self.waiting.start = Some(Start { life, app, generations });
                return None;
            }
            Err(failure) => Err(failure),
        };
        Some(match started {
            Ok(rank) => {
                let pid = rank.pid();
                self.started.insert(number);
                self.ranks.insert(number, rank);
                Event::Started { life, pid: pid.as_raw_pid().unsigned_abs() }
            }
            Err(failure) => not_started(life, failure),
        })
    }

    /// All ranks are killed: none is started any more.
    pub(super) fn cancel_start(&mut self) -> Option<Event> {
        let Start { life, .. } = self.waiting.start.take()?;
        Some(not_started(
            life,
            Failure::new("it was not started before all were killed".to_owned()),
        ))
    }
}

fn not_started(life: RankIncarnation, Failure { status, why }: Failure) -> Event {
    Event::Ended { life, end: End::NotStarted(status.into(), why) }
}

/// Frames that wait behind a START, in order.
#[derive(Default)]
pub struct HeldFrames(VecDeque<Frame>);

impl HeldFrames {
    /// What is taken at once of what has happened. Frames wait while a START does, behind which they may belong: all but those that
    /// concern the lease.
    pub fn pass(&mut self, event: Event, is_starting: bool) -> Option<Event> {
        match event {
            Event::Frame(Frame::Grant { .. } | Frame::Revoke { .. }) => Some(event),
            Event::Frame(frame) if is_starting || !self.0.is_empty() => {
                self.0.push_back(frame);
                None
            }
            event => Some(event),
        }
    }

    /// The next one that has waited.
    pub fn next(&mut self) -> Option<Event> {
        self.0.pop_front().map(Event::Frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_taken_while_other_frames_wait_in_order() {
        let mut held = HeldFrames::default();
        let mut name = |frame: Frame, is_starting| match held.pass(Event::Frame(frame), is_starting)
        {
            Some(Event::Frame(frame)) => Some(frame.name()),
            _ => None,
        };
        let complete = |barriers| Frame::Complete { barriers };
        let grant = || Frame::Grant { renewal: 3 };
        assert_eq!(name(complete(1), false), Some(complete(1).name()));
        assert_eq!((name(complete(2), true), name(grant(), true)), (None, Some(grant().name())));
        assert_eq!(name(complete(3), false), None, "behind the one before");
        assert!(held.pass(Event::Tick, true).is_some());
        let barriers = |event| match event {
            Some(Event::Frame(Frame::Complete { barriers })) => Some(barriers),
            _ => None,
        };
        let order = [(); 3].map(|()| barriers(held.next()));
        assert_eq!(order, [Some(2), Some(3), None]);
        assert!(held.pass(Event::Frame(complete(4)), false).is_some());
    }
}
