//! Answers to synchronous messages: whoever is answered resumes, and may tell others.

use super::{Checked, Oracle, violation};
use crate::logger::Logger;
use crate::wiring::{SyncAnswer, Wiring};
use taffrail_logging::{MsgId, Rank};

impl Oracle {
    /// A rank, in this incarnation, has matched a synchronous message of another one, and is about to say so. If it has
    /// said so before, what it has done since does not matter.
    pub fn answers(&mut self, (rank, incarnation): (Rank, u32), to: Rank, answer: &SyncAnswer) {
        let message = MsgId { source: to, context: answer.context, seq: answer.seq };
        let new = (incarnation, self.ranks[rank as usize].past);
        let known = self.answers.entry((rank, message, answer.send)).or_insert(new);
        if known.0 != incarnation {
            *known = new;
        }
    }

    /// An answer leaves its rank.
    ///
    /// # Errors
    /// What is violated.
    pub fn answer_leaves(
        &mut self,
        rank: Rank,
        to: Rank,
        answer: &SyncAnswer,
        logger: &Logger,
    ) -> Checked {
        let message = MsgId { source: to, context: answer.context, seq: answer.seq };
        let Some((_, past)) = self.answers.get(&(rank, message, answer.send)).copied() else {
            return violation(
                "acknowledged-is-matched",
                format!("rank {rank} answers {message:?}"),
            );
        };
        let what = || format!("the answer of {rank} to {message:?}");
        self.escapes(rank, to, &past, logger, what)
    }

    /// A rank has taken an answer in.
    ///
    /// # Errors
    /// What is violated.
    pub fn answer_arrives(
        &mut self,
        from: Rank,
        to: Rank,
        answer: &SyncAnswer,
        wiring: &Wiring,
        logger: &Logger,
    ) -> Checked {
        let message = MsgId { source: to, context: answer.context, seq: answer.seq };
        let Some((_, past)) = self.answers.get(&(from, message, answer.send)).copied() else {
            return Ok(());
        };
        self.resumes(from, to, &past, wiring, logger)
    }

    /// A synchronous send is over.
    pub(super) fn is_matched(&self, by: Rank, message: MsgId) -> Checked {
        let mut answers =
            self.answers.range((by, message, (0, 0))..=(by, message, (u16::MAX, u16::MAX)));
        if answers.next().is_some() || self.covers(by, message) {
            return Ok(());
        }
        let text = format!("the send of {message:?} is over, and rank {by} has not matched it");
        violation("acknowledged-is-matched", text)
    }
}
