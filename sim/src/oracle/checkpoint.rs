//! Checkpoints: what was done before one stays done, and what it covers is not asked for again.

use super::{CONTEXTS, Oracle, Past, Sent};
use std::collections::BTreeSet;
use taffrail_logging::{MsgId, Rank};
use taffrail_matching::Posting;

/// What is known of a rank as of its checkpoint.
pub(super) struct Kept {
    past: Past,
    /// Calls of its program.
    calls: usize,
    received: BTreeSet<MsgId>,
    postings: Vec<Posting>,
    /// What it has sent in each channel: to a rank, in a context.
    sent: Vec<(Rank, u16, Vec<Sent>)>,
}

impl Oracle {
    /// A rank takes a checkpoint.
    pub fn takes(&mut self, rank: Rank) {
        let mut sent = Vec::new();
        for to in 0..self.ranks.len() as u32 {
            for context in CONTEXTS {
                sent.push((to, context, self.channel(rank, to, context).sent.clone()));
            }
        }
        let known = &mut self.ranks[rank as usize];
        known.taken = Some(Kept {
            past: known.past,
            calls: known.history.len(),
            received: known.received.clone(),
            postings: known.postings.clone(),
            sent,
        });
    }

    /// The checkpoint that a rank has taken is there: nothing from before it is done again.
    pub fn commits(&mut self, rank: Rank) {
        let known = &mut self.ranks[rank as usize];
        if let Some(kept) = known.taken.take() {
            known.must = known.must.max(kept.calls);
            known.committed = Some(kept);
        }
    }

    /// Whether a committed checkpoint of a rank covers a message: it has received it.
    pub(super) fn covers(&self, rank: Rank, message: MsgId) -> bool {
        let committed = &self.ranks[rank as usize].committed;
        committed.as_ref().is_some_and(|kept| kept.received.contains(&message))
    }

    /// A rank that starts is where its checkpoint was taken, if it has one.
    pub(super) fn goes_on(&mut self, rank: Rank) {
        let known = &mut self.ranks[rank as usize];
        let Some(kept) = known.committed.take() else { return };
        known.past = kept.past;
        known.history = known.former[..kept.calls].to_vec();
        known.received = kept.received.clone();
        known.postings = kept.postings.clone();
        for (to, context, sent) in &kept.sent {
            self.channel(rank, *to, *context).sent.clone_from(sent);
        }
        self.ranks[rank as usize].committed = Some(kept);
    }
}
