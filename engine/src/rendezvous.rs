//! How an announced message is moved: read out of its sender's memory, or sent in fragments.
//!
//! The receiver decides, by cost; what the fabric denies, or fails at, goes in fragments.

use super::core::Deferred;
use super::frame::{Frame, Rts};
use super::peer::Timed;
use super::rendezvous_path::{RNDV_PATHS, RndvPath, RndvPaths};
use super::request::Stage;
use super::tx::Tx;
use crate::Engine;
use crate::policy::{OnLoss, Policy};
use crate::{Error, Rank};
use taffrail_fabric::{
    Cost, Denied, Fabric, Fault, PeerId, Reach, Refused, SendMemory, Token, UserBuf,
};
use taffrail_logging::mutant;

impl<F: Fabric + SendMemory, P: Policy> Tx<'_, F, P> {
    /// Begins to move the message that `request` has matched.
    pub(crate) fn start_rendezvous(&mut self, request: u32, from: Rank, rts: Rts) {
        let slot = self.core.requests.get(request);
        if slot.stage != Stage::Reading {
            // Its sender has died meanwhile, and sends it again.
            return;
        }
        if slot.is_lent() {
            // A get over a former link may still write: it ends first.
            self.core.deferred.retry(Deferred::Fetch { request, from, rts });
            return;
        }
        let want = slot.status.len.min(slot.len);
        if let Some(fault) = self.core.peers[from as usize].fault().cloned() {
            return self.core.fail(request, Error::PeerFailed { rank: from, fault });
        }
        if want == 0 {
            self.core.deferred.acknowledge(from, rts.name);
            return self.core.complete(request);
        }
        if from == self.fabric.me().0 {
            return self.core.copy_own(request, rts.name, want);
        }
        let scattered = slot.extra.as_ref().is_some_and(|e| !e.parts.is_empty());
        let key = rts.key.filter(|_| !scattered);
        let reach = key.map(|key| self.fabric.reach(PeerId(from), &key));
        let mapped = reach == Some(Reach::Mapped);
        let way = self.choose(from, reach, want);
        let peer = &mut self.core.peers[from as usize];
        let clock = &self.core.clock;
        peer.time(|| Timed { request, len: want, way, mapped, since: clock.now() });
        if let (RndvPath::Get, Some(key)) = (way, key) {
            let token = Token(self.core.requests.get(request).name(request));
            let slot = self.core.requests.get(request);
            slot.extra().source = Some((key, rts.name));
            let at = slot.at;
            // SAFETY: the caller that posted the receive vouches for its memory until the request is
            // finished, and it is finished only when the fabric has reported the end.
            let into = unsafe { UserBuf::new(at, want) };
            match self.fabric.get(PeerId(from), &key, 0, into, token) {
                Ok(()) => {
                    self.core.requests.get(request).extra().lent = 1;
                    return;
                }
                Err(Refused::Busy) => {
                    self.core.deferred.retry(Deferred::Fetch { request, from, rts });
                    return;
                }
                Err(Refused::Failed(fault)) => {
                    if self.core.policy.on_loss(from, &fault) == OnLoss::Fail {
                        self.core.fail(request, Error::PeerFailed { rank: from, fault });
                    }
                    return;
                }
                Err(_) => {}
            }
        }
        self.ask_for_fragments(
            request,
            from,
            rts.name,
            want,
            way == RndvPath::FragmentsNonTemporal,
        );
    }

    /// How to move `len` bytes that are reached so, if they are.
    fn choose(&mut self, from: Rank, reach: Option<Reach>, len: usize) -> RndvPath {
        let read = reach.and_then(|reach| self.fabric.get_cost(PeerId(from), reach).ok());
        let mapped = reach == Some(Reach::Mapped);
        if let Some(way) = self.sizes.way.filter(|&way| way != RndvPath::Get || read.is_some()) {
            return way;
        }
        let expected = costs_of_paths(self.fabric, from, read.ok_or(()), len).map(Result::ok);
        self.core.peers[from as usize].rndv_paths(mapped).choose(len, expected)
    }

    fn ask_for_fragments(
        &mut self,
        request: u32,
        from: Rank,
        name: u64,
        want: usize,
        non_temporal: bool,
    ) {
        let slot = self.core.requests.get(request);
        slot.stage = Stage::CtsSent;
        slot.peer = from;
        slot.moved = 0;
        if let Some(extra) = &mut slot.extra {
            extra.source = None;
        }
        let to = slot.name(request);
        self.post_frame(from, Frame::Cts { name, non_temporal, len: want as u64, to }, &[]);
    }

    /// A read or write by the fabric ended.
    pub(crate) fn rendezvous_done(&mut self, token: Token, result: Result<(), Fault>) {
        let request = token.0 as u32;
        let Some(slot) = self.core.requests.find(request) else { return };
        if slot.generation != (token.0 >> 32) as u32 && !mutant!(FormerTokenBelieved) {
            return;
        }
        let peer = slot.peer;
        let mut source = None;
        if let Some(extra) = &mut slot.extra {
            source = extra.source.take();
            let is_former = extra.is_of_former_link;
            let is_back = extra.lent > 0 && extra.piece_returned(result.clone());
            if is_back && is_former {
                return self.former_get_ended(request, peer);
            }
        }
        let policy = &self.core.policy;
        match (slot.stage, result) {
            (_, Err(fault)) if policy.on_loss(peer, &fault) == OnLoss::Suspend => {}
            (Stage::Reading, Ok(())) => {
                if let Some((_, name)) = source {
                    self.core.deferred.acknowledge(peer, name);
                }
                self.core.complete(request);
            }
            (Stage::OneSided, Ok(())) => self.core.requests.end(request),
            (Stage::Reading, Err(fault)) => {
                let dead = self.core.peers[peer as usize].fault.is_some() || fault == Fault::Died;
                match source {
                    Some((_, name)) if !dead => {
                        tracing::warn!(rank = peer, %fault, "could not read a message; asking for fragments");
                        let slot = self.core.requests.get(request);
                        let want = slot.status.len.min(slot.len);
                        self.ask_for_fragments(request, peer, name, want, false);
                    }
                    _ => self.fail_with_peer(request, peer, fault),
                }
            }
            (Stage::OneSided, Err(fault)) => self.retry_one_sided(request, peer, fault),
            _ => {}
        }
    }

    /// An access to the memory of a peer has failed. That the peer is gone says more than what the fabric has found there.
    #[cold]
    pub(crate) fn fail_with_peer(&mut self, request: u32, rank: Rank, found: Fault) {
        let fault = self.core.peers[rank as usize].fault().cloned().unwrap_or(found);
        self.core.fail(request, Error::PeerFailed { rank, fault });
    }

    /// A get over a link that had ended writes no more: its receive ends if all of its message has come by another way
    /// since, or if none will.
    #[cold]
    fn former_get_ended(&mut self, request: u32, peer: Rank) {
        let slot = self.core.requests.get(request);
        if slot.extra().ends_when_returned {
            self.core.complete(request);
        } else if self.core.peers[peer as usize].fault.is_some() {
            let error = self.core.finished_error(peer);
            self.core.fail(request, error);
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Whether the kernel lets this rank read plain memory of another; the reason if not.
    pub fn reads_memory_of(&self, rank: Rank) -> Result<(), Denied> {
        self.fabric.get_cost(PeerId(rank), Reach::Kernel).map(drop)
    }

    /// The way that the first message of `len` bytes that are reached so takes, and what each way is thought to cost, in
    /// nanoseconds, in the order of [`RNDV_PATHS`]; or why it cannot be taken.
    pub fn first_path(
        &self,
        from: Rank,
        reach: Reach,
        len: usize,
    ) -> (RndvPath, [Result<f64, Denied>; RNDV_PATHS.len()]) {
        let read = self.fabric.get_cost(PeerId(from), reach);
        let costs = costs_of_paths(&self.fabric, from, read, len);
        let forced = self.sizes.way.filter(|&way| costs[way as usize].is_ok());
        let expected = costs.each_ref().map(|cost| cost.as_ref().ok().copied());
        (forced.unwrap_or_else(|| RndvPaths::default().choose(len, expected)), costs)
    }
}

/// What each way is thought to cost for `len` bytes, if reading them costs `read`, in the order of [`RNDV_PATHS`].
fn costs_of_paths<E>(
    fabric: &impl Fabric,
    from: Rank,
    read: Result<Cost, E>,
    len: usize,
) -> [Result<f64, E>; RNDV_PATHS.len()] {
    let fragments = fabric.send_cost(PeerId(from)).of(len);
    let non_temporal = fabric.non_temporal_cost(PeerId(from));
    let streaming = non_temporal.map_or(f64::INFINITY, |cost| cost.of(len));
    [read.map(|cost| cost.of(len)), Ok(fragments), Ok(streaming)]
}
