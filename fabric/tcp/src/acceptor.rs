//! Connections that others make: nothing of one is believed before its process has proven that it belongs to the job.

use crate::Config;
use crate::address::Listener;
use crate::handshake::{Identity, Proven, Rejected, Server, ServerStep, Standing, Verdict};
use crate::wait::{Key, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections that one poll accepts.
const MAX_ACCEPTED: usize = 16;
/// Handshakes that are under way for less than this are not given up for others.
const GRACE: Duration = Duration::from_secs(1);
/// How long nothing is accepted when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Refusals that are logged one by one; beyond, only every refusal with a number that is a power of two.
const MAX_LOGGED: u64 = 4;

/// Connections that were dropped before they were proven, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Something else than a handshake of this version, or one for another rank.
    pub garbage: u64,
    /// Of another job.
    pub other_job: u64,
    /// The proof was wrong.
    pub wrong_secret: u64,
    /// They ended in the middle.
    pub truncated: u64,
    /// They sent more than the packet that was awaited.
    pub oversized: u64,
    /// They took longer than [`Config::handshake`](crate::Config::handshake).
    pub late: u64,
    /// There were too many at a time, and they had been there the longest.
    pub crowded: u64,
}

/// What listeners of several processes have dropped, in memory that these share (`docs/spec/agent.md`, section 10): wrong
/// secret (or job), garbage, truncated, oversized, half-open.
pub type Tally = [AtomicU64; 5];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Garbage,
    OtherJob,
    WrongSecret,
    Truncated,
    Oversized,
    Late,
    Crowded,
}

impl Reason {
    fn of(rejected: &Rejected) -> Reason {
        match rejected {
            Rejected::Job => Reason::OtherJob,
            Rejected::Secret => Reason::WrongSecret,
            _ => Reason::Garbage,
        }
    }

    /// Its word in a [`Tally`].
    fn word(self) -> usize {
        match self {
            Reason::OtherJob | Reason::WrongSecret => 0,
            Reason::Garbage => 1,
            Reason::Truncated => 2,
            Reason::Oversized => 3,
            Reason::Late | Reason::Crowded => 4,
        }
    }
}

impl Dropped {
    fn count(&mut self, reason: Reason) {
        *match reason {
            Reason::Garbage => &mut self.garbage,
            Reason::OtherJob => &mut self.other_job,
            Reason::WrongSecret => &mut self.wrong_secret,
            Reason::Truncated => &mut self.truncated,
            Reason::Oversized => &mut self.oversized,
            Reason::Late => &mut self.late,
            Reason::Crowded => &mut self.crowded,
        } += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        let Dropped { garbage, other_job, wrong_secret, truncated, oversized, late, crowded } =
            self;
        garbage + other_job + wrong_secret + truncated + oversized + late + crowded
    }
}

/// The listening socket, and handshakes under way.
pub(crate) struct Acceptor {
    listener: Listener,
    slots: Vec<Option<Slot>>,
    limit: Duration,
    /// Whether the listener is watched, and if not, from when on it is.
    closed_until: Option<Instant>,
    pub(crate) dropped: Dropped,
    tally: Option<&'static Tally>,
    /// For what a user should know.
    say: fn(&str),
}

struct Slot {
    socket: OwnedFd,
    from: Option<SocketAddr>,
    server: Server,
    since: Instant,
}

/// A process of the job that waits for the answer.
pub(crate) struct Visitor {
    pub(crate) proven: Proven,
    socket: OwnedFd,
    server: Server,
}

impl Visitor {
    /// Answers. The socket, if it is to be used and took the answer.
    pub(crate) fn answer(
        self,
        verdict: Verdict,
        standing: &Standing,
        me: &Identity,
    ) -> Option<OwnedFd> {
        let packet = self.server.answer(verdict, standing, me);
        let is_sent = is_sent(&self.socket, &packet);
        (verdict == Verdict::Welcome && is_sent).then_some(self.socket)
    }
}

/// Sends a packet of the handshake. The buffers of a new socket are empty, so that it takes all or has failed.
pub(crate) fn is_sent(socket: &OwnedFd, packet: &[u8]) -> bool {
    send(socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Ok(packet.len())
}

impl Acceptor {
    pub(crate) fn new(listener: Listener, config: &Config) -> Acceptor {
        let slots = (0..config.max_handshakes.max(1)).map(|_| None).collect();
        let &Config { handshake: limit, say, tally, .. } = config;
        let dropped = Dropped::default();
        Acceptor { listener, slots, limit, closed_until: None, dropped, tally, say }
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Accepts what waits, as far as there is room, and sets what a new socket needs.
    pub(crate) fn accept(
        &mut self,
        watch: &Watch,
        prepare: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
        mut nonce: impl FnMut() -> [u8; 32],
    ) {
        for _ in 0..MAX_ACCEPTED {
            let now = Instant::now();
            let Some(free) = self.free_slot(watch, now) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match acceptfrom_with(self.listener.socket(), flags) {
                Ok((socket, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let watched = prepare(&socket)
                        .is_ok_and(|()| watch.add(&socket, Key::Slot(free as u32)).is_ok());
                    if watched {
                        let server = Server::new(nonce());
                        self.slots[free] = Some(Slot { socket, from, server, since: now });
                    }
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    (self.say)("no descriptors are left for the connections of others (ulimit -n)");
                    return self.close_until(watch, now + PAUSE);
                }
                // None waits, or it has ended meanwhile.
                Err(_) => return,
            }
        }
    }

    /// A slot that is free, if need be, and if somebody waits for it, after the one that was taken the longest ago.
    fn free_slot(&mut self, watch: &Watch, now: Instant) -> Option<usize> {
        if let Some(free) = self.slots.iter().position(Option::is_none) {
            return Some(free);
        }
        let mut waits = [PollFd::new(self.listener.socket(), PollFlags::IN)];
        if !poll(&mut waits, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            return None;
        }
        let since = |index: &usize| self.slots[*index].as_ref().map(|slot| slot.since);
        let oldest = (0..self.slots.len()).min_by_key(since)?;
        let since = since(&oldest)?;
        if now < since + GRACE {
            self.close_until(watch, since + GRACE);
            return None;
        }
        self.drop_slot(watch, oldest, &"others wait for its place", Reason::Crowded);
        Some(oldest)
    }

    fn close_until(&mut self, watch: &Watch, at: Instant) {
        if self.closed_until.replace(at).is_none() {
            watch.remove(self.listener.socket());
        }
    }

    fn reopen(&mut self, watch: &Watch) {
        if self.closed_until.take().is_some() {
            let added = watch.add(self.listener.socket(), Key::Listener);
            debug_assert!(added.is_ok(), "it was in the set: {added:?}");
        }
    }

    /// Reads from a connection, no further than one byte behind the packet that is awaited.
    pub(crate) fn read(
        &mut self,
        watch: &Watch,
        index: u32,
        me: &Identity,
        ranks: u32,
    ) -> Option<Visitor> {
        let index = index as usize;
        loop {
            let slot = self.slots.get_mut(index)?.as_mut()?;
            let mut buffer = [0; 128];
            let wants = slot.server.wants().min(buffer.len() - 1);
            let len = match recv(&slot.socket, &mut buffer[..=wants], RecvFlags::DONTWAIT) {
                Ok((_, len @ 1..)) => len,
                Err(Errno::AGAIN | Errno::INTR) => return None,
                Ok(_) | Err(_) => {
                    self.drop_slot(watch, index, &"it ended", Reason::Truncated);
                    return None;
                }
            };
            match slot.server.take(&buffer[..len.min(wants)], me, ranks) {
                Ok(_) if len > wants => {
                    let why = "it sent more than the packet that was awaited";
                    self.drop_slot(watch, index, &why, Reason::Oversized);
                    return None;
                }
                Ok(ServerStep::More) => {}
                Ok(ServerStep::Send(packet)) if is_sent(&slot.socket, &packet) => {}
                Ok(ServerStep::Send(_)) => {
                    self.drop_slot(watch, index, &"it ended", Reason::Truncated);
                    return None;
                }
                Ok(ServerStep::Proven(proven)) => {
                    let slot = self.slots[index].take()?;
                    watch.remove(&slot.socket);
                    self.reopen(watch);
                    return Some(Visitor { proven, socket: slot.socket, server: slot.server });
                }
                Err(rejected) => {
                    self.drop_slot(watch, index, &rejected, Reason::of(&rejected));
                    return None;
                }
            }
        }
    }

    fn drop_slot(
        &mut self,
        watch: &Watch,
        index: usize,
        why: &dyn std::fmt::Display,
        reason: Reason,
    ) {
        let Some(slot) = self.slots[index].take() else { return };
        watch.remove(&slot.socket);
        self.dropped.count(reason);
        if let Some(tally) = self.tally {
            tally[reason.word()].fetch_add(1, Ordering::Relaxed);
        }
        let total = self.dropped.total();
        if total <= MAX_LOGGED || total.is_power_of_two() {
            let from = slot.from.map_or("an unknown address".to_owned(), |from| from.to_string());
            let what = format!(
                "a connection from {from} was dropped before it was proven ({total} up to now): {why}"
            );
            // One that has ended may have been a rank that was killed.
            match reason == Reason::Truncated {
                true => tracing::debug!("{what}"),
                false => (self.say)(&what),
            }
        }
        self.reopen(watch);
    }

    /// The next moment at which [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let slots = self.slots.iter().flatten().map(|slot| slot.since + self.limit);
        slots.chain(self.closed_until).min()
    }

    /// Drops what has taken too long.
    pub(crate) fn expire(&mut self, watch: &Watch, now: Instant) {
        for index in 0..self.slots.len() {
            if let Some(slot) = &self.slots[index]
                && slot.since + self.limit <= now
            {
                self.drop_slot(watch, index, &"it took too long", Reason::Late);
            }
        }
        if self.closed_until.is_some_and(|at| at <= now) {
            self.reopen(watch);
        }
    }
}
