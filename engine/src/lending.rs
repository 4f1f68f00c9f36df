//! Loans and buffers: memory of this rank that peers read in place, and what is on its way back.

mod returning;

use crate::Rank;
use crate::loan::{Buffer, Return, ReturnQueue};
use crate::peer::Peer;
use crate::pool::{Block, Pool};
use rustc_hash::FxHashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use taffrail_fabric::{Fabric, MemoryError, PeerId, RegionId};
use taffrail_logging::mutant;

/// The memory of this rank that is lent, and the way back.
///
/// *Invariant:* a block of the pool has one owner: the pool, a [`Buffer`] of the program, a loan that is out, or the queue of
/// what comes back. The number of a loan is given once.
#[derive(Default)]
pub struct Lending {
    /// What is on its way back from views and buffers that were dropped.
    back: Arc<ReturnQueue>,
    /// Empty: the memory in which `back` collects next.
    returns: Vec<Return>,
    pool: Pool,
    /// Our loans that are out: to whom, and what.
    loans: FxHashMap<u64, (Rank, Block)>,
    last_loan: u64,
}

impl Lending {
    /// Where views, buffers and claimed messages are put when they are dropped.
    pub(crate) fn queue(&self) -> Arc<ReturnQueue> {
        self.back.clone()
    }

    /// Whether something goes back there.
    pub(crate) fn is_queue(&self, back: &Arc<ReturnQueue>) -> bool {
        Arc::ptr_eq(&self.back, back)
    }

    /// What no other engine has.
    pub fn mark(&self) -> *const ReturnQueue {
        Arc::as_ptr(&self.back)
    }

    /// Whether a buffer is of this engine.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.back)
    }

    /// Whether something may have come back.
    #[inline(always)]
    pub(crate) fn has_returns(&self) -> bool {
        self.back.any()
    }

    /// What has come back: blocks are in the pool again, the others are the caller's, who
    /// [gives the list back](Self::keep_list).
    fn take_returns(&mut self) -> Vec<Return> {
        let mut things = std::mem::take(&mut self.returns);
        self.back.take(&mut things);
        for thing in things.extract_if(.., |thing| matches!(thing, Return::Block(_))) {
            if let Return::Block(block) = thing {
                self.pool.put(block);
            }
        }
        things
    }

    /// The memory of a list that is empty is used again.
    fn keep_list(&mut self, empty: Vec<Return>) {
        self.returns = empty;
    }

    /// A buffer of at least `len` bytes that peers can map.
    fn buffer(&mut self, fabric: &mut impl Fabric, len: usize) -> Result<Buffer, MemoryError> {
        let block = self.pool.take(fabric, len)?;
        Ok(Buffer::new(block, len, self.back.clone()))
    }

    /// Peers may access a buffer until it is back.
    pub(crate) fn let_reach(&mut self, buffer: &Buffer) {
        self.pool.let_reach(buffer.block(), buffer.len());
    }

    /// Where the bytes of a region are, if they are of a buffer that peers may access.
    pub(crate) fn reached(&self, region: u32, offset: usize, len: usize) -> Option<NonNull<u8>> {
        self.pool.reached(region, offset, len)
    }

    /// The region, and the place in it, of memory of the pool.
    pub(crate) fn find(&self, at: *const u8, len: usize) -> Option<(RegionId, usize)> {
        self.pool.find(at, len)
    }

    /// Lends a block to a rank: the number of the loan.
    pub(crate) fn lend(&mut self, to: Rank, block: Block) -> u64 {
        self.last_loan += 1;
        self.loans.insert(self.last_loan, (to, block));
        self.last_loan
    }

    /// Whether any loan of ours is out.
    pub(crate) fn is_any_out(&self) -> bool {
        !self.loans.is_empty()
    }

    /// Whether any loan of ours is out to this rank.
    pub(crate) fn has_lent_to(&self, rank: Rank) -> bool {
        self.loans.values().any(|(to, _)| *to == rank)
    }

    /// A loan of ours has come back from a rank.
    pub(crate) fn returned(&mut self, loan: u64, from: Rank) {
        if self.loans.get(&loan).is_some_and(|(to, _)| *to == from)
            && let Some((_, block)) = self.loans.remove(&loan)
        {
            self.pool.put(block);
        }
    }

    /// Takes back what was lent to ranks that are gone, as soon as nobody there reads it (*drained-before-reuse*).
    pub(crate) fn reclaim(&mut self, fabric: &impl Fabric, peers: &[Peer]) {
        let gone = |rank: &Rank| peers[*rank as usize].fault.is_some();
        let mut borrowers: Vec<Rank> =
            self.loans.values().map(|&(to, _)| to).filter(gone).collect();
        borrowers.sort_unstable();
        borrowers.dedup();
        for rank in borrowers {
            let is_drained = fabric.drained(PeerId(rank), fabric.incarnation(PeerId(rank)));
            if is_drained || mutant!(LoanTakenBackEarly) {
                let lent = self.loans.extract_if(|_, (to, _)| *to == rank);
                lent.for_each(|(_, (_, block))| self.pool.put(block));
            }
        }
    }
}
