//! Which peers said something or died, asked of the kernel in one call for all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::socket::Link;

/// Events taken from the kernel in one call.
const BATCH: usize = 64;

/// How long the end of a process may follow that of its connection: the kernel closes what a process has
/// open just before it says that it has ended.
const ENDS_SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Stands for this process itself among the ranks.
const OWN: u64 = u64::MAX;

/// What is with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet is there to be received.
    Readable,
    /// Its process ended, or closed the connection. Packets may still be there.
    HungUp,
}

/// Watches the connections and the processes of peers.
///
/// A connection alone is not enough: a child that the peer forked without executing another program
/// holds the socket open when the peer dies. So the process is watched, too, where it is visible.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    /// The processes watched, by rank.
    processes: Vec<(u32, OwnedFd)>,
    /// Peers with a process that was gone before it could be watched.
    gone: Vec<u32>,
}

impl Watch {
    /// Watches nobody yet.
    ///
    /// # Errors
    /// The kernel's, such as too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Watch { epoll: epoll::create(CreateFlags::CLOEXEC)?, processes: vec![], gone: vec![] })
    }

    /// Lets [`fd`](Self::fd) be readable when this descriptor of this process is, too: its doorbell, or
    /// its listener.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_own(&self, own: BorrowedFd<'_>) -> io::Result<()> {
        epoll::add(&self.epoll, own, EventData::new_u64(OWN), EventFlags::IN)?;
        Ok(())
    }

    /// As [`add_own`](Self::add_own), for one that may have been added before.
    ///
    /// # Errors
    /// The kernel's.
    pub fn have_own(&self, own: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(&self.epoll, own, EventData::new_u64(OWN), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Ends what [`have_own`](Self::have_own) began, if it did.
    pub fn remove_own(&self, own: BorrowedFd<'_>) {
        // Fails only when it was never added, which leaves nothing to do.
        let _ = epoll::delete(&self.epoll, own);
    }

    /// A descriptor that is readable when there is something with a peer, or the doorbell rings.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Watches a peer from now on.
    ///
    /// # Errors
    /// The kernel's, such as too many open files. That the process is not visible is no error.
    pub fn add(&mut self, rank: u32, link: &Link) -> io::Result<()> {
        let wanted = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&self.epoll, link, EventData::new_u64(data(rank, false)), wanted)?;
        match process_of(link) {
            Ok(process) => {
                let data = EventData::new_u64(data(rank, true));
                epoll::add(&self.epoll, &process, data, EventFlags::IN)?;
                self.processes.push((rank, process));
            }
            Err(Errno::SRCH) if link.pid() > 0 => self.gone.push(rank),
            Err(Errno::MFILE | Errno::NFILE) => return Err(Errno::MFILE.into()),
            Err(errno) => tracing::debug!(rank, %errno, "only the connection is watched"),
        }
        Ok(())
    }

    /// Does not watch a peer any more.
    pub fn remove(&mut self, rank: u32, link: &Link) {
        // Fails only when it was never added, which leaves nothing to do.
        let _ = epoll::delete(&self.epoll, link);
        self.gone.retain(|of| *of != rank);
        self.processes.retain(|(of, process)| {
            let other = *of != rank;
            if !other {
                let _ = epoll::delete(&self.epoll, process);
            }
            other
        });
    }

    /// Whether the process of a peer that has hung up has ended.
    #[cold]
    pub fn has_ended(&self, rank: u32) -> bool {
        self.gone.contains(&rank)
            || self.processes.iter().any(|(of, process)| {
                let mut process = [PollFd::new(process, PollFlags::IN)];
                *of == rank && matches!(rustix::event::poll(&mut process, Some(&ENDS_SOON)), Ok(1))
            })
    }

    /// Appends what is with which peer, without waiting. The same is said again by the next call
    /// unless the packet was received or the peer [`remove`](Self::remove)d.
    pub fn poll_dead_or_readable(&mut self, out: &mut Vec<(u32, Event)>) {
        out.extend(self.gone.iter().map(|&rank| (rank, Event::HungUp)));
        let mut events = Vec::with_capacity(BATCH);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = rustix::io::retry_on_intr(|| {
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now))
        });
        if let Err(errno) = found {
            tracing::error!(%errno, "the peers cannot be watched");
            return;
        }
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == OWN {
                continue;
            }
            let (rank, is_process) = ((data >> 1) as u32, data & 1 == 1);
            let gone = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
            if !is_process && flags.contains(EventFlags::IN) {
                out.push((rank, Event::Readable));
            }
            if is_process || flags.intersects(gone) {
                out.push((rank, Event::HungUp));
            }
        }
    }
}

fn data(rank: u32, is_process: bool) -> u64 {
    u64::from(rank) << 1 | u64::from(is_process)
}

/// A descriptor of the peer's process.
fn process_of(link: &Link) -> Result<OwnedFd, Errno> {
    match process_of_socket(link.as_fd()) {
        // Before Linux 6.5 there is only the number, which may be another process by now; but then
        // the connection hangs up by itself, unless children hold it.
        Err(Errno::NOPROTOOPT) => match Pid::from_raw(link.pid()) {
            Some(pid) => pidfd_open(pid, PidfdFlags::empty()),
            None => Err(Errno::SRCH),
        },
        found => found,
    }
}

fn process_of_socket(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut found: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are to live variables, and `len` is the first one's length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut found).cast(),
            &mut len,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the kernel just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(found) })
}

#[cfg(test)]
mod tests;
