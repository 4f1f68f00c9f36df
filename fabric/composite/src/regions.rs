//! Regions, which both fabrics know under names of their own.

use rustc_hash::FxHashMap;
use taffrail_fabric::{MemoryError, RegionId};

/// A region with both fabrics. Where one has refused it, its reason is the answer to a request for a key.
pub(crate) struct Region {
    pub(crate) near: Result<RegionId, MemoryError>,
    pub(crate) far: Result<RegionId, MemoryError>,
}

/// The regions of this process.
#[derive(Default)]
pub(crate) struct Regions {
    last: u32,
    regions: FxHashMap<u32, Region>,
}

impl Regions {
    pub(crate) fn add(&mut self, region: Region) -> RegionId {
        self.last += 1;
        self.regions.insert(self.last, region);
        RegionId(self.last)
    }

    pub(crate) fn get(&self, region: RegionId, offset: u64) -> Result<&Region, MemoryError> {
        self.regions.get(&region.0).ok_or(MemoryError::Unknown { region: region.0, offset })
    }

    pub(crate) fn remove(&mut self, region: RegionId) -> Result<Region, MemoryError> {
        let unknown = MemoryError::Unknown { region: region.0, offset: 0 };
        self.regions.remove(&region.0).ok_or(unknown)
    }
}

/// An error of a fabric, which knows the region by another name.
pub(crate) fn under(region: RegionId) -> impl Fn(MemoryError) -> MemoryError {
    move |error| match error {
        MemoryError::Unknown { offset, .. } => MemoryError::Unknown { region: region.0, offset },
        error => error,
    }
}
