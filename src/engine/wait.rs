//! How the time passes until something happens: spin, then yield, then sleep.

use super::request::{ANY, Stage};
use crate::{Endpoint, Error, Rank, Request, Status, explain};
use std::time::{Duration, Instant};
use taffrail_fabric::{Arming, Fabric, PeerId, Wait};

/// Times the processor is given away before sleeping.
const YIELDS: u32 = 64;
/// Times it is given away between two looks at the clock, where it cannot sleep.
const LOOK_EVERY: u32 = 1024;
/// Turns without success between two looks at what the log will need next.
pub(crate) const PREPARE_EVERY: u32 = 8;
/// The longest sleep, after which the peers are looked at.
const NAP: Duration = Duration::from_millis(5);

/// A wait that takes longer says what it waits for; again after twice that, and so on.
const LONG: Duration = Duration::from_secs(10);

/// Which of several operations is over (its place in the list), and how it ended.
pub type Ended = (usize, Result<Status, Error>);

/// How long this wait has been idle.
#[derive(Default)]
pub(crate) struct Idle {
    turns: u32,
    /// The same, of the whole wait.
    passed: u32,
}

impl Idle {
    /// Turns since something happened last.
    #[inline]
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }
}

impl Endpoint {
    /// Something happened.
    #[inline]
    pub(crate) fn go_on(&mut self, idle: &mut Idle) {
        if idle.turns > 0 {
            self.spin.note(idle.turns);
            idle.turns = 0;
        }
    }

    /// Passes a little time in which nothing happened.
    #[inline]
    pub(crate) fn pass(&mut self, idle: &mut Idle) {
        idle.turns += 1;
        idle.passed = idle.passed.saturating_add(1);
        // What is waited for has not come yet, however much else has.
        self.core.is_ahead = false;
        if let Some(log) = &mut self.core.log {
            match idle.turns {
                1 => log.prepare_event(0),
                turns if turns.is_multiple_of(PREPARE_EVERY) => self.prepare_log(),
                _ => {}
            }
        }
        if idle.turns < self.spin.turns() {
            std::hint::spin_loop();
        } else {
            self.pass_slowly(idle);
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_slowly(&mut self, idle: &mut Idle) {
        let begin = self.spin.turns() + YIELDS;
        if idle.turns < begin {
            std::thread::yield_now();
            return;
        }
        if idle.turns == begin {
            (self.asleep, self.patience) = (Instant::now(), LONG);
        }
        if !self.peers_with_backlog.is_empty() {
            // Room towards a peer comes without a bell, and so does what opens the gate.
            std::thread::yield_now();
            if idle.turns < begin + LOOK_EVERY {
                return;
            }
            idle.turns = begin + 1;
        } else if self.line.arm() == Arming::Armed {
            self.line.sleep(NAP);
            self.check();
        }
        if self.core.log.is_some() {
            self.end_of_any_source();
        }
        if self.asleep.elapsed() > self.patience {
            let seconds = self.patience.as_secs();
            let what = explain::stalled(self);
            explain::warn(&format!("{what}; nothing has happened for {seconds} s"));
            self.patience *= 2;
        }
    }

    /// Makes progress until an operation has completed.
    #[inline]
    pub(crate) fn wait_over(&mut self, request: u32) {
        let slot = self.core.requests.get(request);
        if slot.stage.is_over() {
            return;
        }
        let peer = slot.peer;
        let holds_back = peer != ANY && self.hold_back(peer);
        let mut idle = Idle::default();
        while !self.core.requests.get(request).stage.is_over() {
            if self.turn() == 0 {
                self.pass(&mut idle);
            } else {
                self.go_on(&mut idle);
            }
        }
        if holds_back {
            self.note_answer(peer, &idle);
        }
    }

    /// Holds back with the first look at what a peer is to answer; whether this side of the two does.
    #[inline]
    pub(crate) fn hold_back(&self, peer: Rank) -> bool {
        // If both did, each would wait for the other's lateness.
        let holds_back = peer > self.rank() && self.line.answers_fast(PeerId(peer));
        if holds_back {
            self.core.peers[peer as usize].answer.await_it();
        }
        holds_back
    }

    /// Learns from a wait that held back.
    #[inline]
    pub(crate) fn note_answer(&mut self, peer: Rank, idle: &Idle) {
        self.core.peers[peer as usize].answer.note(idle.passed);
    }

    /// Makes progress until a condition holds.
    pub(crate) fn wait_until(&mut self, mut done: impl FnMut(&Endpoint) -> bool) {
        let mut idle = Idle::default();
        while !done(self) {
            if self.turn() == 0 {
                self.pass(&mut idle);
            } else {
                self.go_on(&mut idle);
            }
        }
    }

    /// Waits for an operation, and gives its request back.
    #[inline]
    pub(crate) fn wait_for(&mut self, request: u32) -> Result<Status, Error> {
        self.wait_over(request);
        self.core.requests.finish(request)
    }

    /// The result of an operation, if it is over.
    #[inline]
    pub(crate) fn try_finish(&mut self, request: Request) -> Result<Option<Status>, Error> {
        let slot = self.core.requests.look(request)?;
        match slot.stage {
            Stage::Done | Stage::Failed if slot.has_more_to_tell() => Ok(None),
            Stage::Done | Stage::Failed => self.core.requests.finish(request.index).map(Some),
            _ => Ok(None),
        }
    }

    /// Waits for the first of several operations.
    pub(crate) fn wait_first(&mut self, requests: &[Request]) -> Result<Ended, Error> {
        let mut idle = Idle::default();
        loop {
            for (index, &request) in requests.iter().enumerate() {
                // A wait ends with a multi-receive, also when it has something to tell.
                if self.core.requests.look(request)?.stage.is_over() {
                    return Ok((index, self.core.requests.finish(request.index)));
                }
            }
            if self.turn() == 0 {
                self.pass(&mut idle);
            } else {
                self.go_on(&mut idle);
            }
        }
    }

    /// The first of several operations that is over.
    pub(crate) fn test_first(&mut self, requests: &[Request]) -> Result<Option<Ended>, Error> {
        for (index, &request) in requests.iter().enumerate() {
            let slot = self.core.requests.look(request)?;
            if slot.stage.is_over() && !slot.has_more_to_tell() {
                return Ok(Some((index, self.core.requests.finish(request.index))));
            }
        }
        Ok(None)
    }
}
