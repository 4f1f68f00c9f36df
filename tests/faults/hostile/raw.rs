//! What a process of a job can reach of another by hand: its inbox, by the layout in
//! `docs/wire.md`, section 2, and the socket to it.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The kinds of the fabric's own messages.
pub const ASSIST: u8 = 64;
pub const GOODBYE: u8 = 65;
/// The size field of a message whose payload lies in the outbox.
pub const POOLED: u16 = 511;

/// An inbox that this process has mapped.
#[derive(Clone, Copy)]
pub struct Inbox {
    base: usize,
    ranks: usize,
}

impl Inbox {
    /// The inbox of a rank, which the line of this process has mapped.
    pub fn of(rank: u32, ranks: u32) -> Inbox {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let bases = maps.lines().filter(|line| line.contains("memfd:taffrail-inbox")).map(|line| {
            let (from, _) = line.split_once('-').expect("a range");
            usize::from_str_radix(from, 16).expect("an address")
        });
        let ours = |&base: &usize| {
            // SAFETY: the mapping is there, and begins with a header.
            unsafe { std::ptr::with_exposed_provenance::<u32>(base + 12).read() == rank }
        };
        let found: Vec<usize> = bases.filter(ours).collect();
        assert_eq!(found.len(), 1, "one inbox of rank {rank} is mapped");
        Inbox { base: found[0], ranks: ranks as usize }
    }

    /// Slots of a ring.
    pub fn slots(self) -> u64 {
        let fit = 262_144 / (64 * self.ranks as u64);
        (1 << fit.ilog2()).clamp(16, 128)
    }

    fn desks(self) -> usize {
        256 + 128 * self.ranks.div_ceil(1024)
    }

    fn at<T>(self, offset: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.base + offset)
    }

    pub fn word(self, offset: usize) -> &'static AtomicU64 {
        // SAFETY: offsets come from the layout, and the inbox is mapped while it is used.
        unsafe { &*self.at(offset) }
    }

    pub fn half(self, offset: usize) -> &'static AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.at(offset) }
    }

    pub fn armed(self) -> &'static AtomicU32 {
        self.half(128)
    }

    pub fn dirty(self) -> &'static AtomicU64 {
        self.word(256)
    }

    pub fn consumed(self, rank: u32) -> &'static AtomicU64 {
        self.word(self.desks() + 128 * rank as usize)
    }

    pub fn watched(self, rank: u32) -> &'static AtomicU32 {
        self.half(self.desks() + 128 * rank as usize + 8)
    }

    /// The words of the cell of gets from `rank`: taken, finished, refused.
    pub fn cell(self, rank: u32) -> [&'static AtomicU64; 3] {
        [0, 8, 16].map(|word| self.word(self.desks() + 128 * rank as usize + 64 + word))
    }

    /// The half of the mailbox with the higher rank `rank` that is written by the higher one, or by
    /// the owner.
    fn mailbox(self, rank: u32, higher: bool) -> usize {
        self.desks() + 128 * (self.ranks + rank as usize) + 32 * usize::from(higher)
    }

    /// Puts a message into the mailbox.
    pub fn mail(self, rank: u32, higher: bool, slot: &Slot, ack: u32) {
        let at = self.mailbox(rank, higher);
        self.word(at + 8).store(slot.tag, Ordering::Relaxed);
        self.word(at + 16).store(u64::from(slot.seq) | u64::from(ack) << 32, Ordering::Relaxed);
        let payload = slot.body[..8].try_into().expect("8 bytes");
        self.word(at + 24).store(u64::from_le_bytes(payload), Ordering::Relaxed);
        self.word(at).store(slot.word(), Ordering::Release);
    }

    /// Writes the slot for `position` of the ring from `rank`.
    pub fn put(self, rank: u32, position: u64, slot: &Slot) {
        let s = self.slots();
        let ring = self.desks() + 256 * self.ranks + 64 * (s as usize * rank as usize);
        let at = ring + 64 * (position % s) as usize;
        self.word(at + 8).store(slot.tag, Ordering::Relaxed);
        self.half(at + 16).store(slot.seq, Ordering::Relaxed);
        for (k, bytes) in slot.body.as_chunks::<4>().0.iter().enumerate() {
            self.half(at + 20 + 4 * k).store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.word(at).store(slot.word(), Ordering::Release);
    }
}

/// What a slot says, field by field.
#[derive(Clone, Copy)]
pub struct Slot {
    pub stamp: u32,
    pub context: u16,
    pub kind: u8,
    pub size: u16,
    pub tag: u64,
    pub seq: u32,
    pub body: [u8; 44],
}

impl Slot {
    fn word(&self) -> u64 {
        u64::from(self.stamp)
            | u64::from(self.context) << 32
            | u64::from(self.size) << 48
            | u64::from(self.kind) << 57
    }

    /// Lets the payload lie in the outbox.
    pub fn pooled(&mut self, offset: u64, len: u32) {
        self.size = POOLED;
        self.body[..8].copy_from_slice(&offset.to_le_bytes());
        self.body[8..12].copy_from_slice(&len.to_le_bytes());
    }
}

/// The socket that leads to a process, of which this one has one.
pub fn socket_to(pid: i32) -> BorrowedFd<'static> {
    for entry in std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        // SAFETY: whatever it is, it is only asked what it is.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let peer = rustix::net::sockopt::socket_peercred(fd);
        let is_packets = rustix::net::sockopt::socket_type(fd)
            .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET);
        let listens = rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false);
        if is_packets && !listens && peer.is_ok_and(|peer| peer.pid.as_raw_pid() == pid) {
            return fd;
        }
    }
    panic!("no socket leads to process {pid}");
}

/// Sends a packet with descriptors.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).is_ok()
}

/// A memfd of `len` bytes, sealed against shrinking or not.
pub fn memfd(len: u64, sealed: bool) -> OwnedFd {
    // SAFETY: the name is a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(c"hostile".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0);
    // SAFETY: just opened, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::fs::ftruncate(&fd, len).expect("a length");
    if len > 0 {
        rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, len).expect("memory");
    }
    if sealed {
        // SAFETY: plain system call.
        let done = unsafe {
            libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)
        };
        assert_eq!(done, 0);
    }
    fd
}
