//! Which connections are ready, and sleeping until one is.

use crate::error::SetupError;
use crate::fabric::TcpFabric;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use taffrail_fabric::{Arming, PeerId, Wait};

/// Connections that one poll looks at.
const BATCH: usize = 32;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The set of connections that are watched, and an alarm for what this process does by itself.
pub(crate) struct Watch {
    epoll: OwnedFd,
    alarm: OwnedFd,
    armed: bool,
    rung: bool,
}

/// What a watched descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The link with a peer, or the alarm, under the rank of this process.
    Peer(PeerId),
    Listener,
    /// A handshake that somebody else has begun.
    Slot(u32),
    /// A connection to this rank that is being made.
    Call(u32),
    Timer,
}

impl Key {
    fn data(self) -> EventData {
        let (kind, number) = match self {
            Key::Peer(peer) => (0, peer.0),
            Key::Listener => (1, 0),
            Key::Slot(index) => (2, index),
            Key::Call(rank) => (3, rank),
            Key::Timer => (4, 0),
        };
        EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn of(data: EventData) -> Key {
        let (data, number) = (data.u64(), data.u64() as u32);
        match data >> 32 {
            0 => Key::Peer(PeerId(number)),
            1 => Key::Listener,
            2 => Key::Slot(number),
            3 => Key::Call(number),
            _ => Key::Timer,
        }
    }
}

/// A descriptor that is ready, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) key: Key,
    pub(crate) has_room: bool,
    pub(crate) has_data: bool,
}

impl Watch {
    /// Watches the alarm, under the rank of this process.
    pub(crate) fn new(me: PeerId) -> Result<Watch, SetupError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(SetupError::os("epoll_create1"))?;
        let alarm = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(SetupError::os("eventfd"))?;
        let watch = Watch { epoll, alarm, armed: false, rung: false };
        watch.add(&watch.alarm, Key::Peer(me))?;
        Ok(watch)
    }

    /// Watches a descriptor for data.
    pub(crate) fn add(&self, socket: &OwnedFd, key: Key) -> Result<(), SetupError> {
        epoll::add(&self.epoll, socket, key.data(), EventFlags::IN)
            .map_err(SetupError::os("epoll_ctl"))
    }

    /// Watches a connection that is being made.
    pub(crate) fn add_for_room(&self, socket: &OwnedFd, key: Key) -> Result<(), SetupError> {
        epoll::add(&self.epoll, socket, key.data(), EventFlags::OUT)
            .map_err(SetupError::os("epoll_ctl"))
    }

    /// Watches a connection for data, and for room if asked to.
    pub(crate) fn modify(&self, socket: &OwnedFd, key: Key, room: bool) {
        let flags = if room { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let modified = epoll::modify(&self.epoll, socket, key.data(), flags);
        debug_assert_eq!(modified, Ok(()), "it is in the set");
    }

    /// Ends the watch. Closing alone does not, as long as a forked child has the connection as well.
    pub(crate) fn remove(&self, socket: &OwnedFd) {
        let removed = epoll::delete(&self.epoll, socket);
        debug_assert_eq!(removed, Ok(()), "it is in the set");
    }

    /// The connections that are ready now, up to a bounded number, each in its turn.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready> + use<> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; BATCH];
        // A signal may come first: the next poll looks again.
        let len =
            epoll::wait(&self.epoll, &mut events[..], Some(&NOW)).map_or(0, |(it, _)| it.len());
        events.into_iter().take(len).map(|event| {
            // SAFETY: the call has written the first `len` events.
            let event = unsafe { event.assume_init() };
            let (flags, key) = (event.flags, Key::of(event.data));
            Ready {
                key,
                has_room: flags.contains(EventFlags::OUT),
                has_data: flags.intersects(!EventFlags::OUT),
            }
        })
    }

    fn is_ready(&self) -> bool {
        let mut event = [MaybeUninit::<Event>::uninit()];
        epoll::wait(&self.epoll, &mut event[..], Some(&NOW)).is_ok_and(|(it, _)| !it.is_empty())
    }

    /// It is readable when one of them is ready.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Ends the wait of a process that has sent something to itself.
    pub(crate) fn ring(&mut self) {
        if self.armed && !self.rung {
            self.rung = true;
            // A full count is readable as well.
            let _ = rustix::io::write(&self.alarm, &1u64.to_ne_bytes());
        }
    }

    /// Empties the alarm.
    pub(crate) fn silence(&mut self) {
        if self.rung {
            self.rung = false;
            // Empty is as good as read.
            let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
        }
    }
}

impl Wait for TcpFabric {
    fn arm(&mut self) -> Arming {
        if self.has_news() || self.watch.is_ready() {
            return Arming::Ready;
        }
        self.watch.armed = true;
        Arming::Armed
    }

    fn disarm(&mut self) {
        self.watch.armed = false;
        self.watch.silence();
    }

    fn sleep(&mut self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early, which callers reckon with.
        let _ = poll(&mut [PollFd::new(&self.watch.epoll, PollFlags::IN)], limit.as_ref());
        self.disarm();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }
}
