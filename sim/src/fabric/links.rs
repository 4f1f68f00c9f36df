//! Links, deaths and verdicts.

use super::Mutant;
use super::coverage::Situation;
use super::messages::lost_link;
use super::roster::Verdicts;
use super::state::{Link, Net, Process, State, What};
use crate::broken::Broken;
use taffrail_fabric::{Fault, Incarnation, Life, LinkEvent, PeerId, Refused};

impl Net {
    /// The link of two living processes breaks.
    pub(super) fn break_link(&mut self, a: usize, b: usize) {
        self.reach(Situation::LinkBroken);
        for (rank, peer) in [(a, b), (b, a)] {
            self.end_mut(rank, peer).ended = Some(lost_link());
        }
    }

    /// A process notices that its link with a peer has ended.
    pub(super) fn notice(&mut self, rank: usize, peer: usize) {
        let Some(fault) = self.end_mut(rank, peer).ended.take() else { return };
        self.end_mut(rank, peer).was_used = true;
        self.link_down(rank, peer, &fault);
        let event = match fault {
            Fault::Closed => LinkEvent::Closed,
            fault => LinkEvent::Broken(fault),
        };
        if self.has(Mutant::EndBeforeMessages) {
            self.push_first(rank, peer, What::Link(event));
        } else {
            self.push(rank, peer, What::Link(event));
        }
        if self.has(Mutant::EndBeforeRest) {
            self.move_behind_end(rank, peer);
        }
        if self.has(Mutant::VerdictByLink) && self.lives(peer) {
            let of = Incarnation(self.processes[peer].incarnation);
            self.processes[rank].verdicts.push((PeerId(peer as u32), Life::Dead(of)));
        }
    }

    /// What `rank` has under way with a peer ends with the link.
    fn link_down(&mut self, rank: usize, peer: usize, fault: &Fault) {
        self.end_mut(rank, peer).link = Link::Down(fault.clone());
        self.cut_rest((peer, rank));
        self.cut_channel((peer, rank));
        if !self.lives(peer) || !self.end(peer, rank).is_up() {
            self.cut_channel((rank, peer));
        }
        for send in self.sends.values_mut() {
            if (send.from, send.to) == (rank, peer) {
                send.result.get_or_insert(Err(fault.clone()));
            }
        }
        for operation in self.operations.values_mut() {
            if (operation.by.0, operation.with.0) == (rank, peer)
                && operation.done < operation.len
                && !operation.is_orphan
            {
                operation.fault.get_or_insert(fault.clone());
            }
        }
    }

    /// For a mutant: the end of a rest comes behind the end of the link.
    fn move_behind_end(&mut self, rank: usize, peer: usize) {
        let ready = &mut self.processes[rank].ready;
        let is_end = |what: &What| matches!(what, What::Moved(_, Err(_)));
        let place = ready.iter().position(|one| one.peer == peer && is_end(&one.what));
        if let Some(moved) = place.and_then(|place| ready.remove(place)) {
            ready.push_back(moved);
        }
    }

    /// Two processes are connected again.
    pub(super) fn connect(&mut self, a: usize, b: usize) {
        let of = [a, b].map(|rank| self.processes[rank].incarnation);
        let is_healed = self.end(a, b).incarnation == of[1] && self.end(b, a).incarnation == of[0];
        self.reach(if is_healed { Situation::LinkHealed } else { Situation::NewIncarnation });
        // What was sent by a process that had not noticed the end.
        self.cut_channel((a, b));
        self.cut_channel((b, a));
        for (rank, peer, incarnation) in [(a, b, of[1]), (b, a, of[0])] {
            let end = self.end_mut(rank, peer);
            (end.link, end.ended, end.asked, end.was_used) = (Link::Coming, None, None, true);
            let up = || What::Link(LinkEvent::Up(Incarnation(incarnation)));
            self.push(rank, peer, up());
            if self.has(Mutant::UpTwice) {
                self.push(rank, peer, up());
            }
        }
    }

    /// A process asks for a link with the incarnation of a peer that its roster has now.
    pub(super) fn ask(&mut self, rank: usize, peer: usize) {
        let present = self.processes[peer].incarnation;
        let end = self.end_mut(rank, peer);
        if !end.is_up() && end.cut != Some(Incarnation(present)) {
            let _ = self.call(rank, peer, present);
        }
    }

    /// A process begins to make a link with this incarnation of a peer, and can send nothing yet.
    pub(super) fn call(&mut self, rank: usize, peer: usize, incarnation: u32) -> Refused {
        let end = self.end_mut(rank, peer);
        (end.asked, end.was_used) = (Some(incarnation), true);
        self.say(|| format!("call {rank} {peer}.{incarnation}"));
        Refused::Busy
    }

    /// The incarnation of a peer that the link connects with, or has connected with last: also before that is reported.
    pub(super) fn linked_incarnation(&self, rank: usize, peer: usize) -> Incarnation {
        let mut ready = self.processes[rank].ready.iter().rev().filter(|one| one.peer == peer);
        let unreported = ready.find_map(|one| match one.what {
            What::Link(LinkEvent::Up(incarnation)) => Some(incarnation),
            _ => None,
        });
        unreported.unwrap_or(Incarnation(self.end(rank, peer).incarnation))
    }

    /// A link event is reported to the sink.
    pub(super) fn reported(&mut self, rank: usize, peer: usize, event: &LinkEvent) {
        let ready = &mut self.processes[rank].ready.iter();
        let is_newest = !ready.any(|one| one.peer == peer && matches!(one.what, What::Link(_)));
        let end = self.end_mut(rank, peer);
        match event {
            LinkEvent::Up(incarnation) => {
                (end.is_reported, end.incarnation) = (true, incarnation.0);
                if end.link == Link::Coming && is_newest {
                    end.link = Link::Up;
                }
            }
            LinkEvent::Closed | LinkEvent::Broken(_) => end.is_reported = false,
        }
    }

    /// A process ends its link with a peer.
    pub(super) fn disconnect(&mut self, rank: usize, peer: usize, why: Fault) {
        let of = self.linked_incarnation(rank, peer);
        let end = self.end_mut(rank, peer);
        if end.cut == Some(of) {
            return;
        }
        (end.cut, end.ended) = (Some(of), None);
        let (was_up, is_reported) = (end.is_up(), end.is_reported);
        self.say(|| format!("disconnect {rank} {peer}"));
        self.processes[rank].ready.retain(|ready| {
            ready.peer != peer || !matches!(ready.what, What::Arrival(_) | What::Link(_))
        });
        if !was_up && !is_reported {
            return;
        }
        self.reach(Situation::Disconnected);
        self.link_down(rank, peer, &why);
        if is_reported {
            self.push(rank, peer, What::Link(LinkEvent::Broken(why)));
        }
        let was_linked = self.was_linked(peer, rank);
        let other = self.end_mut(peer, rank);
        if was_up && other.is_up() && was_linked && rank != peer {
            other.ended.get_or_insert(Fault::Lost("the peer has ended the link".into()));
        }
    }

    /// A process dies. Its memory goes with it, and what others may still read of it is copied before.
    pub(super) fn kill(&mut self, rank: usize, lingers: bool) {
        self.reach(Situation::Died);
        let is_under_way =
            self.operations.values().any(|one| one.by.0 == rank || one.with.0 == rank);
        if is_under_way {
            self.reach(Situation::DiedMidTransfer);
        }
        let fault = match self.settings.names_death {
            true => Fault::Died,
            false => lost_link(),
        };
        let of = Incarnation(self.processes[rank].incarnation);
        self.end_process(rank, State::Dead, Life::Dead(of), &fault);
        let regions = &mut self.processes[rank].regions;
        match lingers {
            true => regions.values_mut().for_each(|region| region.span = region.span.copied()),
            false => regions.clear(),
        }
    }

    /// A process closes in good order.
    pub(super) fn close(&mut self, rank: usize) {
        self.reach(Situation::Closed);
        self.say(|| format!("close {rank}"));
        if (0..self.count()).any(|to| to != rank && !self.channel(rank, to).flight.is_empty()) {
            self.reach(Situation::ClosedWithMessages);
        }
        self.end_process(rank, State::Closed, Life::Finished, &Fault::Closed);
        self.processes[rank].regions.clear();
    }

    fn end_process(&mut self, rank: usize, state: State, life: Life, fault: &Fault) {
        self.processes[rank].state = state;
        for to in 0..self.count() {
            self.copy_sources((rank, to), |_| true);
            self.cut_rest((to, rank));
            if !self.has(Mutant::OldIncarnation) {
                self.cut_channel((to, rank));
            }
            if self.settings.holds || to == rank {
                self.cut_channel((rank, to));
            }
        }
        self.orphan_operations(rank);
        self.sends.retain(|_, send| send.from != rank);
        let process = &mut self.processes[rank];
        process.ready.clear();
        process.verdicts = Verdicts::default();
        self.lives[rank].push(life);
        for peer in (0..self.count()).filter(|&peer| peer != rank) {
            let (is_alive, was_linked) = (self.lives(peer), self.was_linked(peer, rank));
            let end = self.end_mut(peer, rank);
            if is_alive && end.is_up() && !was_linked {
                // There is nothing whose end it could see.
                (end.link, end.is_reported) = (Link::Unasked, false);
            } else if is_alive && end.is_up() {
                // A process that closes takes a link along that had broken before.
                end.ended.get_or_insert(fault.clone());
            }
        }
    }

    /// A dead process is started again. It knows what became of the others.
    pub(super) fn restart(&mut self, rank: usize) {
        if self.broken != Some(Broken::FinalizingKept) {
            self.take_finalizing_back();
        }
        // Its roster has the present state of each: those whose programs are over, too.
        let is_over = |lives: &Vec<Life>| matches!(lives.last(), Some(Life::Finalizing(_)));
        let of = |lives: &Vec<Life>| lives.len() - usize::from(is_over(lives));
        let heard: Vec<usize> = self.lives.iter().map(of).collect();
        let process = &mut self.processes[rank];
        process.incarnation += 1;
        process.state = State::Lives;
        process.regions.clear();
        process.heard = heard;
        let incarnation = Incarnation(process.incarnation);
        self.lives[rank].push(Life::Restarted(incarnation));
        self.processes[rank].heard[rank] += 1;
        for peer in 0..self.count() {
            let is_far = self.are_far(rank, peer);
            let present = self.processes[peer].incarnation;
            let end = self.end_mut(rank, peer);
            (end.cut, end.ended, end.asked) = (None, None, None);
            end.incarnation = if is_far { present } else { 0 };
            end.was_used = false;
            end.is_reported = peer == rank;
            end.link = match peer == rank {
                true => Link::Up,
                false if is_far => Link::Unasked,
                false => Link::Down(Fault::Lost("not connected yet".into())),
            };
        }
        self.end_mut(rank, rank).incarnation = incarnation.0;
    }

    /// The rosters show nobody as finalizing any more: each rank says so again that knows of the restart (*neighbours-only*).
    fn take_finalizing_back(&mut self) {
        for of in 0..self.count() {
            if let Some(Life::Finalizing(_)) = self.lives[of].last() {
                self.lives[of].pop();
                let count = self.lives[of].len();
                for process in &mut self.processes {
                    process.heard[of] = process.heard[of].min(count);
                }
            }
        }
    }

    /// Whether a process has heard of all restarts.
    pub(super) fn knows_all_restarts(&self, rank: usize) -> bool {
        let Process { heard, verdicts, .. } = &self.processes[rank];
        let mut unheard = heard.iter().zip(&self.lives).flat_map(|(&heard, lives)| &lives[heard..]);
        !verdicts.hide_a_restart() && !unheard.any(|life| matches!(life, Life::Restarted(_)))
    }

    /// A process hears of the life of another.
    pub(super) fn verdict(&mut self, to: usize, of: usize, newest: bool) {
        let (heard, count) = (self.processes[to].heard[of], self.lives[of].len());
        if newest && heard + 1 < count {
            self.reach(Situation::VerdictSkipped);
        }
        let place = if newest { count - 1 } else { heard };
        let life = self.lives[of][place];
        if matches!(life, Life::Dead(_)) {
            let end = self.end(to, of);
            if end.is_up() && end.ended.is_some() {
                self.reach(Situation::VerdictFirst);
            } else if end.is_up() {
                self.reach(Situation::VerdictLate);
            }
        }
        self.processes[to].heard[of] = place + 1;
        let skipped = &self.lives[of][heard..place];
        let restarted = skipped.iter().rfind(|life| matches!(life, Life::Restarted(_)));
        // A roster says of which incarnation it is.
        let restarted = restarted.filter(|_| matches!(life, Life::Finalizing(_))).copied();
        for life in restarted.into_iter().chain([life]) {
            self.processes[to].verdicts.push((PeerId(of as u32), life));
        }
    }
}
