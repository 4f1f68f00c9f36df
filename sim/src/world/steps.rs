//! Which steps there are, and which one is done.

use super::World;
use taffrail_logging::Rank;

/// A step that can be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A rank makes its call.
    Run(Rank),
    /// A frame leaves a rank for a peer.
    Leave(Rank, Rank),
    /// A rank looks at a frame from a peer.
    Arrive(Rank, Rank),
    /// A rank gives up its connection with a peer.
    GiveUp(Rank, Rank),
    /// Two ranks connect.
    Connect(Rank, Rank),
    /// A rank takes a checkpoint; it is there.
    Checkpoint(Rank),
    Commit(Rank),
    /// A survivor says what it holds.
    Ask(Rank),
    /// A rank starts again.
    Start(Rank),
    /// The logger begins a cut of a set; it is stable.
    BeginCut(usize),
    EndCut(usize),
    /// The logger starts again; a rank writes again to it.
    StartLogger,
    WriteAgain(Rank),
    /// A frame of a dead incarnation comes.
    Stray,
}

impl World<'_> {
    /// All that can be done now.
    pub(super) fn possible(&self, steps: &mut Vec<Step>) {
        steps.clear();
        let dead = |rank: Rank| self.ranks[rank as usize].is_none();
        for rank in 0..self.case.ranks {
            let Some(live) = &self.ranks[rank as usize] else {
                if self.may_start(rank) {
                    steps.push(Step::Start(rank));
                }
                continue;
            };
            if self.may_take(rank) {
                steps.push(Step::Checkpoint(rank));
            }
            if self.storing[rank as usize].is_some() {
                steps.push(Step::Commit(rank));
            }
            if self.is_to_answer(rank) {
                steps.push(Step::Ask(rank));
            }
            if live.call.is_some() && !live.waits {
                steps.push(Step::Run(rank));
            }
            if self.logger.awaits(rank) {
                steps.push(Step::WriteAgain(rank));
            }
            for peer in (0..self.case.ranks).filter(|&peer| peer != rank) {
                let end = self.network.see(rank, peer);
                if !end.open {
                    let other = self.network.see(peer, rank);
                    if peer < rank && !dead(peer) && !other.open {
                        steps.push(Step::Connect(rank, peer));
                    }
                    continue;
                }
                if live.wiring.may_leave(peer) {
                    steps.push(Step::Leave(rank, peer));
                }
                if !end.inbox.is_empty() {
                    steps.push(Step::Arrive(rank, peer));
                }
                if end.cut {
                    steps.push(Step::GiveUp(rank, peer));
                }
            }
        }
        for set in 0..self.case.groups().len() {
            if self.logger.can_cut(set) {
                steps.push(Step::BeginCut(set));
            }
            if self.logger.can_sync(set) {
                steps.push(Step::EndCut(set));
            }
        }
        if !self.logger.runs {
            steps.push(Step::StartLogger);
        }
        if !self.network.strays.is_empty() {
            steps.push(Step::Stray);
        }
    }

    /// One of them, by chance.
    pub(super) fn choose(&mut self, steps: &[Step]) -> Option<Step> {
        let mut chosen = *steps.get(self.random.usize(0..steps.len().max(1)))?;
        for _ in 0..3 {
            let kind = match chosen {
                Step::Run(rank) => (rank as usize) % 2,
                Step::Leave(..) => 2,
                Step::Arrive(..) => 3,
                Step::GiveUp(..) => 4,
                Step::Connect(..) => 5,
                Step::Start(..) | Step::Ask(_) => 6,
                Step::BeginCut(_) => 7,
                Step::EndCut(_) => 11,
                Step::StartLogger => 8,
                Step::WriteAgain(_) => 9,
                Step::Stray => 10,
                Step::Checkpoint(_) | Step::Commit(_) => 12,
            };
            if self.random.u8(..) >= self.reluctance[kind] {
                break;
            }
            chosen = steps[self.random.usize(0..steps.len())];
        }
        Some(chosen)
    }
}
