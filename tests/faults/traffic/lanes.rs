//! The ways of talking.

use super::{Plan, pattern};
use std::sync::{Arc, Mutex};
use taffrail::{Endpoint, Rank};

/// Tags that are not lanes.
pub const KEYS: u64 = 1000;
pub const BYE: u64 = 1001;
pub const WRITTEN: u64 = 1002;
pub const CHECKED: u64 = 1003;

/// A way of talking: one stream of numbered messages from each rank to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// In one slot.
    Tiny,
    /// In several slots.
    Slots,
    /// In the outbox.
    Pooled,
    /// Eager, in pieces.
    Pieces,
    /// Announced, from plain memory.
    Long,
    /// Announced, so long that both sides move it.
    Huge,
    /// Announced, from memory of the endpoint's.
    Mapped,
    /// The sender waits for the match.
    Sync,
    /// Gathered and scattered.
    Vectored,
    /// Taken by claim.
    Claimed,
    /// Lent or not, and taken as a view.
    Viewed,
    /// Many messages into one buffer.
    Multi,
    /// Active messages.
    Active,
}

pub const ALL: [Lane; 13] = [
    Lane::Tiny,
    Lane::Slots,
    Lane::Pooled,
    Lane::Pieces,
    Lane::Long,
    Lane::Huge,
    Lane::Mapped,
    Lane::Sync,
    Lane::Vectored,
    Lane::Claimed,
    Lane::Viewed,
    Lane::Multi,
    Lane::Active,
];

impl Lane {
    /// The length of a message, in bytes.
    pub fn len(self, key: u64) -> usize {
        let mut random = fastrand::Rng::with_seed(key);
        let some = |of: &[usize]| of[(key >> 20) as usize % of.len()];
        match self {
            Lane::Tiny => random.usize(..=44),
            Lane::Slots => random.usize(45..=268),
            Lane::Pooled => random.usize(269..=16 << 10),
            Lane::Pieces => random.usize((16 << 10) + 1..=64 << 10),
            Lane::Long => random.usize((64 << 10) + 1..=300_000),
            Lane::Huge => random.usize(256 << 10..=2 << 20),
            Lane::Mapped => random.usize((64 << 10) + 1..=1 << 20),
            Lane::Sync | Lane::Vectored | Lane::Claimed => {
                random.usize(..=some(&[40, 20_000, 150_000]))
            }
            Lane::Viewed => random.usize(1..=400_000),
            Lane::Multi => random.usize(1..=some(&[40, 3000, 3000, 100_000])),
            Lane::Active => random.usize(..=some(&[40, 3000])),
        }
    }

    /// The longest message, in bytes.
    pub fn longest(self) -> usize {
        match self {
            Lane::Tiny | Lane::Slots | Lane::Pooled | Lane::Pieces => 64 << 10,
            Lane::Huge => 2 << 20,
            Lane::Mapped => 1 << 20,
            _ => 400_000,
        }
    }
}

/// The active messages that have come, of each rank.
pub struct Heard {
    next: Vec<u64>,
}

/// Counts and checks active messages.
pub fn listen(endpoint: &mut Endpoint, plan: Plan) -> Arc<Mutex<Heard>> {
    let (me, size) = (endpoint.rank(), endpoint.size());
    let heard = Arc::new(Mutex::new(Heard { next: vec![0; size as usize] }));
    let ours = heard.clone();
    endpoint.on_am(1, move |_, message| {
        let mut heard = ours.lock().unwrap();
        let next = &mut heard.next[message.source as usize];
        assert_eq!(message.header, *next, "active messages of rank {}", message.source);
        *next += 1;
        let key = plan.key(message.source, me, Lane::Active as u64, message.header);
        assert_eq!(message.payload.len(), Lane::Active.len(key));
        pattern::check(key, message.payload, format_args!("an active message"));
    });
    heard
}

impl Heard {
    /// How many have come from `rank`.
    pub fn of(&self, rank: Rank) -> u64 {
        self.next[rank as usize]
    }
}

/// Where a rank's windows come from.
pub fn window_key(plan: Plan, rank: Rank) -> u64 {
    plan.key(rank, rank, 2000, 0)
}
