//! How a call waits: it makes progress until the engine says that the call is over, and meanwhile spins, then
//! yields, then sleeps. Nothing else waits.

use crate::endpoint::EngineOf;
use crate::engine::call::{Call, Operation, Outcome};
use crate::engine::policy::Policy;
use crate::engine::policy::calls::Decision;
use crate::engine::request::ANY;
use crate::engine::unposted_recv::{Received, SOON, UnpostedRecv};
use crate::engine::view::{View, ViewBuffer};
use crate::engine::{Engine, NotNow};
use crate::{Dest, Endpoint, Error, Over, Pattern, Rank, Status, Transport, explain};
use std::task::Poll;
use std::time::{Duration, Instant};
use taffrail_fabric::{Arming, PeerId};

/// Times the processor is given away before sleeping.
const YIELDS: u32 = 64;
/// Times it is given away before sleeping where what ends the wait rings no bell.
const YIELDS_WITHOUT_BELL: u32 = 1024;
/// The longest sleep, after which the peers are looked at.
const NAP: Duration = Duration::from_millis(5);
/// The pause between two looks whether the disk has done what is to be taken over from the process before.
const DISK_NAP: Duration = Duration::from_micros(50);
/// Such a wait sleeps for this part of the time that it has lasted, so that it ends late by no more than that.
const PART: u32 = 8;

/// A wait that takes longer says what it waits for; again after twice that, and so on.
const LONG: Duration = Duration::from_secs(10);

/// How long this wait has been idle.
#[derive(Default)]
struct Idle {
    turns: u32,
    /// The same, of the whole wait.
    passed: u32,
}

impl<F: Transport> Endpoint<F> {
    /// Something happened.
    #[inline]
    fn go_on(&mut self, idle: &mut Idle) {
        if idle.turns > 0 {
            self.spin.observe(idle.turns);
            idle.turns = 0;
        }
    }

    /// Passes a little time in which nothing happened.
    #[inline]
    fn pass(&mut self, idle: &mut Idle) {
        idle.turns += 1;
        idle.passed = idle.passed.saturating_add(1);
        self.engine.waits(idle.turns);
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
        if !self.waits_without_bell() {
            self.sleep(NAP);
        } else if idle.turns < begin + YIELDS_WITHOUT_BELL {
            return std::thread::yield_now();
        } else if !self.sleep((self.asleep.elapsed() / PART).min(NAP)) {
            // What has come may be what this rank cannot take in before the wait ends.
            std::thread::sleep((self.asleep.elapsed() / PART).min(NAP));
            self.engine.check();
        }
        self.engine.end_of_any_source();
        if Instant::now() - self.asleep > self.patience {
            let seconds = self.patience.as_secs();
            let what = explain::stalled(self);
            explain::warn(&format!("{what}; nothing has completed for {seconds} s"));
            self.patience *= 2;
        }
    }

    /// Whether what ends the wait may come without a bell: room towards a peer, room for events, what opens the gate, and the end
    /// of a write.
    fn waits_without_bell(&self) -> bool {
        let policy = &self.engine.core.policy;
        self.engine.tx.has_backlog() || policy.is_behind() || policy.waits_for_log_memory()
    }

    /// Sleeps until something comes. `false`: it is there already.
    fn sleep(&mut self, limit: Duration) -> bool {
        let sleeps = self.engine.fabric.arm() == Arming::Armed;
        if sleeps {
            self.engine.fabric.sleep(limit);
            self.engine.check();
        }
        sleeps
    }

    /// Makes progress until an operation has completed.
    #[inline]
    pub(crate) fn wait_over(&mut self, request: u32) {
        let slot = self.engine.core.requests.get(request);
        if slot.stage.is_over() {
            return;
        }
        let peer = slot.peer;
        let holds_back = peer != ANY && self.hold_back(peer);
        let mut idle = Idle::default();
        while !self.engine.core.requests.get(request).stage.is_over() {
            self.turn_and_pass(&mut idle);
        }
        if holds_back {
            self.note_answer(peer, &idle);
        }
    }

    /// Holds back with the first look at what a peer is to answer; whether this side of the two does.
    #[inline]
    fn hold_back(&self, peer: Rank) -> bool {
        // If both did, each would wait for the other's lateness.
        let holds_back = peer > self.rank() && self.engine.fabric.answers_fast(PeerId(peer));
        if holds_back {
            self.engine.core.peers[peer as usize].reply_delay.await_it();
        }
        holds_back
    }

    /// Learns from a wait that held back.
    #[inline]
    fn note_answer(&mut self, peer: Rank, idle: &Idle) {
        self.engine.core.peers[peer as usize].reply_delay.observe(idle.passed);
    }

    /// Makes progress, and passes a little time if nothing happens.
    #[inline(always)]
    fn turn_and_pass(&mut self, idle: &mut Idle) {
        if self.progress_once() == 0 {
            self.pass(idle);
        } else {
            self.go_on(idle);
        }
    }

    /// Waits until a call is over.
    pub(crate) fn complete(&mut self, operation: Operation<'_>) -> Result<Outcome, Error> {
        self.drive(Call::new(operation))
    }

    fn drive(&mut self, mut call: Call<'_>) -> Result<Outcome, Error> {
        let mut idle = Idle::default();
        loop {
            let step = self.engine.advance(&mut call);
            self.after_turns();
            if let Poll::Ready(outcome) = step {
                return outcome;
            }
            self.turn_and_pass(&mut idle);
        }
    }

    /// Polls for the next operation that has completed. Only a replay lets it wait.
    #[inline(always)]
    pub(crate) fn poll_completion(&mut self, turns: u32) -> Result<Over, Error> {
        let polled = self.engine.poll_at_once(turns);
        self.after_turns();
        match polled {
            Ok(over) => Ok(over),
            Err(decision) => self.poll_again(turns, decision),
        }
    }

    #[inline(never)]
    fn poll_again(&mut self, turns: u32, decision: Decision) -> Result<Over, Error> {
        match self.drive(Call::decided(Operation::PollCompletion(turns), decision))? {
            Outcome::Next(_) => Ok(Over::Next),
            Outcome::This(request) => Ok(Over::This(request)),
            _ => Ok(Over::Nothing),
        }
    }

    /// Waits for an operation, and gives its request back.
    #[inline]
    pub(crate) fn wait_for(&mut self, request: u32) -> Result<Status, Error> {
        self.wait_over(request);
        self.engine.core.requests.finish(request)
    }

    /// Waits for a receive that finds its own memory.
    pub(crate) fn wait_view(&mut self, request: u32) -> Result<View, Error> {
        self.wait_over(request);
        let buffer = self.engine.core.requests.get(request).extra().view.take();
        let status = self.engine.core.requests.finish(request)?;
        Ok(View::new(buffer.unwrap_or(ViewBuffer::Bytes(Vec::new())), status))
    }

    /// Begins a send. While the log has no room before the disk has taken what it is writing, or peers have read, progress is made, and it is
    /// begun again.
    #[inline]
    pub(crate) fn begin<T>(
        &mut self,
        mut send: impl FnMut(&mut EngineOf<F>) -> Result<T, NotNow>,
    ) -> Result<T, Error> {
        match send(&mut self.engine) {
            Ok(begun) => Ok(begun),
            Err(not_now) => self.begin_again(not_now, send),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn begin_again<T>(
        &mut self,
        mut not_now: NotNow,
        mut again: impl FnMut(&mut EngineOf<F>) -> Result<T, NotNow>,
    ) -> Result<T, Error> {
        let mut idle = Idle::default();
        loop {
            if let NotNow::Failed(error) = not_now {
                let Engine { core, fabric, .. } = &mut self.engine;
                core.policy.abandon_kept(fabric);
                return Err(error);
            }
            self.turn_and_pass(&mut idle);
            match again(&mut self.engine) {
                Ok(begun) => return Ok(begun),
                Err(later) => not_now = later,
            }
        }
    }

    /// Waits until a process that was started again has taken over what the one before has left. Nothing comes meanwhile.
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        loop {
            match self.engine.resume() {
                Ok(()) => return Ok(()),
                Err(NotNow::Waits) => std::thread::sleep(DISK_NAP),
                Err(NotNow::Failed(error)) => return Err(error),
            }
        }
    }

    /// Blocking send of a message that could not leave at once.
    #[inline(never)]
    pub(crate) fn send_slowly(&mut self, to: Dest, data: &[u8], sync: bool) -> Result<(), Error> {
        // SAFETY: the borrow lasts until the wait is over, and the wait ends the request.
        let request =
            self.begin(|engine| unsafe { engine.start_send(to, data.as_ptr(), data.len(), sync) })?;
        self.wait_for(request).map(drop)
    }

    /// Receives a message that comes soon, without posting the receive if nothing else comes.
    ///
    /// # Safety
    /// `room` bytes at `into` stay writable, and are used by nobody else, until the request is finished, if
    /// there is one.
    #[inline(always)]
    pub(crate) unsafe fn receive_directly(
        &mut self,
        from: &Pattern,
        into: *mut u8,
        room: usize,
    ) -> Received {
        if !self.engine.core.matcher.is_idle()
            || !self.engine.core.policy.leaves_unposted(!self.handlers.is_empty())
        {
            return Received::Nothing;
        }
        let expected = from.source.unwrap_or(self.last_source);
        let holds_back = self.hold_back(expected);
        // SAFETY: the caller's promise.
        let mut want = unsafe { UnpostedRecv::new(from, into, room) };
        let mut idle = Idle::default();
        while idle.turns < SOON.min(self.spin.turns()).max(1) {
            let events = self.engine.turn_directly(&mut want) + self.after_turns();
            if let Some(status) = want.status() {
                if holds_back && status.source == expected {
                    self.note_answer(status.source, &idle);
                }
                self.last_source = status.source;
                self.go_on(&mut idle);
                return Received::Has(status);
            }
            if let Some(request) = want.request() {
                self.engine.look_after(request, from);
                return Received::Posted(request);
            }
            if events == 0 {
                self.pass(&mut idle);
            }
        }
        Received::Nothing
    }

    /// Begins to finalise, or goes on with it: makes progress, and returns whether the endpoint can be dropped
    /// without waiting. Peers in the same process are waited for five seconds at most. From the first call on
    /// nothing is received but what posted receives match.
    #[doc(hidden)]
    pub fn try_finalize(&mut self) -> bool {
        let is_over = self.engine.try_finalize();
        self.after_turns();
        is_over
    }

    /// Waits until everything under way is over, as [`try_finalize`](Self::try_finalize) does.
    pub(crate) fn finalize(&mut self) {
        self.engine.begin_to_finalize();
        let _ = self.complete(Operation::Finalize);
    }

    /// Says to all that the program is over, and waits until all have said so.
    pub(crate) fn say_that_it_is_over(&mut self) {
        if self.engine.begin_to_leave() {
            let _ = self.complete(Operation::Leave);
        }
    }

    /// Waits until the programs of all ranks are over: until then one of them may need what is logged
    /// here.
    pub(crate) fn take_leave(&mut self) {
        self.say_that_it_is_over();
        self.engine.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, Settings};
    use rustix::time::{ClockId, clock_gettime};

    /// Processor time of this thread.
    fn own_time() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// The peer may need this processor to make room.
    #[test]
    fn a_rank_that_waits_for_room_for_long_leaves_its_processor_to_others() {
        let settings = Settings { spin: Some(0), ..Settings::default() };
        let mut jobs = Job::local(2);
        let mut ends: Vec<Endpoint> = std::thread::scope(|scope| {
            let open = |job: &mut Job| job.endpoint_with(settings.clone()).unwrap();
            let all: Vec<_> = jobs.iter_mut().map(|job| scope.spawn(move || open(job))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let data = [7; 3000];
        let mut sends = Vec::new();
        while !ends[0].engine.tx.has_backlog() {
            // SAFETY: the bytes stay until the sends are over.
            sends.push(unsafe { ends[0].isend_raw(Dest::new(1, 8), data.as_ptr(), 3000).unwrap() });
        }
        let (mut idle, begun, before) = (Idle::default(), Instant::now(), own_time());
        while begun.elapsed() < Duration::from_secs(1) {
            ends[0].turn_and_pass(&mut idle);
        }
        let (waited, ran) = (begun.elapsed(), own_time() - before);
        assert!(ends[0].engine.tx.has_backlog(), "there was room");
        assert!(ran < waited / 2, "it has run for {ran:?} of {waited:?}");
        let mut into = [0; 3000];
        for _ in &sends {
            ends[1].recv((0, 8), &mut into).unwrap();
            ends[0].progress();
        }
        ends[0].wait_all(&sends).unwrap();
    }
}
