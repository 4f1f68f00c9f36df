//! What jobs came to.

/// What a run came to, or several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub finished: u32,
    pub failed: u32,
    pub restarts: u32,
    pub nodes_lost: u32,
    pub fenced: u32,
    pub moved: u32,
    pub recovered: u32,
    pub from_copies: u32,
    /// Of these, with events that only survivors had.
    pub from_survivors: u32,
    /// Of these, those that had a checkpoint.
    pub from_checkpoints: u32,
    /// Logs of lost nodes that were brought to another node than the one with the copy.
    pub brought: u32,
    /// Ranks whose logs could not be brought where they were to be.
    pub brought_again: u32,
    /// Copies that were asked for and are gone.
    pub lacking: u32,
    /// Jobs that have finished, of which only the reliable host was left.
    pub alone: u32,
    /// Jobs that have finished after several nodes were lost at once, as many as their copies allow.
    pub together: u32,
    /// Nodes that were ended, since another one did not reach them.
    pub revoked: u32,
    /// Ranks that have sent FINALIZING again, when they knew of a restart.
    pub finalizing_again: u32,
    pub steps: u32,
}

impl Ended {
    pub fn add(&mut self, other: &Ended) {
        self.finished += other.finished;
        self.failed += other.failed;
        self.restarts += other.restarts;
        self.nodes_lost += other.nodes_lost;
        self.fenced += other.fenced;
        self.moved += other.moved;
        self.recovered += other.recovered;
        self.from_copies += other.from_copies;
        self.from_survivors += other.from_survivors;
        self.from_checkpoints += other.from_checkpoints;
        self.brought += other.brought;
        self.brought_again += other.brought_again;
        self.lacking += other.lacking;
        self.alone += other.alone;
        self.together += other.together;
        self.revoked += other.revoked;
        self.finalizing_again += other.finalizing_again;
        self.steps += other.steps;
    }
}
