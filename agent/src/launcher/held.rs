//! In causal logging, the events of a lost node's ranks that survivors hold: all other nodes are asked for what is in their
//! ranks' held tables. `docs/spec/agent.md`, section 11.

use super::Launcher;
use crate::NodeId;
use crate::wire::{Frame, HELD_MAX, Logging, Malformed};
use std::collections::BTreeSet;

/// What nodes are asked for, and what they have answered.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Of the last question; 0: there was none.
    number: u64,
    /// There is another question to be asked.
    is_new: bool,
    /// Nodes whose last part of an answer is missing.
    awaited: BTreeSet<NodeId>,
    /// What has come so far.
    determinants: Vec<u8>,
    /// Ranks of lost nodes, which wait for the answers.
    ranks: Vec<u32>,
}

impl Launcher {
    /// Whether messages bring the events along that they depend on.
    pub(super) fn is_causal(&self) -> bool {
        self.config.logging.as_ref().is_some_and(Logging::is_causal)
    }

    /// Whether answers are awaited.
    pub(super) fn is_asking(&self) -> bool {
        !self.survey.ranks.is_empty()
    }

    /// A rank of a lost node is to be recovered with what all others hold. They are asked behind the roster that says it is
    /// dead (*closed-door*).
    pub(super) fn ask_survivors(&mut self, rank: u32) {
        if !self.survey.ranks.contains(&rank) {
            self.survey.ranks.push(rank);
        }
        self.survey.is_new = true;
    }

    /// Asks what is to be asked. Those that were asked before are asked again: they may have taken something in from a node
    /// that was lost meanwhile.
    pub(super) fn check_survey(&mut self) {
        if !std::mem::take(&mut self.survey.is_new) || self.ending {
            return;
        }
        self.survey.number += 1;
        let up = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up());
        self.survey.awaited = up.map(|node| node as NodeId).collect();
        self.send_all(&Frame::AskHeld { number: self.survey.number });
    }

    /// A part of an answer.
    ///
    /// # Errors
    /// Nobody has asked.
    pub(super) fn held(
        &mut self,
        node: NodeId,
        number: u64,
        more: bool,
        determinants: &[u8],
    ) -> Result<(), Malformed> {
        let last = self.survey.number;
        if number == 0 || number > last {
            return Err(Malformed::new("question", format!("1 to {last}"), number));
        }
        // What is held is held, whatever the question was.
        if !self.survey.ranks.is_empty() {
            self.survey.determinants.extend_from_slice(determinants);
        }
        if number == last && !more {
            self.survey.awaited.remove(&node);
            if self.survey.awaited.is_empty() || mutant!(OneAnswerIsEnough) {
                self.answered();
            }
        }
        Ok(())
    }

    /// All have answered: the nodes with the copies get what is held, then the orders to recover.
    fn answered(&mut self) {
        let determinants = std::mem::take(&mut self.survey.determinants);
        let mut informed = BTreeSet::new();
        for rank in std::mem::take(&mut self.survey.ranks) {
            let home = self.ranks[rank as usize].home;
            let Some((node, copy)) = self.holder(home) else { return self.fail_without_log(rank) };
            if informed.insert(node) {
                for part in determinants.chunks(HELD_MAX) {
                    let (number, determinants) = (self.survey.number, part.to_vec());
                    self.send(node, Frame::Held { number, more: true, determinants });
                }
            }
            self.ask(rank, node, copy);
        }
    }

    /// A node is lost. What only its ranks hold of others is lost with it.
    pub(super) fn check_answers(&mut self, node: NodeId) {
        if self.survey.ranks.is_empty() || !self.survey.awaited.contains(&node) {
            return;
        }
        let name = &self.nodes[usize::from(node)].name;
        self.fail(format!(
            "node {name} was lost while it was asked for the events of ranks of another lost node: with --logging causal two \
             nodes must not be lost one shortly after the other"
        ));
    }
}
