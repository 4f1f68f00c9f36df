//! How peers call memory of this rank, what they may do with it, and why they do not reach it.

use crate::Error;
use taffrail_fabric::{Fault, MemoryError};

/// The context of requests that name memory.
pub(crate) const KEYED: u16 = 0x8000;

/// Memory of the receiver of a frame, as the receiver calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetAddr {
    /// Its number: of a region, or of what the program has given a key to.
    pub region: u64,
    /// Whether the number is a key.
    pub keyed: bool,
    /// The first byte, as the owner counts.
    pub offset: u64,
}

/// What peers may do with memory that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Write it, and change it by atomic operations that do not fetch.
    Write,
    /// All.
    Both,
}

impl Access {
    pub(crate) fn covers(self, needed: Access) -> bool {
        self as u8 & needed as u8 == needed as u8
    }
}

/// Why memory is not reached; its number is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NoMemory {
    /// There is none of that name, or not there.
    Unknown,
    /// It may not be reached in this way.
    NoAccess,
}

impl NoMemory {
    /// The reason that has this number.
    pub(crate) fn of(number: u16) -> Self {
        match number == NoMemory::NoAccess as u16 {
            true => NoMemory::NoAccess,
            false => NoMemory::Unknown,
        }
    }

    /// The fault of an operation that was answered so.
    pub(crate) fn fault(self) -> Fault {
        match self {
            NoMemory::NoAccess => Fault::NoAccess("its owner does not allow it"),
            NoMemory::Unknown => Fault::NoSuchMemory("the target knows no such region".into()),
        }
    }

    /// Of memory of our own.
    pub(crate) fn error(self, (name, address): (u64, u64)) -> Error {
        match self {
            NoMemory::Unknown => {
                MemoryError::Unknown { region: name as u32, offset: address }.into()
            }
            NoMemory::NoAccess => MemoryError::NoAccess { name }.into(),
        }
    }
}

/// Memory of this rank as peers name it. The same bytes may have several names, each with a life of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryName {
    /// A registered region.
    Region(u64),
    /// What the program has given a key to.
    Key(u64),
}

impl MemoryName {
    pub(crate) fn of(place: TargetAddr) -> Self {
        match place.keyed {
            true => MemoryName::Key(place.region),
            false => MemoryName::Region(place.region),
        }
    }
}

/// Which way an access goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the target.
    Get,
    /// To the target.
    Put,
}

impl Way {
    /// What it does with the memory of the target.
    pub(crate) fn access(self) -> Access {
        match self {
            Way::Get => Access::Read,
            Way::Put => Access::Write,
        }
    }
}

/// Memory of a peer, as its engine finds it: its region, and where in that.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) way: Way,
    pub(crate) region: u64,
    pub(crate) start: u64,
}
