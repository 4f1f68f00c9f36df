//! What arrives, and what becomes of it: the state that a fabric's poll works on.
//!
//! Here a message is matched as it comes off the fabric, before its payload is touched. Whatever
//! needs the fabric again (an answer, a read of the sender's memory) becomes an [`Deferred`], done
//! after the poll.

mod arrivals;
mod delivery;
mod loss;
mod rest;

pub(crate) use delivery::put;

use super::departures::Departures;
use super::frame::{Frame, MsgHead};
use super::immediate::Immediate;
use super::peer::Peer;
use super::policy::Policy;
use super::policy::rx::RxPolicy;
use super::request::Requests;
use super::unexpected::UnexpectedBuffers;
use crate::Rank;
use crate::clock::Clock;
use std::collections::VecDeque;
use std::time::Instant;
use taffrail_fabric::{
    ByLink, Fault, Head, Life, LinkEvent, Membership, Payload, PeerId, RemoteKey, Token,
};
use taffrail_logging::{Expected, Restart, mutant};
use taffrail_matching::{Envelope, Matcher};

/// A message that arrived before its receive was posted.
pub enum Unexpected {
    /// Its bytes are in the store, or on their way there; `sync` names the send to acknowledge.
    Stored {
        /// Where in the store.
        entry: u32,
        /// The send that waits to hear of a receive.
        sync: Option<u64>,
    },
    /// It was announced.
    Announced(Rts),
    /// It is a loan.
    Loan(super::loan::Offer),
}

impl Unexpected {
    /// The name of the send that waits for this to be received, if one does.
    pub(crate) fn waiting_send(&self) -> Option<u64> {
        match self {
            Unexpected::Stored { sync, .. } => *sync,
            Unexpected::Announced(rts) => Some(rts.name),
            Unexpected::Loan(_) => None,
        }
    }
}

/// What an RTS says beside the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// The send, as its owner names it.
    pub(crate) name: u64,
    /// Where its memory is, if it can be read.
    pub(crate) key: Option<RemoteKey>,
}

/// Something to be done after the poll.
pub(crate) enum Deferred {
    /// Send a frame without a body.
    Answer { to: Rank, frame: Frame },
    /// Begin to move an announced message that `request` has matched.
    Fetch { request: u32, from: Rank, rts: Rts },
    /// Begin to send the pieces of an announced message.
    Stream { request: u32, want: usize, to: u64, non_temporal: bool },
    /// Take a loan that `request` has matched.
    Borrow { request: u32, from: Rank, offer: super::loan::Offer },
    /// A read by the fabric ended.
    Read { token: Token, result: Result<(), Fault> },
    /// Answer a peer's get or put that the fabric cannot do.
    OneSided { from: Rank, frame: Frame, body: Vec<u8> },
    /// A view or a loaned buffer comes back.
    Returned { loan: u64, from: Rank },
    /// A peer is gone.
    Failed { rank: Rank },
    /// A peer that had died is there again.
    Connected { rank: Rank },
    /// A multi-receive of a replay has got a message.
    Advance { request: u32 },
    /// A peer says what it has of us.
    PeerState { from: Rank, restart: Restart },
}

/// An active message whose handler is to be called.
pub struct Active {
    pub(crate) from: Rank,
    pub(crate) handler: u16,
    pub(crate) header: u64,
    /// Its payload, in the store.
    pub(crate) entry: u32,
}

/// The state that a poll works on.
pub struct Core<P> {
    /// Posted receives and unexpected messages.
    pub matcher: Matcher<u32, Unexpected>,
    /// Operations under way, or over and not finished.
    pub requests: Requests,
    /// What the engine holds of each peer.
    pub peers: Vec<Peer>,
    pub(crate) unexpected: UnexpectedBuffers,
    rests: rest::Rests,
    pub(crate) deferred: VecDeque<Deferred>,
    /// Actions that there was no room for.
    pub(crate) retry_deferred: VecDeque<Deferred>,
    /// Active messages whose handlers are to run.
    pub active: VecDeque<Active>,
    /// How contexts carry immediate data.
    pub(crate) immediate: Immediate,
    /// What message logging decides.
    pub policy: P,
    pub(crate) clock: Clock,
    /// The next number of each channel that messages arrive in, unless the log has it.
    pub(crate) expected: Expected,
    /// Who lives, by what the links say.
    membership: ByLink,
    /// Peers that are gone, where their numbers are given to others.
    pub departures: Departures,
    /// The rank that fell silent last.
    pub(crate) last_finished: Option<Rank>,
    /// Receives from any source wait also when all peers are gone, since others may come.
    pub(crate) expects_newcomers: bool,
    /// Since when this rank receives only what its posted receives match ([`super::finalize`]).
    pub(crate) finalizing: Option<Instant>,
    /// Unexpected bytes of one peer above which it is told to announce.
    pub(crate) unexpected_limit: usize,
    /// Bytes that what a peer has sent, and nobody has received, may take of our memory.
    buffered_bytes_max: usize,
    /// This rank was started again, and more was sent to it than it needs now.
    pub(crate) resend_backlog_high: bool,
}

/// What a message that waits costs beside its bytes.
pub(crate) const MESSAGE_OVERHEAD: usize = 128;
/// A peer may go on for so long after it was told to announce: more than rings and outboxes hold.
const GRACE: usize = 64 << 20;
/// Answers to a peer that it does not take, at most.
pub(crate) const MOST_ANSWERS: usize = 1 << 18;

impl<P: Policy> Core<P> {
    pub(crate) fn new(policy: P, size: u32, unexpected_limit: usize, clock: Clock) -> Self {
        Core {
            matcher: Matcher::new(),
            requests: Requests::default(),
            peers: (0..size).map(|_| Peer::default()).collect(),
            unexpected: UnexpectedBuffers::default(),
            rests: rest::Rests::default(),
            deferred: VecDeque::new(),
            retry_deferred: VecDeque::new(),
            active: VecDeque::new(),
            immediate: Immediate::default(),
            policy,
            clock,
            expected: Expected::new(size),
            membership: ByLink,
            departures: Departures::default(),
            last_finished: None,
            expects_newcomers: false,
            finalizing: None,
            unexpected_limit,
            resend_backlog_high: false,
            buffered_bytes_max: unexpected_limit.saturating_mul(4).saturating_add(GRACE),
        }
    }

    /// Everything that is not a plain message.
    #[inline(always)]
    pub(crate) fn other(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        if self.peers[from as usize].fault.is_some() {
            // What a peer says that was cut off a moment ago.
            return Ok(());
        }
        if !self.policy.takes_kind(head.kind) {
            return Err(broken("kind", "none of 16..=18, since nothing is logged", head.kind));
        }
        let (frame, skip) = Frame::decode(head, payload)?;
        match frame {
            Frame::EagerSync { msg, name } => {
                self.eager_behind(from, msg, payload, (None, Some(name)))
            }
            Frame::EagerData { msg, data } => {
                self.eager_behind(from, msg, payload, (Some(data), None))
            }
            Frame::EagerFirst { msg, len } => self.first(from, msg, len, payload),
            Frame::EagerFrag { context, seq, offset } => {
                self.fragment(from, (context, seq), offset, payload)
            }
            Frame::Rts { msg, data, len, rts } => self.rts(from, msg, (len, data), rts),
            Frame::Loan { msg, len, offer } => self.loan(from, msg, len, offer),
            Frame::RndvData { to, offset } => self.rndv_data(from, to, offset, payload),
            Frame::Cts { name, non_temporal, len, to } => {
                self.cts(from, name, (len, to), non_temporal)
            }
            Frame::Ack { name } => {
                self.finished(from, name, None);
                Ok(())
            }
            Frame::NakKey { name, why } => {
                self.finished(from, name, Some(why.fault()));
                Ok(())
            }
            Frame::Active { handler, header } => self.active(from, handler, header, payload),
            Frame::LoanReturn { loan } => {
                self.deferred.push_back(Deferred::Returned { loan, from });
                Ok(())
            }
            Frame::GetReq { .. } | Frame::PutReq { .. } | Frame::Atomic { .. } => {
                let body = payload.to_vec().split_off(skip);
                self.deferred.push_back(Deferred::OneSided { from, frame, body });
                Ok(())
            }
            Frame::Throttle { on } => {
                self.peers[from as usize].force_rendezvous(on);
                Ok(())
            }
            Frame::Restart => self.restart(from, payload),
            Frame::Finalize => {
                self.farewell(from);
                Ok(())
            }
            Frame::Determinants => self.determinants(from, payload),
            Frame::FinalizeNak { name } => {
                self.unreceived(from, name);
                Ok(())
            }
        }
    }

    /// An active message, whose handler is to be called.
    fn active(
        &mut self,
        from: u32,
        handler: u16,
        header: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let entry = self.unexpected.put(payload, 0, payload.len());
        self.active.push_back(Active { from, handler, header, entry });
        self.peers[from as usize].buffered_bytes += payload.len() + MESSAGE_OVERHEAD;
        self.check_buffer_limit(from)
    }

    pub(crate) fn envelope(&self, from: u32, msg: MsgHead, len: u64) -> Envelope {
        Envelope {
            source: from,
            context: self.immediate.context(msg.context),
            tag: msg.tag,
            seq: msg.seq,
            len,
            ident: 0,
            data: self.immediate.data(msg.context),
        }
    }
}

impl<P: Policy> Core<P> {
    pub(crate) fn rendezvous_done<R: RxPolicy<P>>(
        &mut self,
        token: Token,
        result: Result<(), Fault>,
    ) {
        if rest::is_rest(token) {
            return self.end_message::<R>(token, result);
        }
        self.deferred.push_back(Deferred::Read { token, result });
    }

    pub(crate) fn link<R: RxPolicy<P>>(&mut self, peer: PeerId, event: LinkEvent) {
        let life = self.membership.link(peer, &event);
        match (life, event) {
            (Some(Life::Dead), _) if R::SUSPENDS => self.peer_suspended(peer.0),
            (Some(Life::Restarted(incarnation)), _) => self.peer_restarted(peer.0, incarnation.0),
            (_, LinkEvent::Broken(_)) if R::SUSPENDS && mutant!(LinkTakenForVerdict) => {
                self.peer_suspended(peer.0);
            }
            (_, LinkEvent::Broken(why)) => self.link_broken(peer.0, why),
            (_, LinkEvent::Closed) => self.peer_failed(peer.0, Fault::Closed),
            (_, LinkEvent::Up(_)) => {}
        }
    }
}

/// The fault of a peer that asks without reading the answers.
#[cold]
pub(crate) fn answers_not_taken() -> Fault {
    broken("answers not taken", format!("at most {MOST_ANSWERS}"), MOST_ANSWERS + 1)
}

pub(crate) fn broken(place: &'static str, expected: impl ToString, got: impl ToString) -> Fault {
    Fault::Protocol { place, expected: expected.to_string(), got: got.to_string() }
}
