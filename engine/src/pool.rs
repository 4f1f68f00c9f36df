//! Buffers that peers can map, cut from regions and used again.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use taffrail_fabric::{Fabric, Keep, MemoryError, RegionId};

/// Blocks are powers of two from this size on.
const SMALLEST: usize = 64;
/// Small blocks are cut from regions of this many bytes.
const REGION: usize = 256 * 1024;

/// A piece of a region.
pub struct Block {
    pub(crate) at: NonNull<u8>,
    pub(crate) len: usize,
    pub region: RegionId,
    pub offset: usize,
    pub(crate) _keep: Keep,
}

// SAFETY: the memory stays mapped with `_keep`, and a block has one owner.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The free blocks, by the power of two that is their size.
pub(crate) struct Pool {
    free: [Vec<Block>; usize::BITS as usize],
    /// Address ranges of all regions, to recognise memory of ours.
    ranges: Vec<(usize, usize, RegionId)>,
    /// Blocks that peers may access, by where they begin: how many bytes, and where they are.
    reachable: BTreeMap<(u32, usize), (usize, NonNull<u8>)>,
}

impl Default for Pool {
    fn default() -> Self {
        let free = std::array::from_fn(|_| Vec::new());
        Pool { free, ranges: Vec::new(), reachable: BTreeMap::new() }
    }
}

impl Pool {
    /// A block of at least `len` bytes.
    #[expect(clippy::expect_used, reason = "a region holds at least one block")]
    pub(crate) fn take<F: Fabric>(
        &mut self,
        fabric: &mut F,
        len: usize,
    ) -> Result<Block, MemoryError> {
        let size =
            len.max(SMALLEST).checked_next_power_of_two().ok_or_else(|| MemoryError::Short {
                what: "address space",
                need: len as u64,
                have: format!("at most {} bytes in one piece", isize::MAX),
                remedy: "ask for less",
            })?;
        let class = size.ilog2() as usize;
        if let Some(block) = self.free[class].pop() {
            return Ok(block);
        }
        let whole = size.max(REGION);
        let (region, base, keep) = fabric.alloc(whole)?;
        self.ranges.push((base.as_ptr().addr(), whole, region));
        let free = &mut self.free[class];
        for offset in (0..whole).step_by(size).rev() {
            // SAFETY: the offset lies inside the region.
            let at = unsafe { base.add(offset) };
            free.push(Block { at, len: size, region, offset, _keep: keep.clone() });
        }
        Ok(free.pop().expect("a region holds at least one block"))
    }

    /// Takes a block back.
    pub(crate) fn put(&mut self, block: Block) {
        if !self.reachable.is_empty() {
            self.reachable.remove(&(block.region.0, block.offset));
        }
        self.free[block.len.ilog2() as usize].push(block);
    }

    /// Peers may access the first `len` bytes of a block until it is back.
    pub(crate) fn let_reach(&mut self, block: &Block, len: usize) {
        self.reachable.insert((block.region.0, block.offset), (len, block.at));
    }

    /// Where the bytes of a region are, if peers may access them.
    pub(crate) fn reached(&self, region: u32, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let mut upto = self.reachable.range((region, 0)..=(region, offset));
        let (&(_, start), &(whole, at)) = upto.next_back()?;
        let skipped = offset - start;
        // SAFETY: the place lies inside the block.
        (skipped <= whole && len <= whole - skipped).then(|| unsafe { at.add(skipped) })
    }

    /// The region, and the place in it, of memory of ours.
    pub(crate) fn find(&self, at: *const u8, len: usize) -> Option<(RegionId, usize)> {
        let at = at.addr();
        let inside = |&&(base, whole, _): &&(usize, usize, RegionId)| {
            at >= base && at - base <= whole && len <= whole - (at - base)
        };
        self.ranges.iter().find(inside).map(|&(base, _, region)| (region, at - base))
    }
}
