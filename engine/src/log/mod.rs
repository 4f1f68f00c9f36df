//! Message logging: what the engine does more when its rank may be started again
//! (`docs/logging.md`; Bouteiller et al., MPICH-V2, and the correlated sets of Euro-Par'11).
//!
//! The state machines are those of `taffrail-logging`; here they are put together with the matcher,
//! the requests and the fabric. From the top:
//!
//! - [`decisions`]: what the engine asks ([`Policy`](crate::policy::Policy)); the parts of
//!   [`protocol`](crate::policy::protocol) stand where they belong below;
//! - [`nondeterminism`]: what the program asks, and what chance decides of it;
//! - [`completion_poll`]: the same of polls for operations that are over;
//! - [`multi_replay`]: multi-receives that are replayed;
//! - [`send`]: what leaves for other sets: copied to the [`payload_log`], and sent; [`resend`]: what leaves from there;
//! - [`syncs`]: messages whose sends wait to hear of a match;
//! - [`log_index`]: the table of what has left, on the payload log as well;
//! - [`recv`]: what comes, and what of it a replay keeps;
//! - [`peers`]: ranks that die and come back, and the end of the program;
//! - [`checkpoint`]: where a rank resumes, and what others need not keep then;
//! - [`events`]: where events are written, and which are stable; [`gate`]: what leaves the set waits for them;
//! - [`causal`]: events that travel with the messages that depend on them;
//! - [`host`]: the outside, behind traits: the log opens no files, and maps no memory.

#[cfg(test)]
mod answer_tests;
mod causal;
mod checkpoint;
mod completion_poll;
mod decisions;
mod events;
mod gate;
mod gather;
pub mod host;
pub(crate) mod leaving;
mod log_and_send;
mod log_index;
mod long_message;
mod multi_replay;
mod multi_state;
mod nondeterminism;
mod opening;
mod optional;
mod payload_log;
mod peers;
mod poll_state;
mod recv;
mod resend;
#[cfg(test)]
mod resume_tests;
mod resumption;
mod send;
#[cfg(test)]
mod socket_tests;
mod spill;
mod syncs;
#[cfg(test)]
mod tests;

pub(crate) use payload_log::LogEntry;

use super::peer::{Destination, Peer};
use crate::Rank;
use events::Events;
use host::Host;
use leaving::Pages;
use multi_state::MultiReplay;
use payload_log::PayloadLog;
use poll_state::{PollState, Recheck};
use resumption::Resumption;
use rustc_hash::FxHashMap;
use taffrail_fabric::words::counted;
use taffrail_logging::causal::HeldStore;
use taffrail_logging::{
    Answer, Causal, Inbound, LoggedEvent, MsgId, Outbound, Received, Recorder, Replay, Restart,
    Ticket, mutant,
};
use taffrail_matching::MessageId;

/// What is logged of this rank, and what is replayed to it. What most messages need stands in front, in two
/// lines: a rank that waits gives the processor away, and others use its caches meanwhile.
#[repr(C, align(64))]
pub struct Logging<H: Host> {
    /// There is something left of the replay.
    replaying: bool,
    /// Completion-queue state after the last poll.
    poll_state: PollState,
    recheck: Recheck,
    all_events: bool,
    /// What leaves waits for no events, and takes none with it.
    departs_freely: bool,
    /// All ranks are of one set.
    is_one_set: bool,
    /// This rank was started again, and more was sent to it again than it needs now.
    resend_backlog_high: bool,
    /// Not every turn may take messages in: the backlog is high, or there is a [held table](Self::held).
    chooses_turns: bool,
    /// Something is to be done after each turn: this rank was started again, or there is a held table.
    ends_turns: bool,
    me: Rank,
    incarnation: u32,
    recorder: Recorder,
    /// What the replay has answered to the poll that waits now.
    pending_answer: Option<Answer>,
    /// In causal logging, the events that messages depend on and that are not stable.
    causal: Option<Box<Causal>>,
    /// Where determinants of others are noted, where rings can be lost.
    held: Option<Box<dyn HeldStore>>,
    events: Events<H::Events>,
    /// The correlated set of each rank.
    sets: Vec<u32>,
    links: Vec<Link>,
    replay: Replay<H::Replayed>,
    outbound: Outbound<LogEntry>,
    inbound: Inbound,
    /// Room for the bytes of some of the events in [`causal`](Self::causal).
    frame: Vec<u8>,
    payload_log: PayloadLog<H::Spill>,
    pages: Pages,
    /// Runs of a page.
    page_runs: usize,
    /// Messages that are here and that the replay gives to a receive or claim still to come.
    reserved: FxHashMap<MsgId, MessageId>,
    /// Receives whose message, by the replay, is still to come.
    awaited: FxHashMap<MsgId, u32>,
    /// Multi-receives that, by the replay, are still to get messages.
    multi_replays: FxHashMap<u32, MultiReplay>,
    /// Messages that are here in part, and whose sender died: where its next incarnation's go.
    partial: FxHashMap<MsgId, Destination>,
    /// The requests of synchronous messages.
    syncs: FxHashMap<(Rank, u16, u32), u64>,
    /// Where checkpoints are kept, if this rank can take any.
    checkpoints: Option<H::Checkpoints>,
    /// The last checkpoint, until others may drop what it covers.
    unannounced: Option<Box<Unannounced>>,
    /// The checkpoint that this process resumes from, until it has.
    going_on: Option<Resumption<H::Previous>>,
    /// The state of the program there, until it asks for it.
    restored: Option<Vec<u8>>,
    finalizing: Finalizing,
}

/// Events that are not stable.
#[derive(Default)]
struct Dependencies {
    /// Of the set.
    ticket: Ticket,
    /// In causal logging: of all ranks of which this rank knows some, up to these clocks.
    known: Vec<(Rank, u64)>,
}

/// How far this rank is in publishing that its program has completed ([`Life::Finalizing`](taffrail_fabric::Life::Finalizing)).
#[derive(Default)]
enum Finalizing {
    /// Its program runs.
    #[default]
    No,
    /// All ranks may depend on it, and no determinants go before it, so that it waits for the events that the end of the program
    /// depends on (*stable-before-escape*).
    Waits(Dependencies),
    Published,
}

/// A committed checkpoint that is not on another node yet.
struct Unannounced {
    number: u64,
    /// What it covers of each rank.
    covered: Vec<Received>,
}

/// The connection with a peer.
#[derive(Default)]
struct Link {
    /// We have started again, and have not heard yet what this peer has of us.
    is_first: bool,
    /// It is of our set.
    same_set: bool,
    /// FINALIZE was sent over this link.
    finalize_sent: bool,
    /// `None` as long as neither has had a checkpoint, and no RESTART has come.
    exchanged: Option<Box<Exchanged>>,
}

/// The checkpoints of two ranks, as they know them of each other, and a RESTART that is under way.
#[derive(Default)]
struct Exchanged {
    /// What has come of a RESTART of the peer of which more follows.
    arriving: Option<Restart>,
    /// What its last checkpoint covers, if that is still to be dropped.
    committed: Option<Received>,
    /// What a checkpoint of it covers that its log was dropped for.
    dropped: Option<Received>,
    /// Pages of it that were looked at for that, and stay.
    seen: usize,
    /// What our last announced checkpoint covers of it: COMMITTED, which it may have missed.
    own_checkpoint: Option<Received>,
}

impl Link {
    fn exchanged(&mut self) -> &mut Exchanged {
        self.exchanged.get_or_insert_default()
    }
}

impl<H: Host> Logging<H> {
    /// Whether a rank is of this rank's set: what is sent to it is not kept.
    #[inline]
    pub fn is_same_set(&self, rank: Rank) -> bool {
        self.is_one_set || self.links[rank as usize].same_set
    }

    /// The incarnation of each rank, as far as this rank has met it, or needs no link with it.
    pub fn incarnations(&self) -> impl Iterator<Item = u32> {
        self.inbound.incarnations()
    }

    /// Gets ready for the event that is expected next, with these flags: a rank that waits has the time, and one
    /// that has something to answer has not.
    #[inline]
    pub(crate) fn prepare_event(&mut self, flags: u8) {
        self.events.prepare(self.recorder.polls(), flags);
    }

    /// Writes an event. While there is no room for it nothing leaves to any of the peers (*nothing-passes-an-event*).
    #[inline(always)]
    fn write(&mut self, peers: &mut [Peer], event: LoggedEvent) {
        if !self.events.write(event) {
            hold_back(peers);
        }
        if self.causal.is_some() {
            self.wrote(event);
        }
    }

    /// Writes the events that wait, as far as there is room. Whether none waits any more.
    pub(crate) fn catch_up(&mut self, peers: &mut [Peer]) -> bool {
        let none_waits = self.events.catch_up();
        if none_waits {
            peers.iter_mut().for_each(|peer| peer.wait_for_events(false));
        }
        none_waits
    }

    /// What logging has to do with a wait.
    fn wait_reasons(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.replaying {
            let (all, left) = (self.replay.clock(), self.replay.events_left());
            let done = all.saturating_sub(left);
            let awaited = counted(self.awaited.len() as u64, "message");
            parts.push(format!(
                "it was killed and repeats what it did before: {done} of {all} events are done, and \
                 {awaited} must come again"
            ));
        }
        if let Some(last) = &self.unannounced {
            let number = last.number;
            parts.push(format!(
                "its last checkpoint ({number}) is still to be copied to another node"
            ));
        }
        if self.payload_log.waits() {
            parts.push(
                "what it sends waits for memory of the log of sent messages: for the file that takes others, or for \
                 peers that read what was sent from it"
                    .to_owned(),
            );
        }
        if self.events.is_behind() {
            parts.push(
                "it waits for the event logger, which takes no events: is it alive, and is there room \
                 where it keeps them?"
                    .to_owned(),
            );
        } else if !self.events.are_all_stable() {
            let (written, stable) = (self.events.written(), self.events.stable());
            parts.push(format!(
                "what it sends waits for the event logger, which has stored {stable} of its {written} \
                 events"
            ));
        }
        if let Finalizing::Waits(end) = &self.finalizing
            && !end.known.is_empty()
        {
            let ranks = counted(end.known.len() as u64, "rank");
            parts.push(format!(
                "the end of its program depends on events of {ranks}, which the event logger is still to store"
            ));
        }
        parts
    }
}

/// An event waits for room, so that nothing leaves to any rank.
#[cold]
fn hold_back(peers: &mut [Peer]) {
    if !mutant!(EventPassed) {
        peers.iter_mut().for_each(|peer| peer.wait_for_events(true));
    }
}
