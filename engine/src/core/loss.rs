//! What ends with a peer that is gone, or says nothing any more.

use super::{Core, Deferred, Unexpected};
use crate::peer::{Destination, PartialMessage};
use crate::policy::protocol::Recovery;
use crate::policy::{OnLoss, Policy, by_policy};
use crate::request::{Slot, Stage};
use crate::{Error, Rank};
use taffrail_fabric::{Fault, Token};
use taffrail_logging::mutant;

impl<P: Policy> Core<P> {
    /// The link with a peer has ended.
    pub(crate) fn peer_lost(&mut self, rank: u32, why: Fault) {
        if matches!(why, Fault::Protocol { .. }) {
            return self.protocol_error(rank, why);
        }
        match self.policy.on_loss(rank, &why) {
            // It waits already: its link had been lost before it died.
            OnLoss::Suspend if self.peers[rank as usize].is_away() => {}
            OnLoss::Suspend => self.peer_suspended(rank),
            OnLoss::Fail => self.peer_failed(rank, why),
        }
    }

    /// Ends everything that needs a peer which is gone.
    pub(crate) fn peer_failed(&mut self, rank: u32, fault: Fault) {
        if self.peers[rank as usize].fault.is_some() {
            return;
        }
        let error = Error::PeerFailed { rank, fault: fault.clone() };
        for request in self.matcher.fail(rank) {
            self.fail(request, error.clone());
        }
        let peer = &mut self.peers[rank as usize];
        peer.fault = Some(Box::new(fault));
        peer.is_finished = true;
        self.last_finished = Some(rank);
        peer.drop_backlog();
        self.flow.link_ended(rank, &mut peer.unreceived);
        if let Some(PartialMessage { destination: Destination::Buffer(entry), .. }) =
            peer.partial.take()
        {
            self.discard(rank, entry);
        }
        if mutant!(WholeMessageDropped)
            && matches!(error, Error::PeerFailed { fault: Fault::Died, .. })
        {
            let ids: Vec<_> = self.matcher.unexpected_from(rank).map(|(id, ..)| id).collect();
            ids.into_iter().for_each(|id| _ = self.matcher.take_message(id));
        }
        let theirs = |slot: &Slot| slot.peer == rank && slot.stage != Stage::Posted;
        let under_way: Vec<u32> =
            self.requests.under_way().filter(|(_, s)| theirs(s)).map(|(i, _)| i).collect();
        for request in under_way {
            // An operation whose memory the fabric still reads or writes ends when the fabric reports that it does not;
            // one that has not begun to read has an action that finds out.
            let slot = self.requests.get(request);
            let stays = mutant!(RtsAwaitsDead) && slot.stage == Stage::RtsSent;
            if (!slot.is_lent() || mutant!(EndsWhileLent))
                && !self.rests.writes(rank, request)
                && !matches!(slot.stage, Stage::Reading | Stage::OneSided)
                && !stays
            {
                self.fail(request, error.clone());
            }
        }
        self.deferred.push(Deferred::Failed { rank });
    }

    /// The fabric does not read a fragment of a send any more. With the last one the send ends.
    pub(crate) fn fragment_returned(&mut self, Token(name): Token, result: Result<(), Fault>) {
        let index = name as u32;
        let Some(slot) = self.requests.find(index) else { return };
        let is_send = matches!(slot.stage, Stage::Streaming | Stage::RtsSent);
        if slot.generation != (name >> 32) as u32 || !is_send {
            return;
        }
        let peer = slot.peer;
        let Some(extra) = slot.extra.as_mut().filter(|extra| extra.lent > 0) else { return };
        if !extra.piece_returned(result) {
            return;
        }
        let detached = extra.detached;
        if extra.ends_when_returned && !extra.is_lost {
            return self.requests.sent(index);
        }
        // While the link has not failed, its end is reported next, and fails the send.
        if self.peers[peer as usize].fault.is_some() {
            let error = self.finished_error(peer);
            self.fail(index, error);
            if detached {
                let _ = self.requests.finish(index);
            }
        }
    }

    /// Drops a message in the store whose rest will never come.
    fn discard(&mut self, rank: u32, entry: u32) {
        let this = |found: &Unexpected| matches!(found, Unexpected::Stored { entry: e, .. } if *e == entry);
        let waiting = self.matcher.unexpected_from(rank).chain(self.matcher.claimed());
        let id = waiting.filter(|(.., found)| this(found)).map(|(id, ..)| id).next();
        if let Some((env, found)) = id.and_then(|id| self.matcher.take_message(id)) {
            let memory = found.memory() + self.unexpected.memory(entry);
            self.unexpected.release(entry);
            self.shrink_unreceived(rank, env.len as usize, memory);
        }
    }

    /// Whether every rank but `me` sends nothing any more.
    pub(crate) fn all_finished(&self, me: Rank) -> bool {
        (0..).zip(&self.peers).all(|(rank, peer)| rank == me || peer.is_finished)
    }

    /// The error of what waits for a rank that is gone, or whose program is over.
    pub(crate) fn finished_error(&self, rank: Rank) -> Error {
        let fault = self.peers[rank as usize].fault().cloned();
        Error::PeerFailed { rank, fault: fault.unwrap_or(Fault::Closed) }
    }

    /// Takes a receive out of the queue.
    pub(crate) fn cancel_post(&mut self, request: u32) {
        if let Some(post) = self.requests.get(request).post.take() {
            self.matcher.cancel(post);
        }
    }

    /// A peer has broken the protocol: nothing of it is believed any more.
    #[cold]
    pub(crate) fn protocol_error(&mut self, rank: u32, fault: Fault) {
        if self.peers[rank as usize].fault.is_none() {
            tracing::warn!(rank, %fault, "cut off");
            by_policy!(self.policy, protocol_broken(self, rank, fault));
        }
    }
}
