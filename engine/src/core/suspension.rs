//! Peers that die and are restarted: what is under way with them waits (*whole-message*).

use super::{Core, Deferred, Unexpected};
use crate::frame::Throttle;
use crate::peer::Destination;
use crate::policy::protocol::Recovery;
use crate::policy::{Policy, by_policy};
use crate::recv_record::name;
use crate::request::Stage;
use crate::{Error, Rank};
use taffrail_fabric::Fault;
use taffrail_logging::{MsgId, mutant};

impl<P: Policy> Core<P> {
    /// A peer has died and will be restarted: messages under way to it and from it wait for that (*whole-message*).
    pub(crate) fn peer_suspended(&mut self, rank: Rank) {
        tracing::debug!(rank, "died; waiting for its next incarnation");
        let peer = &mut self.peers[rank as usize];
        peer.set_away(true);
        self.rests.link_ended(rank);
        // If it had finalised: its next incarnation has not.
        peer.is_finished &= mutant!(SilenceKept);
        if !mutant!(BacklogKept) {
            peer.drop_backlog();
        }
        // What either has said of the messages that it takes was said to the other's incarnation of before.
        peer.obey(Throttle::Off);
        self.flow.link_ended(rank, &mut peer.unreceived);
        peer.stop_timing();
        let mut lacking: Vec<(MsgId, Destination)> = Vec::new();
        if let Some(partial) = peer.partial.take()
            && !matches!(partial.destination, Destination::Nowhere)
            && !mutant!(InflowForgotten)
        {
            lacking.push((Self::partial_name(rank, &partial), partial.destination));
        }
        let mut detached = Vec::new();
        let under_way: Vec<u32> = self.requests.under_way().map(|(index, _)| index).collect();
        for index in under_way {
            let slot = self.requests.get(index);
            if slot.peer != rank {
                continue;
            }
            match slot.stage {
                Stage::Reading | Stage::CtsSent => {
                    (slot.stage, slot.moved) = (Stage::CtsSent, 0);
                    if let Some(extra) = &mut slot.extra {
                        extra.source = None;
                        extra.link_ended();
                    }
                    if let Some(name) = slot.record.name(rank) {
                        lacking.push((name, Destination::Request(index)));
                    }
                }
                Stage::RtsSent | Stage::Streaming => {
                    // The message is in the log, and is sent again with the name of this request if it is synchronous.
                    if !mutant!(SendNotBegunAgain) {
                        (slot.stage, slot.moved) = (Stage::RtsSent, 0);
                    }
                    if let Some(extra) = &mut slot.extra {
                        extra.link_ended();
                    }
                    if slot.extra.as_ref().is_some_and(|extra| extra.detached) {
                        detached.push(index);
                    }
                }
                _ => {}
            }
        }
        lacking.extend(self.forget_names(rank));
        if mutant!(PartialForgotten) {
            lacking.clear();
        }
        by_policy!(self.policy, suspended(self, rank, lacking));
        self.deferred.drop_of(&mut self.requests, rank);
        for index in detached {
            self.requests.fail(index, Error::PeerFailed { rank, fault: Fault::Died });
            let _ = self.requests.finish(index);
        }
    }

    /// Forgets the names that a dead peer gave its sends. Returns the messages of it that were announced and are still
    /// unexpected.
    fn forget_names(&mut self, rank: Rank) -> Vec<(MsgId, Destination)> {
        let mut lacking = Vec::new();
        let mut synchronous = Vec::new();
        let waiting = self.matcher.unexpected_from(rank).chain(self.matcher.claimed());
        for (id, envelope, found) in waiting.filter(|(_, envelope, _)| envelope.source == rank) {
            match found {
                Unexpected::Rts(_) if !mutant!(AnnouncementOfDeadKept) => {
                    lacking.push((name(envelope), Destination::Waiting(id)));
                }
                Unexpected::Stored { sync: Some(_), .. } if !mutant!(StaleNamesKept) => {
                    synchronous.push(id);
                }
                _ => {}
            }
        }
        // The next incarnation gives new names: an ACK of an old name might be taken for that of another send.
        for id in synchronous {
            if let Some((_, Unexpected::Stored { sync, .. })) = self.matcher.message_mut(id) {
                *sync = None;
            }
        }
        lacking
    }

    /// A peer has connected: a new incarnation, or the same one after its link was lost.
    pub(crate) fn peer_restarted(&mut self, rank: Rank, incarnation: u32) {
        if by_policy!(self.policy, resumes(self, rank, incarnation)) {
            self.peers[rank as usize].set_away(false);
            self.deferred.push(Deferred::Connected { rank });
        }
    }

    /// FINALIZE has come: all messages that the peer sent are here (*nothing-after-farewell*), and receives that wait for
    /// another one fail.
    pub(crate) fn finalize_received(&mut self, from: u32) {
        if self.peers[from as usize].is_finished {
            return;
        }
        self.peers[from as usize].is_finished = true;
        self.last_finished = Some(from);
        let error = self.finished_error(from);
        for request in self.matcher.fail(from) {
            self.fail(request, error.clone());
        }
    }
}
