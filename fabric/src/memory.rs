//! Memory of the program, of peers and of the log.

use crate::{Denied, MemoryError};
use std::any::Any;
use std::sync::Arc;

/// Names memory registered with, or allocated by, one fabric of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// Names a segment of log memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentId(pub u32);

/// Keeps memory mapped as long as it, or a clone of it, is there.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// Memory of the program that a fabric writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserBuf {
    at: *mut u8,
    len: usize,
}

impl UserBuf {
    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// The bytes are valid for writes, and used by nobody else, until the operation that they are handed to has ended:
    /// a get or the rest of a message with the completion of its token, a registration with `deregister`. Peers
    /// read and write registered memory at any time until then.
    #[inline]
    pub const unsafe fn new(at: *mut u8, len: usize) -> UserBuf {
        UserBuf { at, len }
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.at
    }

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

// SAFETY: the promise of `new` holds for the memory, whichever thread the fabric is used by.
unsafe impl Send for UserBuf {}

/// Memory of the program that a fabric reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserBytes {
    at: *const u8,
    len: usize,
}

impl UserBytes {
    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// The bytes are valid for reads and unchanged until the operation that they are handed to has ended: a send that
    /// ends later or a put with the completion of its token. Of a key that is made for them: until no peer holds it.
    #[inline]
    pub const unsafe fn new(at: *const u8, len: usize) -> UserBytes {
        UserBytes { at, len }
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.at
    }

    /// The bytes. No bytes are an empty slice, wherever they are.
    ///
    /// # Safety
    /// The operation that they were handed to has not ended: the promise of [`new`](Self::new) holds for `'a`.
    #[inline]
    pub unsafe fn as_slice<'a>(self) -> &'a [u8] {
        match self.len {
            0 => &[],
            // SAFETY: the promise of `new`.
            len => unsafe { std::slice::from_raw_parts(self.at, len) },
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

// SAFETY: as of `UserBuf`.
unsafe impl Send for UserBytes {}

/// Memory to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where it is.
    pub buf: UserBuf,
    /// What it is.
    pub kind: MemoryKind,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory that processors load and store.
    Host,
    /// Memory of a device, by the name of its interface: `cuda`, `rocr`, `ze`.
    Device(&'static str),
}

impl Memory {
    /// Memory that processors load and store.
    pub const fn host(buf: UserBuf) -> Memory {
        Memory { buf, kind: MemoryKind::Host }
    }

    /// The memory, if it is the host's.
    ///
    /// # Errors
    /// [`MemoryError::Kind`], which names the kind and `fabric`.
    pub fn expect_host(self, fabric: &'static str) -> Result<UserBuf, MemoryError> {
        match self.kind {
            MemoryKind::Host => Ok(self.buf),
            MemoryKind::Device(kind) => Err(MemoryError::Kind { kind, fabric }),
        }
    }
}

/// What a peer must hold to reach a region: up to [`MAX`](Self::MAX) bytes, meaningful to the same kind of fabric
/// only. The first byte is the number of the rail that reaches the region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RemoteKey {
    len: u8,
    bytes: [u8; RemoteKey::MAX],
}

impl RemoteKey {
    /// Length of the longest key in bytes, rail included.
    pub const MAX: usize = 64;

    /// The key of memory that no rail reaches: its owner serves gets and puts by messages.
    pub const OF_NO_RAIL: RemoteKey = {
        let mut bytes = [0; RemoteKey::MAX];
        bytes[0] = u8::MAX;
        RemoteKey { len: 1, bytes }
    };

    /// The key that a rail has made.
    ///
    /// # Panics
    /// If it is longer than `MAX - 1` bytes.
    pub fn new(rail: u8, key: &[u8]) -> RemoteKey {
        let mut bytes = [0; RemoteKey::MAX];
        bytes[0] = rail;
        bytes[1..=key.len()].copy_from_slice(key);
        RemoteKey { len: key.len() as u8 + 1, bytes }
    }

    /// A key that a peer has sent; `None` if it is empty, or longer than the longest.
    pub fn from_bytes(key: &[u8]) -> Option<RemoteKey> {
        let mut bytes = [0; RemoteKey::MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        (!key.is_empty()).then_some(RemoteKey { len: key.len() as u8, bytes })
    }

    /// What is sent to the peer: the rail, and what the rail has made.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The rail that reaches the region.
    #[inline]
    pub fn rail(&self) -> u8 {
        self.bytes[0]
    }

    /// Whether a rail reaches the region.
    #[inline]
    pub fn is_of_a_rail(&self) -> bool {
        self.rail() != Self::OF_NO_RAIL.rail()
    }

    /// The same key under the number of another rail.
    #[inline]
    pub fn on_rail(mut self, rail: u8) -> RemoteKey {
        self.bytes[0] = rail;
        self
    }

    /// What the rail has made.
    #[inline]
    pub fn of_rail(&self) -> &[u8] {
        &self.as_bytes()[1..]
    }
}

impl std::fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteKey(rail {}, {:x?})", self.rail(), self.of_rail())
    }
}

/// A segment of log memory, for a fabric to [adopt](crate::Fabric::adopt).
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its name.
    pub id: SegmentId,
    /// Its bytes, which stay mapped as long as the fabric is open.
    pub bytes: UserBytes,
}

/// Memory that messages leave from: what a message log is made of. It has one owner, and every fabric of the process
/// sends from it: the owner as it is, others after they have [adopted](crate::Fabric::adopt) it.
pub trait SendMemory {
    /// Length of a segment in bytes.
    fn segment_len(&self) -> usize;

    /// How many segments there can be.
    fn max_segments(&self) -> usize;

    /// Takes a segment, to be [written](Self::write) and [sent from](crate::Source::Log) as often as wanted. Of the
    /// segments that were released the one that is free the longest comes first. `None` while peers have not read all that
    /// was sent from those that were released, and there cannot be more: poll, and call again.
    ///
    /// # Errors
    /// [`MemoryError::Short`] when none is released, saying what is in use and what would help.
    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError>;

    /// Does a little of what the next [`take`](Self::take) would have to wait for, if one is to be expected: to be
    /// called when there is nothing else to do. Whether anything was done.
    fn prepare(&mut self) -> bool {
        false
    }

    /// Writes into a segment. Bytes of it that were sent must not be written any more; those of a [`BeforeLog`](crate::BeforeLog)
    /// are written once behind their sending.
    ///
    /// # Panics
    /// If the segment was released, or the bytes lie outside.
    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]);

    /// Bytes of a segment.
    ///
    /// # Panics
    /// As [`write`](Self::write).
    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8];

    /// A segment that is taken, for other fabrics to [adopt](crate::Fabric::adopt). Its bytes are at the same address
    /// whenever it is taken.
    ///
    /// # Panics
    /// If the segment was released.
    fn segment(&self, id: SegmentId) -> Segment {
        let bytes = self.read(id, 0, self.segment_len());
        // SAFETY: the segment stays mapped, and what was sent from it is not written while it is taken.
        Segment { id, bytes: unsafe { UserBytes::new(bytes.as_ptr(), bytes.len()) } }
    }

    /// Releases a segment. Messages sent from it that are not read yet arrive all the same: it is taken again only
    /// when no fabric [uses](crate::Fabric::uses) it.
    ///
    /// # Panics
    /// If it was released before.
    fn release(&mut self, segment: SegmentId);
}

impl crate::Limits {
    /// The answer to a call that this fabric does not offer.
    pub fn not_offered(&self, what: &'static str) -> Denied {
        let why = format!("the fabric {} does not offer it", self.fabric);
        Denied { what, why, remedy: "messages work" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_rail_and_comes_back_from_its_bytes() {
        for len in [0, 1, 24, RemoteKey::MAX - 1] {
            let own: Vec<u8> = (0..len as u8).collect();
            let key = RemoteKey::new(3, &own);
            assert_eq!((key.rail(), key.of_rail()), (3, &own[..]));
            assert_eq!(RemoteKey::from_bytes(key.as_bytes()), Some(key));
            let other = key.on_rail(7);
            assert_eq!((other.rail(), other.of_rail()), (7, &own[..]));
        }
        assert_eq!(RemoteKey::from_bytes(&[]), None);
        assert_eq!(RemoteKey::from_bytes(&[0; RemoteKey::MAX + 1]), None);
    }

    #[test]
    fn memory_of_a_device_is_refused_by_name() {
        let mut byte = 0;
        // SAFETY: it is handed to no operation.
        let buf = unsafe { UserBuf::new(&raw mut byte, 1) };
        assert_eq!(Memory::host(buf).expect_host("shm"), Ok(buf));
        let device = Memory { buf, kind: MemoryKind::Device("cuda") };
        let refused = device.expect_host("shm").unwrap_err().to_string();
        assert!(refused.contains("cuda") && refused.contains("shm"), "{refused}");
    }
}
