//! A peer's shared memory, mapped here.

use std::os::fd::{AsFd, OwnedFd};
use taffrail_fabric::words::counted;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags};
use taffrail_fabric::{Fault, MemoryError};

use super::{Space, no_address_space};

/// File system type of memfds of ordinary pages. Others (huge pages) can fault where a hole was
/// punched into them.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading; a write ends the process.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// How long a file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// As long as this: what the owner's [`Shared::len`](super::Shared::len) says.
    Exactly(usize),
    /// At most as long as this, ever; the owner may grow it up to there.
    AtMost(usize),
}

/// Why a peer's memory was not mapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    /// The peer could shorten it, and an access to the missing part would end the process that has mapped it.
    #[error(
        "the peer's memory is not sealed against shrinking (expected a sealed memfd, got {got})"
    )]
    NotSealed {
        /// What was found.
        got: String,
    },
    /// Its length is not what was announced.
    #[error("the peer's memory should be {expected} bytes long, it is {got}")]
    Size {
        /// The length announced, as text.
        expected: String,
        /// The length found, in bytes.
        got: u64,
    },
    /// Not all of it is allocated, as it should be: the first access would pay for it.
    #[error("the peer's memory should be allocated, of {len} bytes only {have} are")]
    Holes {
        /// The length of the file, in bytes.
        len: u64,
        /// How much is allocated.
        have: u64,
    },
    /// There is no address space left for it.
    #[error("a peer's memory cannot be mapped: {0}")]
    NoAddressSpace(MemoryError),
    /// The operating system refused.
    #[error("{call} of a peer's memory failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        let place = "shared memory";
        match error {
            OpenError::NotSealed { got } => {
                Fault::Protocol { place, expected: "a memfd sealed against shrinking".into(), got }
            }
            OpenError::Size { expected, got } => {
                Fault::Protocol { place, expected, got: counted(got, "byte") }
            }
            OpenError::Holes { len, have } => Fault::Protocol {
                place,
                expected: format!("{len} bytes allocated"),
                got: counted(have, "byte"),
            },
            OpenError::NoAddressSpace(short) => {
                Fault::Os { call: "mmap", errno: short.to_string() }
            }
            OpenError::Os { call, errno } => Fault::Os { call, errno: errno.to_string() },
        }
    }
}

/// Memory that a peer owns.
///
/// Nothing that lies in it can be trusted, but touching the bytes that [`covers`](Self::covers)
/// grants is safe, whatever the peer does.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// The file and its limit, while its length may change.
    growing: Option<(OwnedFd, usize)>,
    space: Space,
    len: usize,
}

impl Mapped {
    /// Checks and maps a file that a peer sent.
    ///
    /// # Errors
    /// [`OpenError`] when the file is not sealed or not as long as it should be, or cannot be mapped.
    pub fn open(file: OwnedFd, access: Access, expected: Expected) -> Result<Self, OpenError> {
        check_kind(&file)?;
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let (Expected::Exactly(limit) | Expected::AtMost(limit)) = expected;
        let len = length(&file, expected)?;
        let space =
            Space::map(file.as_fd(), limit, protection, len).map_err(|errno| match errno {
                Errno::NOMEM => OpenError::NoAddressSpace(no_address_space(limit as u64, errno)),
                errno => OpenError::Os { call: "mmap", errno },
            })?;
        let growing = match expected {
            Expected::Exactly(_) => None,
            Expected::AtMost(limit) => Some((file, limit)),
        };
        let mut mapped = Mapped { growing, space, len: 0 };
        mapped.take_in(len)?;
        Ok(mapped)
    }

    /// Address of the first byte; never changes.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.space.at.as_ptr()
    }

    /// Bytes that may be touched: how long the file was when it was last looked at, as far as it had memory.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether `len` bytes from `offset` on may be touched. If not, they may be there all the same
    /// when the owner grew the file: [`extend`](Self::extend), then ask again.
    #[inline]
    pub fn covers(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.len as u64)
    }

    /// Looks again how long the file is, if that can change.
    ///
    /// # Errors
    /// [`OpenError::Size`] when it grew beyond its limit, [`OpenError::Os`] when its new part cannot
    /// be had; what was covered stays covered.
    pub fn extend(&mut self) -> Result<(), OpenError> {
        let Some((file, limit)) = &self.growing else { return Ok(()) };
        let len = length(file, Expected::AtMost(*limit))?;
        self.take_in(len)
    }

    /// Makes the file's part up to `len` usable. Filling the page tables here turns a shortage of
    /// memory (holes in a hostile peer's file) into an error instead of a signal.
    fn take_in(&mut self, len: usize) -> Result<(), OpenError> {
        if len <= self.len {
            return Ok(());
        }
        // The kernel wants a whole page to start from; the owner's lengths are whole pages, others
        // are only ever met once, at 0.
        let from = self.len / rustix::param::page_size() * rustix::param::page_size();
        let opened = self.space.open(len);
        opened.map_err(|errno| OpenError::Os { call: "mprotect of a peer's memory", errno })?;
        // SAFETY: the range lies inside our own mapping and inside the file.
        let filled = rustix::io::retry_on_intr(|| unsafe {
            rustix::mm::madvise(
                self.as_ptr().add(from).cast(),
                len - from,
                Advice::LinuxPopulateRead,
            )
        });
        match filled {
            // Before Linux 5.14 there is no such call.
            Ok(()) | Err(Errno::INVAL) => {
                self.len = len;
                Ok(())
            }
            Err(errno) => Err(OpenError::Os { call: "madvise(MADV_POPULATE_READ)", errno }),
        }
    }
}

fn check_kind(file: &OwnedFd) -> Result<(), OpenError> {
    let kind = rustix::fs::fstatfs(file)
        .map_err(|errno| OpenError::Os { call: "fstatfs", errno })?
        .f_type as u64;
    if kind != TMPFS_MAGIC {
        return Err(OpenError::NotSealed { got: format!("a file of file system {kind:#x}") });
    }
    match rustix::fs::fcntl_get_seals(file) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => Ok(()),
        Ok(seals) => Err(OpenError::NotSealed { got: format!("seals {:#x}", seals.bits()) }),
        Err(Errno::INVAL) => Err(OpenError::NotSealed { got: "a file without seals".into() }),
        Err(errno) => Err(OpenError::Os { call: "fcntl(F_GET_SEALS)", errno }),
    }
}

/// How much of a file may be touched.
fn length(file: &OwnedFd, expected: Expected) -> Result<usize, OpenError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| OpenError::Os { call: "fstat", errno })?;
    let got = u64::try_from(stat.st_size).unwrap_or(0);
    let (fits, text) = match expected {
        Expected::Exactly(len) => (got == len as u64, format!("exactly {len}")),
        Expected::AtMost(limit) => (got <= limit as u64, format!("at most {limit}")),
    };
    if !fits {
        return Err(OpenError::Size { expected: text, got });
    }
    // Blocks of 512 bytes.
    let have = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if have >= got {
        return Ok(got as usize);
    }
    match expected {
        // An owner that is just growing it allocates after it has made the file longer.
        Expected::AtMost(_) if have > 0 => {
            let page = rustix::param::page_size();
            Ok(have as usize / page * page)
        }
        _ => Err(OpenError::Holes { len: got, have }),
    }
}
