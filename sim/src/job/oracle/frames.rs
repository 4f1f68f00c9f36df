//! What the oracle learns from the frames that leave and arrive.

use super::{Oracle, Past};
use crate::fabric::Frame;
use crate::job::paths::Path;
use crate::logger::Logger;
use taffrail_engine::kind;
use taffrail_logging::{MsgId, Rank, Received, Restart, RestartPhase};

impl Oracle {
    /// The network has accepted a frame.
    pub(in crate::job) fn leaves(&mut self, frame: &Frame<'_>, logger: &Logger) {
        let (from, to) = (frame.from as Rank, frame.to as Rank);
        self.frames.count(frame.head.kind);
        let restart = self.whole_restart(frame);
        self.see(frame, restart.as_ref());
        self.keeps_stops(frame);
        let needs = self.needs(frame);
        if self.causal {
            let needs = needs.unwrap_or_default();
            if !self.loses_rings {
                self.must_be_repeated(&needs);
            }
            self.flights.insert(frame.number, needs);
            return;
        }
        if self.set_of[frame.from] == self.set_of[frame.to] {
            // Ranks of a set wait for all events of all others, when they make a frame that leaves it.
            let calls = needs.unwrap_or_default().calls;
            let clocks = self.past[frame.from].clocks;
            self.flights.insert(frame.number, Past { clocks, calls });
            return;
        }
        if let Some(restart) = restart.filter(|restart| restart.phase == RestartPhase::Committed) {
            return self.commits(frame, &restart.received);
        }
        if let Some(needs) = needs {
            let what = format!("a frame of kind {} of {from} to {to}", frame.head.kind);
            self.escapes(from, &needs, &what, logger);
        }
    }

    /// A rank publishes that its program has completed: all ranks may depend on that.
    pub(in crate::job) fn publishes_finalizing(&mut self, rank: Rank, logger: &Logger) {
        let Some(needs) = self.ends[rank as usize] else {
            return self
                .violated("stable-before-escape", format!("FINALIZING of {rank} before its end"));
        };
        self.escapes(rank, &needs, &format!("FINALIZING of {rank}"), logger);
    }

    /// Something leaves the set of a rank that depends on this. In causal logging: it leaves without determinants.
    fn escapes(&mut self, from: Rank, needs: &Past, what: &str, logger: &Logger) {
        for member in 0..self.set_of.len() {
            if !self.causal && self.set_of[member] != self.set_of[from as usize] {
                continue;
            }
            let history = &mut self.histories[member];
            history.must = history.must.max(needs.calls[member]);
            let (needs, stable) = (needs.clocks[member], logger.stable(member as Rank));
            if needs > stable {
                let text = format!(
                    "{what} leaves the set: it depends on event {needs} of rank {member}, and event {stable} is the last \
                     that is stable"
                );
                self.violated("stable-before-escape", text);
            }
        }
    }

    /// A message of the restart exchange whose last piece this frame is.
    fn whole_restart(&mut self, frame: &Frame<'_>) -> Option<Restart> {
        if frame.head.kind != kind::RESTART {
            return None;
        }
        let piece = Restart::decode(frame.payload).ok()?;
        let begun = self.seen.begun_restarts.entry((frame.from, frame.to)).or_default();
        // The rest of the one before was lost with its link.
        begun.take_if(|_| !piece.continues);
        let whole = Restart::join(begun, piece.clone());
        if piece.continues && !piece.more {
            self.paths.reach(Path::RestartInPieces);
        }
        whole.ok()?
    }

    /// Notes which paths a frame shows, or the message of the restart exchange that ends with it.
    fn see(&mut self, frame: &Frame<'_>, restart: Option<&Restart>) {
        let (from, to, head) = (frame.from as Rank, frame.to as Rank, frame.head);
        match head.kind {
            kind::EAGER
            | kind::EAGER_SYNC
            | kind::EAGER_FIRST
            | kind::EAGER_DATA
            | kind::RTS
            | kind::RTS_DATA => {
                let name = (from, to, head.context, head.seq);
                self.seen.stay.remove(&name);
                if !self.seen.left.insert(name) {
                    self.paths.reach(Path::SentAgain);
                }
            }
            _ => {}
        }
        match restart {
            Some(Restart { phase: RestartPhase::First, .. })
                if !self.seen.begun.insert((from, to)) =>
            {
                self.paths.reach(Path::ExchangeRepeated);
            }
            Some(Restart { phase: RestartPhase::Committed, received, .. })
                if self.seen.told.insert((from, to), received.clone()).as_ref()
                    == Some(received) =>
            {
                self.paths.reach(Path::CommittedRepeated);
            }
            _ => {}
        }
    }

    /// What a frame depends on, as far as that is known.
    fn needs(&mut self, frame: &Frame<'_>) -> Option<Past> {
        let (from, to, head) = (frame.from as Rank, frame.to as Rank, frame.head);
        let named_at = match head.kind {
            kind::EAGER_SYNC => Some(0),
            kind::RTS => Some(8),
            kind::RTS_DATA => Some(16),
            _ => None,
        };
        if let Some(name) = named_at.and_then(|at| frame.payload.get(at..at + 8)) {
            let name = u64::from_le_bytes(name.try_into().ok()?);
            let message = MsgId { source: from, context: head.context, seq: head.seq };
            self.names.insert((from, to, name), message);
        }
        if let (kind::LOAN, Some(loan)) = (head.kind, frame.payload.get(8..16)) {
            let loan = u64::from_le_bytes(loan.try_into().ok()?);
            let message = MsgId { source: from, context: head.context, seq: head.seq };
            self.loans.insert((from, to, loan), message);
        }
        match head.kind {
            kind::EAGER | kind::EAGER_SYNC | kind::EAGER_FIRST | kind::EAGER_DATA => {
                self.sends.get(&(from, to, head.context, head.seq)).copied()
            }
            kind::RTS | kind::RTS_DATA | kind::LOAN => {
                self.sends.get(&(from, to, head.context, head.seq)).copied()
            }
            kind::CTS | kind::ACK => {
                let message = self.names.get(&(to, from, head.tag))?;
                self.matches.get(&(from, *message)).copied()
            }
            kind::LOAN_RETURN => {
                let message = self.loans.get(&(to, from, head.tag))?;
                self.matches.get(&(from, *message)).copied()
            }
            kind::FINALIZE | kind::FINALIZE_NAK => self.ends[frame.from],
            _ => None,
        }
    }

    /// What a rank says of its checkpoint is what its last one covers (*commit-then-announce*), or, where checkpoints are
    /// copied, what the last one covers that is on another node (*announced-is-elsewhere*).
    fn commits(&mut self, frame: &Frame<'_>, received: &Received) {
        let saved = self.announceable(frame.from);
        let covered = saved.map(|position| &position.sides[frame.to].received);
        if !covered.is_some_and(|covered| covers(covered, received)) {
            let text = format!(
                "rank {} tells {} that its checkpoint covers {:?}, and what it has covers {covered:?}",
                frame.from, frame.to, received
            );
            self.violated("commit-then-announce", text);
        }
    }

    /// A message is handed over: its receiver depends on what it depends on.
    pub(in crate::job) fn arrives(&mut self, number: u64, to: usize) {
        self.stops.arrives(number);
        let Some(brings) = self.flights.get(&number).copied() else { return };
        let mine = self.past[to];
        let Past { clocks, calls } = &mut self.past[to];
        clocks.iter_mut().zip(brings.clocks).for_each(|(has, brings)| *has = brings.max(*has));
        calls.iter_mut().zip(brings.calls).for_each(|(has, brings)| *has = brings.max(*has));
        (clocks[to], calls[to]) = (mine.clocks[to], mine.calls[to]);
        if self.causal {
            self.must_be_repeated(&brings);
        }
    }
}

/// Whether all that `told` covers is covered.
fn covers(covered: &Received, told: &Received) -> bool {
    let next = |context: u16| {
        let found = covered.channels.iter().find(|(other, _)| *other == context);
        found.map_or(0, |(_, next)| *next)
    };
    told.channels.iter().all(|(context, seq)| *seq <= next(*context))
        && covered.missing.iter().all(|lacks| {
            told.missing.contains(lacks)
                || told.channels.iter().all(|(context, seq)| *context != lacks.0 || lacks.1 >= *seq)
        })
}
