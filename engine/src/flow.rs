//! Flow control: how much memory messages take that nobody has received, and which peers wait for that reason.

use crate::Rank;
use crate::error::broken;
use crate::frame::Throttle;
use taffrail_fabric::Fault;
use taffrail_logging::mutant;

/// Memory that messages of a peer may take after it was sent [`Throttle::Stop`], or as much again as the limit, if that is more. The
/// peer has first to read what is on the way to it, and sends between its polls: that may be several times what rings, sockets
/// and outboxes hold.
const GRACE: usize = 128 << 20;

/// What the messages of one peer take that nobody has received.
#[derive(Default)]
pub(crate) struct Unreceived {
    /// Their bytes that are here.
    payload: usize,
    /// The memory that they take here, announced ones included.
    pub(crate) memory: usize,
    /// What the peer was sent last.
    pub(crate) throttle: Throttle,
    /// `memory`, when it was sent [`Throttle::Stop`].
    when_stopped: usize,
}

/// How much memory unreceived messages may take.
#[derive(Clone, Copy)]
pub(crate) struct UnreceivedLimits {
    /// This rank, whose messages to itself are not stopped: it is here whose memory they take in any case.
    pub(crate) me: Rank,
    /// How many ranks there are.
    pub(crate) ranks: u32,
    /// Threshold of bytes of one peer that are here, above which it announces long messages.
    pub(crate) announce: usize,
    /// Bytes of memory in all.
    pub(crate) memory: usize,
}

/// The memory that unreceived messages take.
///
/// *Invariant:* `memory` is the sum of that of all peers. A peer is in `stopped` if what it was sent last is
/// [`Throttle::Stop`].
pub(crate) struct FlowControl {
    limits: UnreceivedLimits,
    /// The memory that unreceived messages of all peers take.
    memory: usize,
    /// The peers that were sent [`Throttle::Stop`].
    stopped: Vec<Rank>,
    /// They are looked at again when `memory` is no more than this: what one peer leaves free others may use.
    look_at: usize,
}

impl FlowControl {
    pub(crate) fn new(limits: UnreceivedLimits) -> Self {
        FlowControl { limits, memory: 0, stopped: Vec::new(), look_at: 0 }
    }

    /// Unreceived messages of a peer take more: `payload` bytes that are here, and `memory` bytes of memory.
    #[inline]
    pub(crate) fn grow(&mut self, unreceived: &mut Unreceived, payload: usize, memory: usize) {
        unreceived.payload += payload;
        unreceived.memory += memory;
        self.memory += memory;
    }

    /// As [`grow`](Self::grow), less.
    #[inline]
    pub(crate) fn shrink(&mut self, unreceived: &mut Unreceived, payload: usize, memory: usize) {
        unreceived.payload -= payload;
        unreceived.memory -= memory;
        self.memory -= memory;
    }

    /// The memory that unreceived messages of all peers take.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The memory that unreceived messages of one peer may take now: seven times the memory that is free, so that some stays free
    /// for the others, and at least a small share that every peer has.
    #[inline]
    fn share(&self) -> usize {
        let most = self.limits.memory;
        let own = most / 8 / self.limits.ranks.max(1) as usize;
        let left = (most - most / 8).saturating_sub(self.memory);
        own.max(left.saturating_mul(7))
    }

    /// What a peer is to be sent now, if that is not what it was sent last. It is let go, and need not announce, when less than
    /// half of that is left for which it was stopped, or had to.
    #[inline]
    pub(crate) fn adjust(
        &mut self,
        rank: Rank,
        unreceived: &mut Unreceived,
        may_stop: bool,
    ) -> Option<Throttle> {
        let before = unreceived.throttle;
        let (share, announce) = (self.share(), self.limits.announce);
        let (share, announce) = match before {
            Throttle::Stop => (share / 2, announce / 2),
            Throttle::Announce => (share, announce / 2),
            Throttle::Off => (share, announce),
        };
        let is_kept = before == Throttle::Stop && mutant!(StopNotLifted);
        let throttle = match unreceived.payload > announce {
            _ if unreceived.memory > share && may_stop && rank != self.limits.me => Throttle::Stop,
            _ if is_kept => Throttle::Stop,
            true => Throttle::Announce,
            false => Throttle::Off,
        };
        if throttle == before {
            return None;
        }
        unreceived.throttle = throttle;
        if throttle == Throttle::Stop {
            unreceived.when_stopped = unreceived.memory;
            self.stopped.push(rank);
            self.look_at = self.less_than_now();
        } else if before == Throttle::Stop {
            self.stopped.retain(|&other| other != rank);
        }
        Some(throttle)
    }

    /// What has to be free before stopped peers are looked at again: enough that looking is rare.
    fn less_than_now(&self) -> usize {
        self.memory.saturating_sub(self.limits.memory / 32 + 1)
    }

    /// The stopped peers, if there is enough free memory to let one of them send again.
    #[inline]
    pub(crate) fn stopped_to_look_at(&mut self) -> Vec<Rank> {
        if self.stopped.is_empty() || self.memory > self.look_at {
            return Vec::new();
        }
        self.look_at = self.less_than_now();
        self.stopped.clone()
    }

    /// The peers that are stopped.
    pub(crate) fn stopped(&self) -> Vec<Rank> {
        self.stopped.clone()
    }

    /// The link with a peer has ended, and what it was sent with it. Its messages stay.
    pub(crate) fn link_ended(&mut self, rank: Rank, unreceived: &mut Unreceived) {
        if !mutant!(ThrottleKept) {
            unreceived.throttle = Throttle::Off;
            self.stopped.retain(|&other| other != rank);
        }
    }

    /// A peer that sends messages without end, though it was stopped, must not take all memory.
    ///
    /// # Errors
    /// When it does.
    #[inline]
    pub(crate) fn check(&self, unreceived: &Unreceived) -> Result<(), Fault> {
        let Unreceived { memory, throttle, when_stopped, .. } = *unreceived;
        let grace = GRACE.max(self.limits.memory);
        match throttle != Throttle::Stop || memory <= when_stopped.saturating_add(grace) {
            true => Ok(()),
            false => Err(not_stopped(memory, when_stopped, grace)),
        }
    }

    /// The memory that they may take.
    pub(crate) fn limit(&self) -> usize {
        self.limits.memory
    }
}

#[cold]
fn not_stopped(memory: usize, when_stopped: usize, grace: usize) -> Fault {
    let expected = format!(
        "no more than {grace} bytes after THROTTLE 2, which it was sent when they took {when_stopped} bytes"
    );
    broken("unexpected messages", expected, memory)
}
