//! What a policy does with the whole engine. The defaults are those of a job that is not logged.

use super::calls::Calls;
use super::rx::RxPolicy;
use super::{Policy, Route, by_policy};
use crate::core::state::Core;
use crate::error::broken;
use crate::frame::{MsgHead, kind};
use crate::log::leaving::LoggedSend;
use crate::peer::Destination;
use crate::tx::Tx;
use crate::{Dest, Engine, Error, NotNow, Pattern, Rank};
use std::io::IoSlice;
use taffrail_fabric::{Fabric, Fault, Incarnation, Payload, SendMemory, Source};
use taffrail_logging::{MsgId, Restart};
use taffrail_matching::{Envelope, MessageId};

/// All parts of a policy that act on the engine.
pub trait Protocol<P: Policy>:
    RxPolicy<P> + Calls<P> + Sends<P> + Replays<P> + Recovery<P> + Checkpoints<P>
{
}

impl<P: Policy, R> Protocol<P> for R where
    R: RxPolicy<P> + Calls<P> + Sends<P> + Replays<P> + Recovery<P> + Checkpoints<P>
{
}

/// Messages that leave.
pub trait Sends<P: Policy> {
    /// A message is about to be sent: how it leaves.
    #[inline(always)]
    fn begin_send<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _to: Rank) -> Route {
        Route::Direct
    }

    /// Logs a message whose route is [`Route::Kept`], and sends it from the log, at once or later. No other message is given
    /// to this.
    ///
    /// # Errors
    /// When there is no room to keep it, or not yet: nothing has happened then.
    #[inline(always)]
    fn keep<F: Fabric + SendMemory>(
        _: &mut Engine<F, P>,
        _to: &Dest,
        _source: Source<'_>,
        _len: usize,
    ) -> Result<(), NotNow> {
        Ok(())
    }

    /// The same of a message that does not leave before all of it is kept: a loan, or one whose send, with the name
    /// `sync`, waits for a receive.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    #[inline(always)]
    fn keep_whole<F: Fabric + SendMemory>(
        _: &mut Engine<F, P>,
        _to: &Dest,
        _source: Source<'_>,
        _len: usize,
        _sync: Option<u64>,
    ) -> Result<(), NotNow> {
        Ok(())
    }

    /// The RTS of a kept message that is at the front of a peer's queue, if that is the way: the peer asked for it
    /// (`forced`), or the send waits for a receive. The request that it is of, and how it is called.
    #[inline(always)]
    fn kept_rts(
        _: &mut Core<P>,
        _to: Rank,
        _kept: LoggedSend,
        _forced: bool,
        _inline: usize,
    ) -> Option<(u32, MsgHead)> {
        None
    }

    /// A frame is about to be sent that [takes events with it](Policy::piggybacks): sends, or queues, what the peer must
    /// know before.
    #[inline(always)]
    fn precede_frame<F: Fabric + SendMemory>(_: &mut Tx<'_, F, P>, _to: Rank) {}
}

/// What the program did before, and does again.
pub trait Replays<P: Policy> {
    /// Posts a receive that the replay may know of. `false`: it does not.
    #[inline(always)]
    fn replay_post<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _request: u32) -> bool {
        false
    }

    /// The same of a multi-receive.
    #[inline(always)]
    fn replay_multi<F: Fabric + SendMemory>(
        _: &mut Engine<F, P>,
        _request: u32,
        _from: &Pattern,
    ) -> bool {
        false
    }

    /// A multi-receive of the replay has got a message: gives it the next ones that are here.
    #[inline(always)]
    fn continue_multi<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _request: u32) {}

    /// A message that the replay gives to a claim, when it is here.
    #[inline(always)]
    fn reserved_claim(_: &mut Core<P>, _message: MsgId) -> Option<(MessageId, Envelope)> {
        None
    }
}

/// Peers, and this rank, that are started again.
pub trait Recovery<P: Policy> {
    /// A peer is [suspended](super::OnLoss::Suspend): what waited to be sent to it has been dropped. `partial` are its
    /// messages of which a part is here, or announced, and where the rest belongs.
    fn suspended(_: &mut Core<P>, _rank: Rank, _partial: Vec<(MsgId, Destination)>) {}

    /// A peer has broken the protocol, and is cut off.
    fn protocol_broken(core: &mut Core<P>, rank: Rank, fault: Fault) {
        core.peer_failed(rank, fault);
    }

    /// A peer has connected: a new incarnation, or the same one after its link was lost. Whether it is taken up again:
    /// what waits for it may leave then.
    fn resumes(_: &mut Core<P>, _rank: Rank, _incarnation: u32) -> bool {
        false
    }

    /// A peer was taken up again.
    fn reconnected<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _rank: Rank) {}

    /// RESTART has come.
    ///
    /// # Errors
    /// When no peer that keeps the protocol sends this.
    #[cold]
    fn restart_received(_: &mut Core<P>, _from: Rank, _: &Payload<'_>) -> Result<(), Fault> {
        Err(broken("kind", "no RESTART, since nobody is restarted", kind::RESTART))
    }

    /// A peer says which of our messages it has, or what its checkpoint covers: after the poll that
    /// [RESTART](Self::restart_received) came in.
    fn peer_state_received<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _: Rank, _: Restart) {}

    /// Drops more of what a peer's checkpoint covers: what is to be looked at for that may be here by now.
    fn collect_more<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _: Rank) {}

    /// DETERMINANTS have come.
    ///
    /// # Errors
    /// When no peer that keeps the protocol sends these.
    #[cold]
    fn determinants_received(_: &mut Core<P>, _: Rank, _: &Payload<'_>) -> Result<(), Fault> {
        Err(unexpected_determinants())
    }

    /// This rank was started again: begins the exchange with those that it is linked with, or has something of.
    fn begin_exchange<F: Fabric + SendMemory>(_: &mut Engine<F, P>) {}

    /// By [`Membership`](taffrail_fabric::Membership) a rank runs again.
    fn runs_again<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _: Rank, _: Incarnation) {}

    /// The program is over: says so to all other ranks. `false` when this rank need not wait for theirs to be over.
    fn begin_to_leave<F: Fabric + SendMemory>(_: &mut Engine<F, P>) -> bool {
        false
    }

    /// [`Membership`](taffrail_fabric::Membership) has reported a peer as finalizing.
    fn peer_finalizing<F: Fabric + SendMemory>(_: &mut Engine<F, P>, _: Rank, _: Incarnation) {}

    /// Whether all other ranks have finalised, for good.
    fn have_all_left<F: Fabric + SendMemory>(_: &mut Engine<F, P>) -> bool {
        true
    }

    /// This rank takes no restarted peer in any more.
    fn leave<F: Fabric + SendMemory>(_: &mut Engine<F, P>) {}
}

/// The fault of a peer that sends determinants where nobody keeps any.
#[cold]
pub(crate) fn unexpected_determinants() -> Fault {
    broken("kind", "1..=17 or 19, since logging is not causal", kind::DETERMINANTS)
}

/// Where a rank resumes.
pub trait Checkpoints<P: Policy> {
    /// Begins to take a checkpoint. `false` when none is taken now.
    ///
    /// # Errors
    /// When none can be taken, or something is under way.
    fn begin_checkpoint<F: Fabric + SendMemory>(_: &mut Engine<F, P>) -> Result<bool, Error> {
        Ok(false)
    }

    /// Writes a checkpoint that was begun, with this state of the program. `false`: not yet.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn checkpoint<F: Fabric + SendMemory>(
        _: &mut Engine<F, P>,
        _state: &[IoSlice<'_>],
    ) -> Result<bool, Error> {
        Ok(true)
    }

    /// Announces the last checkpoint, if that may be done now.
    fn announce<F: Fabric + SendMemory>(_: &mut Engine<F, P>) {}

    /// Resumes from the checkpoint of a process before this one, if there is one: before the exchange with the others.
    ///
    /// # Errors
    /// When what that process has left cannot be read, or does not fit, or not yet: then this is called again.
    fn resume<F: Fabric + SendMemory>(_: &mut Engine<F, P>) -> Result<(), NotNow> {
        Ok(())
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// How a message that is about to be sent leaves.
    #[inline(always)]
    pub(crate) fn begin_send(&mut self, to: Rank) -> Route {
        by_policy!(self.core.policy, begin_send(self, to))
    }
}
