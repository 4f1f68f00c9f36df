//! The state that a poll works on.

use super::deferred::DeferredActions;
use crate::Rank;
use crate::clock::Clock;
use crate::flow::{FlowControl, UnreceivedLimits};
use crate::frame::Rts;
use crate::immediate::Immediate;
use crate::peer::Peer;
use crate::request::{ANY, Requests, Stage};
use crate::unexpected::{KeptMessage, UnexpectedBuffers, block_bytes};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::time::Instant;
use taffrail_fabric::{ByLink, Head, Membership, Token};
use taffrail_logging::Numbers;
use taffrail_logging::mutant;
use taffrail_matching::Matcher;

/// A message that arrived before its receive was posted. There may be millions, most of them short ones: what is longer than those need
/// is in a box.
pub enum Unexpected {
    /// Its bytes are in the store, or on their way there; `sync` names the send to acknowledge.
    Stored {
        /// Where in the store.
        entry: u32,
        /// The send that waits to hear of a receive.
        sync: Option<u64>,
    },
    /// Its bytes are in a receive buffer of the fabric.
    Kept(Box<KeptMessage>),
    /// Its RTS is here, its bytes are still its sender's.
    Rts(Box<Rts>),
    /// It is a loan.
    Loan(Box<crate::loan::Offer>),
}

/// Memory of a message in the matcher, in bytes.
pub(crate) const MESSAGE: usize = Matcher::<u32, Unexpected>::WAITING_BYTES;

impl Unexpected {
    /// Memory that it takes until it is received, in bytes, beside the buffer that has its own.
    pub(crate) fn memory(&self) -> usize {
        MESSAGE
            + match self {
                Unexpected::Stored { .. } => 0,
                Unexpected::Kept(kept) => block_bytes(size_of_val(&**kept)),
                Unexpected::Rts(rts) => block_bytes(size_of_val(&**rts)),
                Unexpected::Loan(offer) => block_bytes(size_of_val(&**offer)),
            }
    }

    /// The name of the send that waits for this to be received, if one does.
    pub(crate) fn waiting_send(&self) -> Option<u64> {
        match self {
            Unexpected::Stored { sync, .. } => *sync,
            Unexpected::Rts(rts) => Some(rts.name),
            Unexpected::Kept(_) | Unexpected::Loan(_) => None,
        }
    }
}

/// An active message whose handler is to be called.
pub struct Active {
    pub(crate) from: Rank,
    pub(crate) handler: u16,
    pub(crate) header: u64,
    /// Its payload, in the store.
    pub(crate) entry: u32,
}

/// Tokens of rests: this bit, which no index of a request has, and the peer.
pub(super) const REST: u64 = 1 << 31;

/// Whether a token is that of a rest.
#[inline]
pub(super) fn is_rest(token: Token) -> bool {
    token.0 & REST != 0
}

/// The rests that are under way, by their peers. The memory stays until the fabric has reported the end.
#[derive(Default)]
pub(super) struct Rests(FxHashMap<u32, Awaited>);

/// A rest, and whether the link has ended that it comes over: then it is no part of any message.
struct Awaited {
    rest: Rest,
    is_of_former_link: bool,
}

impl Rests {
    pub(super) fn insert(&mut self, from: u32, rest: Rest) {
        let before = self.0.insert(from, Awaited { rest, is_of_former_link: false });
        debug_assert!(before.is_none(), "a second rest of peer {from} before the first is here");
    }

    /// Takes out the rest of a peer, and says whether it is that of a former link.
    pub(super) fn remove(&mut self, from: u32) -> Option<(Rest, bool)> {
        self.0.remove(&from).map(|awaited| (awaited.rest, awaited.is_of_former_link))
    }

    /// The link with a peer has ended.
    pub(super) fn link_ended(&mut self, from: u32) {
        if let Some(awaited) = self.0.get_mut(&from) {
            awaited.is_of_former_link = !mutant!(FormerRestBelieved);
        }
    }

    /// Whether the fabric writes the memory of this operation, which receives from that peer.
    pub(super) fn writes(&self, from: u32, request: u32) -> bool {
        self.0.get(&from).is_some_and(|awaited| awaited.rest.request() == Some(request))
    }
}

/// Where the rest of a message goes, and what becomes of it then.
pub(super) enum Rest {
    /// Behind what was here of it: it is taken in when it is whole.
    Whole { head: Head, bytes: Vec<u8> },
    /// To a buffer: the beginning was taken in, and this is as another fragment of it.
    Buffered { of: Of, bytes: Vec<u8> },
    /// To the memory of the receive.
    Direct { of: Of, len: usize, request: u32 },
}

impl Rest {
    /// The operation whose memory the fabric writes.
    pub(super) fn request(&self) -> Option<u32> {
        match *self {
            Rest::Direct { request, .. } => Some(request),
            Rest::Whole { .. } | Rest::Buffered { .. } => None,
        }
    }
}

/// What bytes are part of.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The eager message of their peer that began.
    Eager,
    /// What the operation `to` waits for, from `offset` on.
    RndvData { to: u64, offset: u64 },
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
    pub(crate) flow: FlowControl,
    pub(super) rests: Rests,
    pub(crate) deferred: DeferredActions,
    /// Active messages whose handlers are to run.
    pub active: VecDeque<Active>,
    /// How contexts carry immediate data.
    pub(crate) immediate: Immediate,
    /// What message logging decides.
    pub policy: P,
    pub(crate) clock: Clock,
    /// The numbers of all messages.
    pub(crate) numbers: Numbers,
    /// Who lives.
    pub(crate) membership: Box<dyn Membership>,
    /// Peers that are gone, where their numbers are given to others.
    pub departures: Departures,
    /// The rank that fell silent last.
    pub(crate) last_finished: Option<Rank>,
    /// Receives from any source wait also when all peers are gone, since others may come.
    pub(crate) accepts_new_peers: bool,
    /// Since when this rank receives only what its posted receives match ([`crate::finalize`]).
    pub(crate) finalizing: Option<Instant>,
}

/// The ranks that have departed, and the request that reports them.
#[derive(Default)]
pub struct Departures {
    /// Somebody has asked for them once.
    is_watched: bool,
    /// The request that ends with the next.
    pub(crate) watch: Option<u32>,
    /// Peers that are gone and were not reported yet: their messages are still here, or no request watches.
    pub(crate) unreported: Vec<Rank>,
}

impl Departures {
    /// Starts a request that ends when nothing of a peer is here any more; its status has the rank.
    pub fn watch(&mut self, requests: &mut Requests) -> u32 {
        let request = requests.start(Stage::Watching, ANY, std::ptr::null_mut(), 0);
        self.is_watched = true;
        self.watch = Some(request);
        request
    }

    /// A peer is gone.
    #[cold]
    pub(crate) fn gone(&mut self, rank: Rank) {
        if self.is_watched {
            self.unreported.push(rank);
        }
    }
}

impl Active {
    /// The memory that it takes, in bytes, beside its payload: of the queue up to half is not in use.
    pub(crate) const MEMORY: usize = 2 * size_of::<Active>();
}

impl<P> Core<P> {
    pub(crate) fn new(policy: P, size: u32, limits: UnreceivedLimits, clock: Clock) -> Self {
        Core {
            matcher: Matcher::new(),
            requests: Requests::default(),
            peers: (0..size).map(|_| Peer::default()).collect(),
            unexpected: UnexpectedBuffers::default(),
            flow: FlowControl::new(limits),
            rests: Rests::default(),
            deferred: DeferredActions::default(),
            active: VecDeque::new(),
            immediate: Immediate::default(),
            policy,
            clock,
            numbers: Numbers::new(size),
            membership: Box::new(ByLink),
            departures: Departures::default(),
            last_finished: None,
            accepts_new_peers: false,
            finalizing: None,
        }
    }
}
