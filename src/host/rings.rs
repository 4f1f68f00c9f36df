//! Event rings: memory that this rank, the other members of its set and the event logger share.

use super::setting::Setting;
use super::{download, not_set_up};
use crate::engine::log::host::{EventSink, MemberEvents};
use crate::words::counted;
use crate::{Error, Rank};
use std::os::fd::{AsFd, OwnedFd};
use taffrail_logging::Event;
use taffrail_logging::causal::Counters;
use taffrail_logging::store::{
    Durability, Full, Memory, Owner, RingShape, RingView, RingWriter, Unpacked,
};

/// The rings of a set.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EventRings {
    // First, and its beginning first of all: each event needs it.
    own: RingWriter<Memory>,
    me: Rank,
    shape: RingShape,
    members: Vec<MemberRing>,
}

/// The ring of another member of the set.
#[derive(Debug)]
pub(crate) struct MemberRing {
    rank: Rank,
    ring: RingView<Memory>,
}

impl EventRings {
    /// Attaches to the rings of the set. Returns the events that this rank had written before it was
    /// started again, too.
    ///
    /// # Errors
    /// [`Error::Setup`] when they are not what they should be.
    #[expect(clippy::expect_used, reason = "`Setting` refuses rings without that of the rank")]
    pub(super) fn open(setting: &Setting, me: Rank) -> Result<(EventRings, Unpacked), Error> {
        let mut own = None;
        let mut members = Vec::new();
        for (rank, fd) in &setting.rings {
            let (memory, shape) = map(*rank, fd)?;
            if *rank == me {
                memory.settle();
                own = Some((shape, RingWriter::attach(memory, shape).map_err(not_set_up)?));
            } else {
                let ring = RingView::attach(memory, shape).map_err(not_set_up)?;
                members.push(MemberRing { rank: *rank, ring });
            }
        }
        let (shape, own) = own.expect("a rank is in its own set");
        let rings = EventRings { own, me, shape, members };
        let replayed = match &setting.replay {
            None => Unpacked::default(),
            Some(file) => download(rings.owner(), file)?,
        };
        let (last, written) = (replayed.last_clock(), rings.written());
        if last != written {
            return Err(not_set_up(format!(
                "{} of rank {me} logged, {last} to replay: another process has taken part as this rank before. With \
                 --logging each rank is one program",
                counted(written, "event")
            )));
        }
        Ok((rings, replayed))
    }

    /// Whose events these are.
    pub(super) fn owner(&self) -> Owner {
        Owner { rank: self.me, job: self.shape.job }
    }

    /// Whether events are to survive more than their process, and so are not stable when they are written.
    pub(super) fn are_gated(&self) -> bool {
        self.shape.durability != Durability::Process
    }
}

impl EventSink for EventRings {
    type Member = MemberRing;

    #[inline(always)]
    fn push(&mut self, event: &Event) -> Result<u64, Full> {
        self.own.push(event)
    }

    #[inline]
    fn prepare(&mut self, polls: u32, flags: u8) {
        self.own.prepare(polls, flags);
    }

    #[inline]
    fn written(&self) -> u64 {
        self.own.written()
    }

    /// A word that cannot be right opens nothing.
    #[inline]
    fn stable(&self) -> u64 {
        self.own.stable().unwrap_or(0)
    }

    #[inline]
    fn acknowledged(&self) -> u64 {
        self.own.acknowledged()
    }

    fn wake_loggers(&self) {
        self.own.wake_loggers();
    }

    fn capacity(&self) -> u64 {
        self.own.capacity()
    }

    fn leave(&mut self, incarnations: u64) {
        self.own.leave(incarnations);
    }

    fn publish(&mut self, sent: &Counters) {
        self.own.publish(sent);
    }

    #[inline]
    fn members(&self) -> &[MemberRing] {
        &self.members
    }
}

impl MemberEvents for MemberRing {
    #[inline]
    fn rank(&self) -> Rank {
        self.rank
    }

    #[inline]
    fn written(&self) -> u64 {
        self.ring.written()
    }

    #[inline]
    fn stable(&self) -> u64 {
        self.ring.stable()
    }

    #[inline]
    fn acknowledged(&self) -> u64 {
        self.ring.acknowledged()
    }
}

fn map(rank: Rank, fd: &OwnedFd) -> Result<(Memory, RingShape), Error> {
    let stat = rustix::fs::fstat(fd).map_err(not_set_up)?;
    let memory = Memory::map(fd.as_fd(), stat.st_size as usize).map_err(not_set_up)?;
    let shape = RingShape::found(&memory, rank).map_err(not_set_up)?;
    Ok((memory, shape))
}
