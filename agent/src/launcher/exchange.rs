//! The start-up exchange over nodes: values that ranks put, their addresses, and barriers.

use crate::wire::{Frame, Malformed};
use crate::{RankIncarnation, VALUES_MAX};
use std::collections::BTreeMap;

/// What the launcher keeps of the exchange, for nodes that come up late.
#[derive(Debug)]
pub(super) struct Exchange {
    values: BTreeMap<String, (RankIncarnation, String)>,
    ranks: Vec<Entered>,
    /// Barriers that all ranks have entered.
    complete: u64,
}

#[derive(Clone, Debug, Default)]
struct Entered {
    /// Barriers that the present incarnation has entered, or found open.
    barriers: u64,
    /// It enters no more.
    gone: bool,
    values: u32,
    address: Option<(RankIncarnation, Vec<u8>)>,
}

impl Exchange {
    pub fn new(ranks: usize) -> Exchange {
        Exchange { values: BTreeMap::new(), ranks: vec![Entered::default(); ranks], complete: 0 }
    }

    /// A rank starts as a new incarnation, which has entered no barrier.
    pub fn begin(&mut self, rank: u32) {
        let entered = &mut self.ranks[rank as usize];
        entered.address = None;
        entered.values = 0;
        if !mutant!(EnteredByTheDead) {
            entered.barriers = 0;
        }
    }

    /// A rank has put a value.
    pub fn put(&mut self, life: RankIncarnation, key: &str, value: &str) -> Result<(), Malformed> {
        let entered = &mut self.ranks[life.rank as usize];
        entered.values += 1;
        if entered.values > VALUES_MAX {
            return Err(Malformed::new("values of a rank", VALUES_MAX, entered.values));
        }
        self.values.insert(key.to_owned(), (life, value.to_owned()));
        Ok(())
    }

    /// A rank can be reached there.
    pub fn address(&mut self, life: RankIncarnation, address: &[u8]) {
        self.ranks[life.rank as usize].address = Some((life, address.to_vec()));
    }

    /// A rank has entered a barrier. Whether that is complete now.
    pub fn enter(&mut self, rank: u32, barrier: u64) -> Result<bool, Malformed> {
        let entered = &mut self.ranks[rank as usize];
        // Those that are complete are open to a new incarnation without a word.
        if barrier != self.complete + 1 || entered.barriers >= barrier {
            return Err(Malformed::new("barrier", self.complete + 1, barrier));
        }
        entered.barriers = barrier;
        let complete = self.ranks.iter().all(|rank| rank.barriers > self.complete);
        self.complete += u64::from(complete);
        Ok(complete)
    }

    /// A rank enters no more.
    pub fn leave(&mut self, rank: u32) {
        self.ranks[rank as usize].gone = true;
    }

    /// A rank that waits in a barrier for one that is gone.
    pub fn stuck(&self) -> Option<(u32, u32)> {
        let waits = self.ranks.iter().position(|rank| rank.barriers > self.complete)?;
        let gone =
            self.ranks.iter().position(|rank| rank.gone && rank.barriers <= self.complete)?;
        Some((waits as u32, gone as u32))
    }

    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// Everything, for a node that has nothing yet.
    pub fn whole(&self) -> Vec<Frame> {
        let mut frames = Vec::new();
        if !mutant!(LateNodeWithoutValues) {
            let values = self.values.iter().map(|(key, (life, value))| Frame::Put {
                life: *life,
                key: key.clone(),
                value: value.clone(),
            });
            frames.extend(values);
        }
        let addresses = self.ranks.iter().filter_map(|rank| rank.address.clone());
        frames.extend(addresses.map(|(life, address)| Frame::Address { life, address }));
        if self.complete > 0 && !mutant!(LateNodeWithoutBarriers) {
            frames.push(Frame::Complete { barriers: self.complete });
        }
        frames
    }
}
