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
    /// Jobs that have finished, of which only the reliable host was left.
    pub alone: u32,
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
        self.alone += other.alone;
        self.steps += other.steps;
    }
}
