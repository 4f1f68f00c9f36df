//! Memory that peers may reach: registered, allocated, or simply there.
//!
//! The format of keys and of the packets that carry descriptors is in `docs/wire.md`, section 4.

use crate::loaned_mapping::Lent;
use crate::memory::{Access, Expected, Mapped, Seal, Shared};
use crate::pair::{Cold, PeerLink, Remote};
use crate::socket::{LinkError, Packet};
use rustc_hash::FxHashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use taffrail_fabric::{Fault, Keep, MemoryError, RegionId, RemoteKey};

/// Packets taken in at a time: more than a socket holds.
const MAX_PACKETS: usize = 1024;
/// Regions of one peer that are known at a time; the kernel limits mappings.
const MAX_REGIONS: usize = 16 * 1024;

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Where the memory lies in its owner's address space.
    pub(crate) addr: u64,
    /// The allocation it belongs to, 0 for none.
    pub(crate) region: u32,
    /// Where in that allocation.
    pub(crate) offset: u64,
}

impl Key {
    pub(crate) fn encode(self) -> RemoteKey {
        let words = [self.addr, u64::from(self.region), self.offset].map(u64::to_le_bytes);
        RemoteKey::new(0, words.as_flattened())
    }

    /// `None` if no process of this node has made the key.
    pub(crate) fn decode(key: &RemoteKey) -> Option<Self> {
        let (words, rest) = key.of_rail().as_chunks::<8>();
        let &[addr, region, offset] = words else { return None };
        let region = u32::try_from(u64::from_le_bytes(region)).ok()?;
        let [addr, offset] = [addr, offset].map(u64::from_le_bytes);
        rest.is_empty().then_some(Key { addr, region, offset })
    }
}

/// The key of memory that was never registered.
pub(crate) fn bare_key(at: *const u8) -> RemoteKey {
    Key { addr: at.addr() as u64, region: 0, offset: 0 }.encode()
}

enum Own {
    Registered {
        at: *mut u8,
        len: usize,
    },
    /// The file is whole pages, of which the first `len` bytes count.
    Allocated {
        memory: Arc<Shared>,
        len: usize,
    },
}

/// The regions of this process.
#[derive(Default)]
pub(crate) struct Regions {
    last: u32,
    own: FxHashMap<u32, Own>,
    /// FORGET packets that the peers' sockets had no room for: peer (by index) and region.
    pending_forgets: Vec<(usize, u32)>,
}

impl Regions {
    /// Bytes allocated.
    pub(crate) fn allocated(&self) -> usize {
        let bytes = |own: &Own| match own {
            Own::Registered { .. } => 0,
            Own::Allocated { memory, .. } => memory.len(),
        };
        self.own.values().map(bytes).sum()
    }

    pub(crate) fn register(&mut self, at: *mut u8, len: usize) -> RegionId {
        self.last += 1;
        self.own.insert(self.last, Own::Registered { at, len });
        RegionId(self.last)
    }

    #[expect(clippy::expect_used, reason = "no mapping is at address 0")]
    pub(crate) fn alloc(
        &mut self,
        len: usize,
    ) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let memory = Shared::create("taffrail-region", len.max(1), len.max(1), Seal::Fixed)?;
        let memory = Arc::new(memory);
        let at = NonNull::new(memory.as_ptr()).expect("a mapping is not at address 0");
        self.last += 1;
        let own = Own::Allocated { memory: memory.clone(), len: len.max(1) };
        self.own.insert(self.last, own);
        Ok((RegionId(self.last), at, memory))
    }

    pub(crate) fn deregister(
        &mut self,
        region: RegionId,
        pairs: &mut [PeerLink],
    ) -> Result<(), MemoryError> {
        let unknown = MemoryError::Unknown { region: region.0, offset: 0 };
        if let Own::Allocated { .. } = self.own.remove(&region.0).ok_or(unknown)? {
            for (peer, pair) in pairs.iter_mut().enumerate() {
                if pair.cold.announced_regions.remove(&region.0) {
                    self.pending_forgets.push((peer, region.0));
                }
            }
            self.retry(pairs);
        }
        Ok(())
    }

    /// The allocation with this number, and its length.
    pub(crate) fn allocation(&self, region: u32) -> Option<(&Arc<Shared>, usize)> {
        match self.own.get(&region)? {
            Own::Registered { .. } => None,
            Own::Allocated { memory, len } => Some((memory, *len)),
        }
    }

    /// Whether all of a range of addresses belongs to one of our regions.
    pub(crate) fn hold(&self, addr: u64, len: usize) -> bool {
        self.own.keys().filter_map(|&region| self.range(RegionId(region))).any(|range| {
            range.start <= addr && addr.checked_add(len as u64).is_some_and(|end| end <= range.end)
        })
    }

    /// The range of a region, to find transfers that read from it.
    pub(crate) fn range(&self, region: RegionId) -> Option<std::ops::Range<u64>> {
        let (at, len) = match self.own.get(&region.0)? {
            Own::Registered { at, len } => (*at, *len),
            Own::Allocated { memory, len } => (memory.as_ptr(), *len),
        };
        Some(at.addr() as u64..(at.addr() + len) as u64)
    }

    /// Sends the pending FORGET packets, as far as the sockets have room.
    pub(crate) fn retry(&mut self, pairs: &mut [PeerLink]) {
        self.pending_forgets.retain(|&(peer, region)| {
            let Some(maps) = &pairs[peer].cold.mapped else { return false };
            matches!(maps.link.send_forget(region), Err(LinkError::Full))
        });
    }

    /// A peer has another process now, to which no region was announced.
    pub(crate) fn replaced(&mut self, peer: usize) {
        self.pending_forgets.retain(|(of, _)| *of != peer);
    }

    pub(crate) fn key(
        &self,
        region: RegionId,
        offset: usize,
        pair: &mut PeerLink,
    ) -> Result<RemoteKey, MemoryError> {
        let unknown = MemoryError::Unknown { region: region.0, offset: offset as u64 };
        let own = self.own.get(&region.0).ok_or(unknown.clone())?;
        let (at, len, memory) = match own {
            Own::Registered { at, len } => (*at, *len, None),
            Own::Allocated { memory, len } => (memory.as_ptr(), *len, Some(memory)),
        };
        if offset > len {
            return Err(unknown);
        }
        let addr = at.addr() as u64 + offset as u64;
        // Nothing can be announced to a peer that is not connected yet.
        let announced = !pair.is_awaited()
            && memory.is_some_and(|memory| announce(region.0, memory, len, &mut pair.cold));
        let key = match announced {
            true => Key { addr, region: region.0, offset: offset as u64 },
            // The peer can still reach the memory through the kernel.
            false => Key { addr, region: 0, offset: 0 },
        };
        Ok(key.encode())
    }
}

/// Makes sure that the peer has the region's descriptor. Whether it has.
fn announce(region: u32, memory: &Shared, used: usize, cold: &mut Cold) -> bool {
    // This process knows its own regions.
    let Some(maps) = &cold.mapped else { return true };
    if cold.announced_regions.contains(&region) {
        return true;
    }
    let (len, used) = (memory.len() as u64, used as u64);
    let sent = maps.link.send_region(region, len, used, memory.fd()).is_ok();
    if sent {
        cold.announced_regions.insert(region);
    }
    sent
}

/// Takes in what the peer says of its regions: all that a socket can hold, and no more, since a peer
/// may write faster than this reads.
pub(crate) fn receive(cold: &mut Cold) -> Result<(), Fault> {
    for _ in 0..MAX_PACKETS {
        let Some(maps) = &cold.mapped else { return Ok(()) };
        match maps.link.receive() {
            Ok(None) => return Ok(()),
            // The watch reports the end of the connection.
            Err(LinkError::Closed) if maps.link.is_closed() => return Ok(()),
            // The kernel says the same of a packet without bytes.
            Err(LinkError::Closed) => {
                return Err(Fault::Protocol {
                    place: "packet, length",
                    expected: "32 (REGION) or 16 (FORGET)".into(),
                    got: "0".into(),
                });
            }
            Err(error) => return Err(error.into()),
            Ok(Some(Packet::Region { region, len, used, fd })) => {
                if cold.regions.len() >= MAX_REGIONS {
                    return Err(Fault::Protocol {
                        place: "REGION",
                        expected: format!("at most {MAX_REGIONS} regions at a time"),
                        got: "one more".into(),
                    });
                }
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let memory = Mapped::open(fd, Access::ReadWrite, Expected::Exactly(len))?;
                let memory = Lent::new(memory, maps.link.clone());
                let remote = Remote { memory: Arc::new(memory), used };
                if cold.regions.insert(region, remote).is_some() {
                    return Err(Fault::Protocol {
                        place: "REGION.region",
                        expected: "a number not used before".into(),
                        got: region.to_string(),
                    });
                }
            }
            Ok(Some(Packet::Forget { region })) => {
                // Views that were handed out keep it mapped.
                if cold.regions.remove(&region).is_none() {
                    return Err(Fault::Protocol {
                        place: "FORGET.region",
                        expected: "a region that REGION has named".into(),
                        got: region.to_string(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// The mapped bytes behind a key, if the peer's region is known here and holds them.
pub(crate) fn resolve<'a>(
    cold: &'a Cold,
    key: &Key,
    offset: u64,
    len: usize,
) -> Option<(NonNull<u8>, &'a Arc<Lent>)> {
    let at = key.offset.checked_add(offset)?;
    let Remote { memory, used } = cold.regions.get(&key.region)?;
    if at.checked_add(len as u64).is_none_or(|end| end > *used) || !memory.covers(at, len) {
        return None;
    }
    // SAFETY: the mapping covers the range.
    Some((NonNull::new(unsafe { memory.as_ptr().add(at as usize) })?, memory))
}
