//! What a message-logging policy decides: [`Policy`] of what one message, receive or call needs, [`rx`] of messages that
//! arrive, [`calls`] of calls whose outcome the program does not determine, and [`protocol`] of all that works on the
//! whole engine: the payload log, restarts of peers, replays, checkpoints, finalisation.
//!
//! The engine asks for a decision or an action, each by its name. It never asks whether messages are logged, and cannot
//! reach a log. What is not logged has [`NoLogging`], for which every answer is a constant.

pub mod calls;
mod none;
pub mod protocol;
pub mod rx;
pub mod tx;

#[cfg(test)]
mod tests;

use super::log::leaving::LoggedSend;
use crate::frame::{Frame, kind};
use crate::peer::{Destination, Peer};
use crate::recv_record::RecvRecord;
use crate::request::Requests;
use crate::{EAGER_LIMIT, Error, Pattern, Rank};
pub use none::NoLogging;
use protocol::Protocol;
use std::task::Poll;
use taffrail_fabric::{Fabric, Fault, Refused, SendMemory, Sent};
use taffrail_logging::causal::Counters;
use taffrail_logging::{MsgId, Next, Numbers, Ticket};
use taffrail_matching::MessageId;

/// How a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From the memory of the program.
    Direct,
    /// The policy keeps it first, and it leaves from there.
    Kept,
}

/// What becomes of what is under way with a peer whose link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It ends with an error.
    Fail,
    /// It waits until the peer connects again, or ends with this process, which is restarted with its peer.
    Suspend,
}

/// Does one of two things, each compiled for itself, by the part of the policy `P` that decides in this job: a method
/// that is generic over it, or a function of its own.
macro_rules! by_policy {
    ($policy:expr, $this:ident . $method:ident ( $($argument:expr),* )) => {
        match $policy.is_second() {
            false => $this.$method::<P::First>($($argument),*),
            true => $this.$method::<P::Second>($($argument),*),
        }
    };
    ($policy:expr, $function:ident ( $($argument:expr),* )) => {
        match $policy.is_second() {
            false => P::First::$function($($argument),*),
            true => P::Second::$function($($argument),*),
        }
    };
}
pub(crate) use by_policy;

/// What a message-logging protocol decides. The defaults are those of a job that is not logged.
pub trait Policy: Sized {
    /// What decides of arrivals and calls, and acts on the engine.
    type First: Protocol<Self>;
    /// What does so instead, where a job says so when it starts.
    type Second: Protocol<Self>;

    /// Whether [`Second`](Self::Second) decides.
    fn is_second(&self) -> bool;

    // Messages that leave.

    /// How what is sent to a rank leaves.
    #[inline(always)]
    fn route(&self, _to: Rank) -> Route {
        Route::Direct
    }

    /// Whether events wait for room: nothing may leave or be taken in now (*nothing-passes-an-event*).
    #[inline(always)]
    fn is_behind(&self) -> bool {
        false
    }

    /// The number of the next message on a channel.
    #[inline(always)]
    fn number<'a>(&'a mut self, numbers: &'a mut Numbers, to: Rank, context: u16) -> Next<'a> {
        numbers.next(to, context)
    }

    /// Whether the program may see that there was no room for a message: this is not determined, and a replay has
    /// to give the same answer.
    #[inline(always)]
    fn may_find_no_room(&self) -> bool {
        true
    }

    /// The events that a frame to a rank has to wait for, which lets its program continue (*every-frame-that-frees*).
    #[inline(always)]
    fn ticket(&mut self, _peers: &mut [Peer], _to: Rank) -> Ticket {
        Ticket::default()
    }

    /// Whether what waits for these events may leave.
    #[inline(always)]
    fn is_open(&mut self, _ticket: &Ticket) -> bool {
        true
    }

    /// Replaces a page of the log at the front of a peer's queue by its messages, which have passed the gate with it.
    /// `false` when no page is there, and [`Pending`](Poll::Pending) until it is read.
    #[inline(always)]
    fn open_page(&mut self, _memory: &mut impl SendMemory, _peer: &mut Peer) -> Poll<bool> {
        Poll::Ready(false)
    }

    /// Sends the next fragment of a message of the payload log; `None` until it is read from a disk, or if this policy has
    /// no such log.
    #[inline(always)]
    fn send_more(
        &mut self,
        _fabric: &mut (impl Fabric + SendMemory),
        _requests: &Requests,
        _to: Rank,
        _leaving: &mut LoggedSend,
        _fragment: usize,
    ) -> Option<Result<Sent, Refused>> {
        None
    }

    /// Sends up to `most` bytes of an announced message from the place where it was kept: how many, if there was room.
    #[inline(always)]
    fn send_rndv_data(
        &mut self,
        _fabric: &mut (impl Fabric + SendMemory),
        _to: Rank,
        _frame: &Frame,
        _place: u64,
        _most: usize,
    ) -> Option<usize> {
        None
    }

    /// Whether messages take events with them, so that memory of other ranks is reached by messages alone.
    #[inline(always)]
    fn piggybacks(&self) -> bool {
        false
    }

    // Peers.

    /// What becomes of what is under way with a peer whose link has ended for this reason.
    #[inline(always)]
    fn on_loss(&self, _peer: Rank, _why: &Fault) -> OnLoss {
        OnLoss::Fail
    }

    // Messages that arrive.

    /// Whether frames of this kind belong to the protocol.
    #[inline(always)]
    fn takes_kind(&self, kind: u8) -> bool {
        !kind::is_of_the_log(kind)
    }

    /// Most bytes of a message that comes unasked.
    #[inline(always)]
    fn eager_limit(&self) -> usize {
        EAGER_LIMIT
    }

    /// Whether a peer may be stopped whose messages nobody receives. Not by a rank that was started again, which is sent more,
    /// and sooner, than when it ran before; and not a peer that was, and has to send again what is here in part: others
    /// behind that are here already.
    #[inline(always)]
    fn may_stop(&self, _peer: Rank) -> bool {
        true
    }

    /// Whether what the program did is being repeated: messages are not simply matched as they come.
    #[inline(always)]
    fn is_replaying(&self) -> bool {
        false
    }

    /// A receive is posted: its record begins. Whether the replay is to be asked about it.
    #[inline(always)]
    fn posted(&mut self, _record: &mut RecvRecord, _from: &Pattern) -> bool {
        false
    }

    /// As [`posted`](Self::posted), of a multi-receive.
    #[inline(always)]
    fn posted_multi(&mut self, _record: &mut RecvRecord) -> bool {
        false
    }

    /// Whether a blocking receive may stay unposted until its message comes: no replay has anything to say of it, and
    /// no handler posts another one meanwhile, so that receives keep their numbers.
    #[inline(always)]
    fn leaves_unposted(&self, _has_handlers: bool) -> bool {
        true
    }

    /// Whether a multi-receive reports its messages in the order in which they were matched: the order in which they
    /// are whole is not determined.
    #[inline(always)]
    fn reports_in_order(&self) -> bool {
        false
    }

    /// A message is here that was [reserved](taffrail_logging::Admit::Reserved).
    #[inline(always)]
    fn reserved(&mut self, _message: MsgId, _id: MessageId) {}

    /// Where the bytes of a message belong of which a part is here, and whose sender has been restarted: it is sent
    /// again ([`Recovery::suspended`](protocol::Recovery::suspended)).
    #[inline(always)]
    fn partial(&mut self, _message: MsgId) -> Option<&mut Destination> {
        None
    }

    /// The same, of a message that is coming again now: once.
    #[inline(always)]
    fn take_partial(&mut self, _message: MsgId) -> Option<Destination> {
        None
    }

    /// All bytes are here of a message of which a part was here when its sender died.
    #[inline(always)]
    fn is_whole(&mut self, _message: MsgId) {}

    // Calls.

    /// Whether a test of an operation finds what there is, so that nobody has to be asked.
    #[inline(always)]
    fn tests_are_free(&self) -> bool {
        true
    }

    /// Whether receives from any source end as soon as nobody is left to send. Otherwise while the program waits: until
    /// then it may send itself something, and which comes first would not be determined.
    #[inline(always)]
    fn ends_any_source_at_once(&self) -> bool {
        true
    }

    /// Refuses a call whose outcome cannot be repeated.
    #[inline(always)]
    fn check_repeatable(&self, _what: &'static str, _remedy: &'static str) -> Result<(), Error> {
        Ok(())
    }

    /// A wait has had `turns` empty turns in a row; with 0, a completion poll was empty. Whether the policy can use the
    /// time.
    #[inline(always)]
    fn waits(&mut self, _turns: u32) -> bool {
        false
    }

    /// There is time: prepares memory for what will be kept.
    #[inline(always)]
    fn prepare(&self, _memory: &mut impl SendMemory) {}

    /// Whether a message waits for a disk, or for peers that read, before it can be logged. The end of a write does not wake this
    /// rank.
    #[inline(always)]
    fn waits_for_log_memory(&self) -> bool {
        false
    }

    /// Releases the part of a message that a send has logged, if the send waited for the disk and then failed.
    #[inline(always)]
    fn abandon_kept(&mut self, _memory: &mut impl SendMemory) {}

    /// Whether an endpoint that finalises waits for its peers' answers without end: nobody answers for the logged
    /// messages of ranks that are gone for good.
    #[inline(always)]
    fn waits_for_receivers(&self) -> bool {
        true
    }

    // Reports.

    /// The correlated set of a rank, if there are sets.
    #[inline(always)]
    fn set(&self, _rank: Rank) -> Option<u32> {
        None
    }

    /// What a wait has to do with the policy.
    #[inline(always)]
    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was created and sent with messages, where messages take events with them.
    #[inline(always)]
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// What the program gave to the checkpoint that this process resumes from, if there is one: once.
    #[inline(always)]
    fn take_restored(&mut self) -> Option<Vec<u8>> {
        None
    }
}
