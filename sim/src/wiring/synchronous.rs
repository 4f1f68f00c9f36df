//! Synchronous sends: each waits until its receiver says that the message is matched. Long ones are announced,
//! and their sends are over when the rest has left, which the receiver asks for.

use super::departure::Leaving;
use super::{Content, State, Wiring};
use crate::broken::Broken;
use taffrail_logging::{MsgId, Rank, Received, Ticket};

/// Pieces of a synchronous message from which on the first piece announces it.
const LONG: u8 = 3;

/// How a rank names one of its synchronous sends.
pub type SendName = (u16, u16);

/// What the receiver of a synchronous message answers when the message is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncAnswer {
    /// The send, as its rank has named it.
    pub send: SendName,
    /// The rest of the message is to be sent (CTS); else the message is here (ACK).
    pub clears: bool,
    /// Which message it is, for the oracle.
    pub context: u16,
    /// Its number.
    pub seq: u32,
}

/// A synchronous send.
pub(super) struct SyncSend {
    /// As messages say it: the first number that no send under way has, and how often it was used before. So a
    /// replay gives other names, since it is chance when sends end.
    name: SendName,
    to: Rank,
    context: u16,
    seq: u32,
    content: Content,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waits,
    /// The rest is leaving.
    Streams,
    Over,
}

impl Content {
    /// Whether its first piece announces it, while its send waits.
    pub(super) fn is_announced(&self) -> bool {
        self.sync && self.body.pieces == LONG
    }
}

impl Wiring {
    pub(super) fn note_sync(&mut self, to: Rank, context: u16, seq: u32, content: Content) {
        let uses = |number: u16| self.syncs.iter().filter(move |send| send.name.0 == number);
        let over = |send: &SyncSend| send.progress == Progress::Over;
        let number = (0..).find(|&number| uses(number).all(over)).expect("they are few");
        let name = (number, uses(number).count() as u16);
        let progress = Progress::Waits;
        self.syncs.push(SyncSend { name, to, context, seq, content, progress });
    }

    /// The name of a send, if it still waits for its receiver.
    pub(super) fn waiting_send(&self, to: Rank, context: u16, seq: u32) -> Option<SendName> {
        let this = |send: &SyncSend| (send.to, send.context, send.seq) == (to, context, seq);
        let send = self.syncs.iter().rev().find(|send| this(send))?;
        (send.progress != Progress::Over).then_some(send.name)
    }

    /// Whether no synchronous send waits.
    pub(super) fn all_are_matched(&self) -> bool {
        self.syncs.iter().all(|send| send.progress == Progress::Over)
    }

    /// Answers to a synchronous message, if it is here, matched, and was not answered.
    pub(super) fn answer_if_matched(&mut self, name: MsgId) {
        let Some(stored) = self.stored.get_mut(&name) else { return };
        let Some(send) = stored.sync else { return };
        let has = |state: &State| matches!(state, State::Has(message) if *message == name);
        if self.requests.iter().any(|request| has(&request.state)) {
            stored.sync = None;
            let clears = stored.pieces == LONG && !stored.is_whole();
            self.answer(name, send, clears);
        }
    }

    /// A message that is here already came again.
    pub(super) fn comes_again(&mut self, name: MsgId, sync: Option<SendName>) {
        match (sync, self.stored.get_mut(&name)) {
            (None, _) => {}
            (Some(_), Some(stored)) => {
                stored.sync = sync;
                self.answer_if_matched(name);
            }
            // It was received before a checkpoint.
            (Some(send), None) => self.answer(name, send, false),
        }
    }

    /// The sender resumes because of this, as it does because of a message (*every-frame-that-frees*).
    fn answer(&mut self, MsgId { source: to, context, seq }: MsgId, send: SendName, clears: bool) {
        if !self.lines[to as usize].connected {
            return;
        }
        if !self.is(Broken::PollsBeforeAnswerNotLogged)
            && let Some(event) = self.recorder.before_send()
        {
            self.log(event);
        }
        self.precede(to);
        let ungated = if clears { Broken::ClearUngated } else { Broken::AckUngated };
        let free = self.is_fellow(to) || self.who.causal || self.is(ungated);
        let ticket = if free { Ticket::default() } else { self.gate.ticket() };
        let answer = SyncAnswer { send, clears, context, seq };
        self.lines[to as usize].push(Leaving::Answer { ticket, answer });
        self.answers.push((to, answer));
    }

    /// A receiver has answered.
    pub(super) fn answered(&mut self, peer: Rank, answer: SyncAnswer) {
        let Some(sync) = self.syncs.iter_mut().find(|send| send.name == answer.send) else {
            return;
        };
        if sync.to != peer || sync.progress != Progress::Waits {
            return;
        }
        if !answer.clears {
            sync.progress = Progress::Over;
            return;
        }
        sync.progress = Progress::Streams;
        let &mut SyncSend { context, seq, content, .. } = sync;
        // What it depends on was stable when the announcement left.
        let (ticket, send) = (Ticket::default(), Some(answer.send));
        self.lines[peer as usize].push(Leaving::Message {
            ticket,
            context,
            seq,
            content,
            sent: 1,
            send,
        });
    }

    /// The rest of an announced message has left.
    pub(super) fn has_streamed(&mut self, name: SendName) {
        let send = self.syncs.iter_mut().filter(|send| send.name == name);
        send.for_each(|send| send.progress = Progress::Over);
    }

    /// A connection is given up: what was leaving by it begins again, and the names of the peer's sends mean
    /// nothing any more.
    pub(super) fn forget_sends(&mut self, peer: Rank) {
        for send in self.syncs.iter_mut().filter(|send| send.to == peer) {
            if send.progress == Progress::Streams {
                send.progress = Progress::Waits;
            }
        }
        let theirs = self.stored.iter_mut().filter(|(name, _)| name.source == peer);
        theirs.for_each(|(_, stored)| stored.sync = None);
    }

    fn unanswered(&self, to: Rank) -> impl Iterator<Item = &SyncSend> {
        self.syncs.iter().filter(move |send| send.to == to && send.progress != Progress::Over)
    }

    /// A peer has said what it has. Messages whose sends wait are sent again all the same: the answer may be lost.
    pub(super) fn ask_again(&self, peer: Rank, has: &mut Received) {
        if !self.is(Broken::NotAskedAgain) {
            has.missing.extend(self.unanswered(peer).map(|send| (send.context, send.seq)));
        }
    }

    /// A committed checkpoint of a peer covers these messages: they were received.
    pub(super) fn received_for_good(&mut self, peer: Rank, covered: &Received) {
        if self.is(Broken::CommitDoesNotAnswer) {
            return;
        }
        let theirs = self.syncs.iter_mut().filter(|send| send.to == peer);
        for send in theirs.filter(|send| covered.covers(send.context, send.seq)) {
            send.progress = Progress::Over;
        }
    }

    /// The answers that were made since this was asked.
    pub fn take_answers(&mut self) -> Vec<(Rank, SyncAnswer)> {
        std::mem::take(&mut self.answers)
    }
}
