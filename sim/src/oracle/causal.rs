//! Causal logging: what depends on what is followed through all messages.

use super::{CONTEXTS, Checked, Oracle, Past, violation};
use crate::logger::Logger;
use crate::wiring::Wiring;
use taffrail_logging::Rank;

impl Oracle {
    /// A rank has taken a piece of a message in, and depends on what the message depends on
    /// (*determinant-before-effect*).
    pub(super) fn arrives_causal(
        &mut self,
        from: Rank,
        to: Rank,
        (context, seq): (u16, u32),
        wiring: &Wiring,
        logger: &Logger,
    ) -> Checked {
        // Its sender may be dead by now.
        let sent = self.channel(from, to, context).escaped.get(seq as usize).copied().flatten();
        let Some(sent) = sent else {
            return violation("no orphans", format!("rank {from} has not sent {seq} to {to}"));
        };
        self.resumes(from, to, &sent.past, wiring, logger)
    }

    /// A rank knows all events that it depends on, or they are stable.
    pub(super) fn knows_its_past(&self, rank: Rank, wiring: &Wiring, logger: &Logger) -> Checked {
        let past = &self.ranks[rank as usize].past.clocks;
        for (of, &clock) in (0..self.ranks.len() as u32).zip(past) {
            if clock > logger.stable(of) && !wiring.knows(of, clock) {
                let text = format!(
                    "rank {rank} depends on event {clock} of rank {of}, which it does not know, and \
                     event {} is the last that is stable",
                    logger.stable(of)
                );
                return violation("determinant-before-effect", text);
            }
        }
        Ok(())
    }

    /// Somebody depends on this.
    pub(super) fn must_be_repeated(&mut self, past: &Past) {
        for (known, &calls) in self.ranks.iter_mut().zip(&past.calls) {
            known.must = known.must.max(calls);
        }
    }

    /// A rank is about to be started again, and its ring is lost. What nobody who lives depends on may
    /// become something else.
    pub fn forgets(&mut self, rank: Rank, lives: impl Fn(Rank) -> bool) {
        let all = 0..self.ranks.len() as u32;
        let alive = all.clone().filter(|&other| lives(other));
        let calls = alive.map(|other| self.ranks[other as usize].past.calls[rank as usize]);
        let must = calls.max().unwrap_or(0);
        let known = &mut self.ranks[rank as usize];
        known.must = must;
        known.former.truncate(must);
        for to in all {
            for context in CONTEXTS {
                for escaped in &mut self.channel(rank, to, context).escaped {
                    *escaped = escaped.filter(|sent| sent.past.calls[rank as usize] <= must);
                }
            }
        }
    }
}
