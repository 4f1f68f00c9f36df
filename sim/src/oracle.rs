//! Checks, at every step, with knowledge that no rank has.

use crate::call::{Call, Message, Outcome, Req};
use crate::case::Case;
use crate::logger::Logger;
use crate::wiring::{CONTEXTS, Content, SendName, Wiring};
use std::collections::{BTreeMap, BTreeSet};

mod answers;
mod causal;
mod checkpoint;

use checkpoint::Kept;
use taffrail_logging::{MsgId, Rank};
use taffrail_matching::{Envelope, Posting};

/// Most ranks of a job.
pub const MOST: usize = 8;

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What has happened.
    pub text: String,
}

/// For short.
pub type Checked = Result<(), Violation>;

/// Says that something is violated.
///
/// # Errors
/// Always.
pub fn violation(invariant: &'static str, text: String) -> Checked {
    Err(Violation { invariant, text })
}

/// What a rank may depend on: of each rank, events and calls up to these.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    clocks: [u64; MOST],
    calls: [usize; MOST],
}

impl Past {
    fn merge(&mut self, other: &Past) {
        for k in 0..MOST {
            self.clocks[k] = self.clocks[k].max(other.clocks[k]);
            self.calls[k] = self.calls[k].max(other.calls[k]);
        }
    }
}

/// The latest copy of a message that its sender has sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    content: Content,
    past: Past,
}

#[derive(Default)]
struct Channel {
    /// By the present incarnation of the sender.
    sent: Vec<Sent>,
    /// What has left its sender, ever.
    escaped: Vec<Option<Sent>>,
}

/// What is known of a rank.
#[derive(Default)]
struct Known {
    past: Past,
    history: Vec<(Call, Outcome)>,
    /// The history of former incarnations as far as anything that escaped may depend on it.
    former: Vec<(Call, Outcome)>,
    /// How much of history, or former, that is.
    must: usize,
    received: BTreeSet<MsgId>,
    /// What each request may get.
    postings: Vec<Posting>,
    /// Of each event, what it may depend on.
    events: Vec<[u64; MOST]>,
    /// Its last checkpoint that is not there yet, and the one that is.
    taken: Option<Kept>,
    committed: Option<Kept>,
}

/// Knows everything.
pub struct Oracle {
    causal: bool,
    loses_rings: bool,
    /// Whose events are stable together.
    groups: Vec<Vec<Rank>>,
    sets: Vec<Vec<Rank>>,
    set_of: Vec<usize>,
    ranks: Vec<Known>,
    channels: Vec<Channel>,
    /// What answers to synchronous messages may depend on: by who gives them, to which message, and to which send. With the
    /// incarnation that gave them.
    answers: BTreeMap<(Rank, MsgId, SendName), (u32, Past)>,
}

impl Oracle {
    /// Of a job that has not started.
    pub fn new(case: &Case) -> Self {
        let count = case.ranks as usize;
        Oracle {
            causal: case.causal,
            loses_rings: case.loses_rings(),
            groups: case.groups(),
            sets: case.sets.clone(),
            set_of: (0..case.ranks).map(|rank| case.set_of(rank)).collect(),
            ranks: (0..count).map(|_| Known::default()).collect(),
            channels: (0..count * count * CONTEXTS.len()).map(|_| Channel::default()).collect(),
            answers: BTreeMap::new(),
        }
    }

    fn channel(&mut self, from: Rank, to: Rank, context: u16) -> &mut Channel {
        let at = (from as usize * self.ranks.len() + to as usize) * CONTEXTS.len();
        &mut self.channels[at + usize::from(context)]
    }

    fn apart(&self, a: Rank, b: Rank) -> bool {
        self.set_of[a as usize] != self.set_of[b as usize]
    }

    /// The set of a rank has died.
    pub fn died(&mut self, rank: Rank) {
        let known = &mut self.ranks[rank as usize];
        if known.history.len() > known.former.len() {
            known.former = std::mem::take(&mut known.history);
        }
        known.history.clear();
        if !self.loses_rings {
            known.former.truncate(known.must);
        }
        known.received.clear();
        known.postings.clear();
        known.past = Past::default();
        known.taken = None;
        for to in 0..self.ranks.len() as u32 {
            for context in CONTEXTS {
                self.channel(rank, to, context).sent.clear();
            }
        }
    }

    /// A rank starts again, with its events up to this clock, and from its checkpoint if it has one.
    ///
    /// # Errors
    /// What is violated.
    pub fn starts(&mut self, rank: Rank, clock: u64, wiring: &Wiring, logger: &Logger) -> Checked {
        self.goes_on(rank);
        self.keeps_all(rank, wiring)?;
        let Known { past, events, .. } = &mut self.ranks[rank as usize];
        past.clocks[rank as usize] = clock;
        match clock.checked_sub(1) {
            Some(last) if self.loses_rings => {
                past.clocks = events[last as usize];
                self.knows_its_past(rank, wiring, logger)
            }
            _ => Ok(()),
        }
    }

    /// A rank has made the event of this clock.
    pub fn wrote(&mut self, rank: Rank, clock: u64) {
        let known = &mut self.ranks[rank as usize];
        known.past.clocks[rank as usize] = clock;
        known.events.truncate(clock as usize - 1);
        known.events.push(known.past.clocks);
    }

    /// No event of a set is stable while one of the set that it may depend on is not: a member could
    /// else be replayed with what another will not do again.
    ///
    /// # Errors
    /// What is violated.
    pub fn fits_together(&self, set: usize, logger: &Logger) -> Checked {
        if self.causal && !self.loses_rings {
            // All that was written is there, stable or not.
            return Ok(());
        }
        let members = &self.groups[set];
        for &member in members {
            let stable = logger.stable(member) as usize;
            let Some(past) =
                stable.checked_sub(1).map(|last| self.ranks[member as usize].events[last])
            else {
                continue;
            };
            for &other in members {
                let (needs, has) = (past[other as usize], logger.stable(other));
                if needs > has {
                    let text = format!(
                        "event {stable} of rank {member} is stable; it may depend on event {needs} of \
                         rank {other}, of which event {has} is the last that is stable"
                    );
                    return violation("a set is stable together", text);
                }
            }
        }
        Ok(())
    }

    /// A call has come to something.
    ///
    /// # Errors
    /// What is violated.
    pub fn called(&mut self, rank: Rank, call: &Call, outcome: &Outcome) -> Checked {
        let known = &mut self.ranks[rank as usize];
        let at = known.history.len();
        if at < known.must
            && let Some((was, came)) = known.former.get(at)
            && (was, came) != (call, outcome)
        {
            let text = format!(
                "rank {rank} has called as number {at} {was:?} with outcome {came:?}, something that \
                 escaped depends on it, and now it calls {call:?} with outcome {outcome:?}"
            );
            return violation("the same history", text);
        }
        known.history.push((call.clone(), outcome.clone()));
        known.past.calls[rank as usize] = at + 1;
        match (call, outcome) {
            (Call::Send { to, context, tag, body, sync }, Outcome::Sent { seq }) => {
                let content = Content { tag: *tag, body: *body, sync: *sync };
                self.sent(rank, *to, (*context, *seq), content)
            }
            (Call::Matched { to, context, seq }, _) => {
                self.is_matched(*to, MsgId { source: rank, context: *context, seq: *seq })
            }
            (Call::Post(posting) | Call::Claim(posting), Outcome::Request(_)) => {
                known.postings.push(*posting);
                Ok(())
            }
            (Call::Probe(posting), Outcome::Seen { name, tag }) => fits(posting, *name, *tag),
            (Call::Wait(req) | Call::Test(req), Outcome::Message(message)) => {
                self.received(rank, *req, message)
            }
            (Call::WaitAny(reqs), Outcome::Any(index, message)) => {
                self.received(rank, reqs[*index], message)
            }
            _ => Ok(()),
        }
    }

    fn sent(
        &mut self,
        from: Rank,
        to: Rank,
        (context, seq): (u16, u32),
        content: Content,
    ) -> Checked {
        let past = self.ranks[from as usize].past;
        let channel = self.channel(from, to, context);
        if channel.sent.len() != seq as usize {
            let text = format!("rank {from} sends to {to} number {seq}, {} was due", {
                channel.sent.len()
            });
            return violation("exactly-once", text);
        }
        channel.sent.push(Sent { content, past });
        match channel.escaped.get(seq as usize) {
            Some(Some(Sent { content: before, .. })) if *before != content => {
                let text = format!(
                    "message {seq} of {from} to {to}, context {context}, has left as {before:?}, and is \
                     now {content:?}"
                );
                violation("no orphans", text)
            }
            _ => Ok(()),
        }
    }

    fn received(&mut self, rank: Rank, req: Req, message: &Message) -> Checked {
        let MsgId { source, context, seq } = message.name;
        fits(&self.ranks[rank as usize].postings[req], message.name, message.tag)?;
        let name = message.name;
        if !self.ranks[rank as usize].received.insert(name) {
            return violation("exactly-once", format!("rank {rank} has received {name:?} twice"));
        }
        let apart = self.apart(source, rank);
        let channel = self.channel(source, rank, context);
        let content = match apart {
            true => channel.escaped.get(seq as usize).copied().flatten(),
            false => channel.sent.get(seq as usize).copied(),
        };
        let content = content.map(|sent| sent.content);
        let expected = content.map(|content| (content.tag, content.body.words));
        if expected != Some((message.tag, message.words)) {
            let text =
                format!("rank {rank} has received {message:x?}, and what was sent is {content:x?}");
            return violation("whole-message", text);
        }
        Ok(())
    }

    /// A piece of a message has left its sender.
    ///
    /// # Errors
    /// What is violated.
    pub fn leaves(
        &mut self,
        from: Rank,
        to: Rank,
        (context, seq): (u16, u32),
        wiring: &Wiring,
        logger: &Logger,
    ) -> Checked {
        let apart = self.apart(from, to);
        if !apart && !self.causal {
            return Ok(());
        }
        if apart && !wiring.log_to(to).any(|logged| logged == (context, seq)) {
            let text = format!("message {seq} of {from} to {to}, context {context}, is not logged");
            return violation("logged-before-visible", text);
        }
        let channel = self.channel(from, to, context);
        let Some(sent) = channel.sent.get(seq as usize).copied() else {
            return violation("no orphans", format!("rank {from} has not sent {seq} to {to}"));
        };
        let seq = seq as usize;
        if channel.escaped.len() <= seq {
            channel.escaped.resize(seq + 1, None);
        }
        channel.escaped[seq] = Some(sent);
        let what = || format!("message {seq} of {from} to {to}, context {context},");
        self.escapes(from, to, &sent.past, logger, what)
    }

    /// Something leaves a rank on which another one resumes, and which may depend on this
    /// (*stable-before-escape*).
    fn escapes(
        &mut self,
        from: Rank,
        to: Rank,
        past: &Past,
        logger: &Logger,
        what: impl Fn() -> String,
    ) -> Checked {
        if self.causal {
            if !self.loses_rings {
                self.must_be_repeated(past);
            }
            return Ok(());
        }
        if !self.apart(from, to) {
            return Ok(());
        }
        for &member in &self.sets[self.set_of[from as usize]] {
            let known = &mut self.ranks[member as usize];
            known.must = known.must.max(past.calls[member as usize]);
            let (needs, stable) = (past.clocks[member as usize], logger.stable(member));
            if needs > stable {
                let text = format!(
                    "{} leaves the set: it may depend on event {needs} of rank {member}, and event {stable} \
                     is the last that is stable",
                    what()
                );
                return violation("stable-before-escape", text);
            }
        }
        Ok(())
    }

    /// Something that may depend on this has come, and its receiver resumes.
    fn resumes(
        &mut self,
        from: Rank,
        to: Rank,
        past: &Past,
        wiring: &Wiring,
        logger: &Logger,
    ) -> Checked {
        if self.causal {
            self.ranks[to as usize].past.merge(past);
            self.must_be_repeated(past);
            return self.knows_its_past(to, wiring, logger);
        }
        if !self.apart(from, to) {
            self.ranks[to as usize].past.merge(past);
        }
        Ok(())
    }

    /// A rank has taken a piece in.
    ///
    /// # Errors
    /// What is violated.
    pub fn arrives(
        &mut self,
        from: Rank,
        to: Rank,
        (context, seq): (u16, u32),
        wiring: &Wiring,
        logger: &Logger,
    ) -> Checked {
        if self.causal {
            return self.arrives_causal(from, to, (context, seq), wiring, logger);
        }
        match self.channel(from, to, context).sent.get(seq as usize).copied() {
            Some(sent) => self.resumes(from, to, &sent.past, wiring, logger),
            None => Ok(()),
        }
    }

    /// Nothing that a rank has sent out of its set has left its log, but for what a checkpoint of its
    /// receiver covers.
    ///
    /// # Errors
    /// What is violated.
    pub fn keeps_all(&mut self, rank: Rank, wiring: &Wiring) -> Checked {
        for to in 0..self.ranks.len() as u32 {
            if !self.apart(rank, to) {
                continue;
            }
            let sent = CONTEXTS.map(|context| self.channel(rank, to, context).sent.len());
            let (count, kept) = (sent.iter().sum::<usize>(), wiring.log_to(to).count());
            if count == kept {
                continue;
            }
            let log: BTreeSet<_> = wiring.log_to(to).collect();
            let channels = CONTEXTS.into_iter().zip(sent);
            let mut all = channels.flat_map(|(context, len)| {
                (0..len as u32).map(move |seq| MsgId { source: rank, context, seq })
            });
            let lacks = all
                .find(|name| !log.contains(&(name.context, name.seq)) && !self.covers(to, *name));
            if let Some(name) = lacks {
                let text = format!(
                    "rank {rank} has sent {name:?} to {to}, no checkpoint of {to} covers it, and it is \
                     not in the log"
                );
                return violation("no-early-discard", text);
            }
        }
        Ok(())
    }
}

/// A receive, probe or claim got something that it asks for.
fn fits(posting: &Posting, name: MsgId, tag: u64) -> Checked {
    let MsgId { source, context, seq } = name;
    if posting.takes(&Envelope { source, context, tag, seq, ..Envelope::default() }) {
        return Ok(());
    }
    violation("what was asked for", format!("{posting:?} got {name:?} with tag {tag}"))
}
