//! What a message-logging policy decides: [`tx`] of messages that leave, [`rx`] of messages that arrive, [`calls`] of
//! calls whose outcome the program does not determine, and [`Policy`] of all the rest.
//!
//! Whether messages are logged is asked here and in [`log`](super::log), and nowhere else: the engine asks for a
//! decision, each by its name. What is not logged has [`NoLogging`], for which every answer is a constant.

pub mod calls;
pub mod rx;
pub mod tx;

#[cfg(test)]
mod tests;

use super::log::Logging;
use super::log::host::{Host, NoHost};
use super::log::leaving::LoggedSend;
use crate::frame::{Frame, kind};
use crate::peer::Peer;
use crate::recv_record::RecvRecord;
use crate::request::Requests;
use crate::{EAGER_LIMIT, EAGER_LOGGED, Error, Pattern, Rank};
use taffrail_fabric::{Fabric, Fault, Refused, SendMemory, Sent};
use taffrail_logging::causal::Counters;
use taffrail_logging::{Next, Numbers, Ticket};
use taffrail_matching::Envelope;

/// The policy of a job that is not logged.
#[derive(Default)]
pub struct NoLogging;

/// How a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From the memory of the program.
    Direct,
    /// It is kept first, and leaves from the payload log.
    Logged,
}

/// What becomes of what is under way with a peer whose link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It ends with an error.
    Fail,
    /// It waits until the peer connects again, or ends with this process, which is restarted with its peer.
    Suspend,
}

/// Does one of two things, each compiled for itself: `$method` by the policy that decides in this job.
macro_rules! by_policy {
    ($policy:expr, $this:ident . $method:ident ( $($argument:expr),* )) => {
        match $policy.is_second() {
            false => $this.$method::<P::First>($($argument),*),
            true => $this.$method::<P::Second>($($argument),*),
        }
    };
}
pub(crate) use by_policy;

/// What a message-logging protocol decides. The defaults are those of a job that is not logged.
pub trait Policy: Sized {
    /// The outside of the log.
    type Host: Host;
    /// What decides of arrivals and calls.
    type First: rx::RxPolicy<Self> + calls::Calls<Self>;
    /// What decides of them instead, where a job says so when it starts.
    type Second: rx::RxPolicy<Self> + calls::Calls<Self>;

    /// Whether [`Second`](Self::Second) decides.
    fn is_second(&self) -> bool;

    /// The log, if messages are logged. For this file and [`log`](super::log) alone.
    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        None
    }

    /// The same, to be changed.
    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        None
    }

    // Messages that leave.

    /// How what is sent to a rank leaves.
    #[inline]
    fn route(&self, to: Rank) -> Route {
        self.log().map_or(Route::Direct, |log| log.route(to))
    }

    /// Whether events wait for room: nothing may leave or be taken in now (*nothing-passes-an-event*).
    #[inline(always)]
    fn is_behind(&self) -> bool {
        self.log().is_some_and(|log| log.is_behind())
    }

    /// The number of the next message on a channel.
    #[inline(always)]
    fn number<'a>(&'a mut self, numbers: &'a mut Numbers, to: Rank, context: u16) -> Next<'a> {
        numbers.next(to, context)
    }

    /// Whether the program may be told that there was no room for a message: this is not determined, and a replay has
    /// to give the same answer.
    #[inline(always)]
    fn may_find_no_room(&self) -> bool {
        self.log().is_none()
    }

    /// The events that a frame to a rank has to wait for, on which its program goes on (*every-frame-that-frees*).
    #[inline]
    fn ticket(&mut self, peers: &mut [Peer], to: Rank) -> Ticket {
        self.log_mut().map_or_else(Ticket::default, |log| log.ticket(peers, to))
    }

    /// Whether what waits for these events may leave.
    #[inline]
    fn is_open(&mut self, ticket: &Ticket) -> bool {
        self.log_mut().is_none_or(|log| log.is_open(ticket))
    }

    /// Puts the messages of the page of the log at the front of a peer's queue in its place: they have passed the gate
    /// with it. `false` when no page is there.
    #[inline]
    fn open_page(&mut self, memory: &impl SendMemory, peer: &mut Peer) -> bool {
        self.log_mut().is_some_and(|log| log.open_page(memory, peer))
    }

    /// Sends more of a message of the log; `None` if there is none.
    #[inline]
    fn send_more(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        requests: &Requests,
        to: Rank,
        leaving: &mut LoggedSend,
        fragment: usize,
    ) -> Option<Result<Sent, Refused>> {
        Some(self.log_mut()?.send_more(fabric, requests, to, leaving, fragment))
    }

    /// Sends up to `most` bytes of an announced message from this place of the log: how many, if there was room.
    #[inline]
    fn send_rndv_data(
        &mut self,
        fabric: &mut (impl Fabric + SendMemory),
        to: Rank,
        frame: &Frame,
        place: u64,
        most: usize,
    ) -> Option<usize> {
        self.log_mut()?.send_rndv_data(fabric, to, frame, place, most)
    }

    /// Whether messages take events with them, so that memory of other ranks is reached by messages alone.
    #[inline]
    fn piggybacks(&self) -> bool {
        self.log().is_some_and(Logging::is_causal)
    }

    // Peers.

    /// What becomes of what is under way with a peer whose link has ended for this reason.
    fn on_loss(&self, peer: Rank, why: &Fault) -> OnLoss {
        self.log().map_or(OnLoss::Fail, |log| log.on_loss(peer, why))
    }

    // Messages that arrive.

    /// Whether frames of this kind belong to the protocol.
    #[inline(always)]
    fn takes_kind(&self, kind: u8) -> bool {
        !kind::is_of_the_log(kind) || self.log().is_some()
    }

    /// Most bytes of a message that comes unasked.
    #[inline]
    fn eager_limit(&self) -> usize {
        if self.log().is_some() { EAGER_LOGGED } else { EAGER_LIMIT }
    }

    /// Whether what the program did is being repeated: messages are not simply matched as they come.
    #[inline]
    fn is_replaying(&self) -> bool {
        self.log().is_some_and(|log| log.replaying)
    }

    /// A receive is posted: its record begins. Whether the replay is to be asked about it.
    #[inline]
    fn posted(&mut self, record: &mut RecvRecord, from: &Pattern) -> bool {
        self.log_mut().is_some_and(|log| log.posted(record, from))
    }

    /// As [`posted`](Self::posted), of a multi-receive.
    #[inline]
    fn posted_multi(&mut self, record: &mut RecvRecord) -> bool {
        self.log_mut().is_some_and(|log| log.posted_multi(record))
    }

    /// Whether a blocking receive may stay unposted until its message comes: no replay has anything to say of it, and
    /// no handler posts another one meanwhile, so that receives keep their numbers.
    #[inline(always)]
    fn leaves_unposted(&self, has_handlers: bool) -> bool {
        self.log().is_none_or(|log| log.incarnation == 0 && !has_handlers)
    }

    /// Whether a multi-receive reports its messages in the order in which they were matched: the order in which they
    /// are whole is not determined.
    #[inline]
    fn reports_in_order(&self) -> bool {
        self.log().is_some()
    }

    /// The rest of a message whose sender died goes to this request.
    #[inline]
    fn redirect(&mut self, envelope: &Envelope, request: u32) {
        if let Some(log) = self.log_mut() {
            log.redirect(envelope, request);
        }
    }

    // Calls.

    /// Whether a test of an operation finds what there is, so that nobody has to be asked.
    #[inline(always)]
    fn tests_are_free(&self) -> bool {
        self.log().is_none()
    }

    /// Whether receives from any source end as soon as nobody is left to send. Otherwise while the program waits: until
    /// then it may send itself something, and which comes first would not be determined.
    #[inline(always)]
    fn ends_any_source_at_once(&self) -> bool {
        self.log().is_none()
    }

    /// Refuses a call whose outcome cannot be repeated.
    #[inline]
    fn check_repeatable(&self, what: &'static str, remedy: &'static str) -> Result<(), Error> {
        match self.log() {
            None => Ok(()),
            Some(_) => Err(Error::NotLogged { what, remedy }),
        }
    }

    /// A wait has had `turns` empty turns in a row; with 0, a completion poll was empty. Whether the policy can use the
    /// time.
    #[inline]
    fn waits(&mut self, turns: u32) -> bool {
        self.log_mut().is_some_and(|log| log.waits(turns))
    }

    /// Whether an endpoint that finalises waits for its peers' answers without end: nobody answers for the logged
    /// messages of ranks that are gone for good.
    #[inline]
    fn waits_for_receivers(&self) -> bool {
        self.log().is_none()
    }

    // Reports.

    /// The correlated set of a rank, if there are sets.
    fn set(&self, rank: Rank) -> Option<u32> {
        self.log().map(|log| log.set(rank))
    }

    /// What a wait has to do with the policy.
    fn waiting(&self) -> Vec<String> {
        self.log().map_or_else(Vec::new, Logging::waiting)
    }

    /// What was created and sent with messages, where messages take events with them.
    fn counters(&self) -> Option<Counters> {
        self.log().and_then(Logging::counters)
    }

    /// What the program gave to the checkpoint that this process goes on from, if it goes on from one: once.
    fn take_restored(&mut self) -> Option<Vec<u8>> {
        self.log_mut().and_then(Logging::take_restored)
    }
}

impl Policy for NoLogging {
    type Host = NoHost;
    type First = NoLogging;
    type Second = NoLogging;

    #[inline(always)]
    fn is_second(&self) -> bool {
        false
    }
}

/// Whether messages are logged is known when a job starts.
impl<H: Host> Policy for Option<Box<Logging<H>>> {
    type Host = H;
    type First = NoLogging;
    type Second = Logging<H>;

    #[inline(always)]
    fn is_second(&self) -> bool {
        self.is_some()
    }

    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        self.as_deref()
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        self.as_deref_mut()
    }
}

impl<H: Host> Policy for Logging<H> {
    type Host = H;
    type First = Logging<H>;
    type Second = Logging<H>;

    #[inline(always)]
    fn is_second(&self) -> bool {
        false
    }

    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        Some(self)
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        Some(self)
    }
}
