//! Links, deaths and verdicts.

use super::Mutant;
use super::coverage::Situation;
use super::messages::lost_link;
use super::roster::Verdicts;
use super::state::{Link, Net, State, What};
use taffrail_fabric::{Fault, Incarnation, Life, LinkEvent, PeerId};

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
            (end.link, end.ended) = (Link::Coming, None);
            let up = || What::Link(LinkEvent::Up(Incarnation(incarnation)));
            self.push(rank, peer, up());
            if self.has(Mutant::UpTwice) {
                self.push(rank, peer, up());
            }
        }
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
        (end.cut, end.ended, end.was_used) = (Some(of), None, true);
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
        let other = self.end_mut(peer, rank);
        if was_up && other.is_up() && rank != peer {
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
            let is_alive = self.lives(peer);
            let end = self.end_mut(peer, rank);
            if is_alive && end.is_up() {
                // A process that closes takes a link along that had broken before.
                end.ended.get_or_insert(fault.clone());
            }
        }
    }

    /// A dead process is started again. It knows what became of the others.
    pub(super) fn restart(&mut self, rank: usize) {
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
            let end = self.end_mut(rank, peer);
            (end.cut, end.ended, end.incarnation) = (None, None, 0);
            end.was_used = false;
            end.is_reported = peer == rank;
            end.link = match peer == rank {
                true => Link::Up,
                false => Link::Down(Fault::Lost("not connected yet".into())),
            };
        }
        self.end_mut(rank, rank).incarnation = incarnation.0;
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
