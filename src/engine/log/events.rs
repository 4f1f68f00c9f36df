//! The events of this rank: where they are written, and which are stable.

use super::setting::Setting;
use crate::engine::heartbeat::Heartbeat;
use crate::words::counted;
use crate::{Error, Rank, wait};
use std::os::fd::{AsFd, OwnedFd};
use taffrail_logging::causal::Counters;
use taffrail_logging::store::{
    Durability, Memory, Owner, RingShape, RingView, RingWriter, Unpacked,
};
use taffrail_logging::{Clocked, Gate, Ticket};

/// The event rings of the set, and its gate.
#[repr(C)]
pub(crate) struct Events {
    // First, and its beginning first of all: each event needs it.
    ring: RingWriter<Memory>,
    me: Rank,
    /// Digest of the job's identity.
    job: u64,
    /// Our place in the set.
    place: usize,
    /// The other members of the set.
    fellows: Vec<Fellow>,
    /// Where messages wait until what is written is stable, and it is not at once.
    gate: Option<Gate>,
    heartbeat: Heartbeat,
}

struct Fellow {
    rank: Rank,
    place: usize,
    ring: RingView<Memory>,
}

impl Events {
    /// Attaches to the rings of the set. Returns the events that this rank had written before it was
    /// started again, too.
    ///
    /// # Errors
    /// [`Error::Setup`] when they are not what they should be.
    #[expect(clippy::expect_used, reason = "`Setting` refuses rings without that of the rank")]
    pub(crate) fn open(
        setting: &Setting,
        me: Rank,
        heartbeat: Heartbeat,
    ) -> Result<(Events, Unpacked), Error> {
        let mut ring = None;
        let mut fellows = Vec::new();
        for (place, (rank, fd)) in setting.rings.iter().enumerate() {
            let (memory, shape) = map(*rank, fd)?;
            if *rank == me {
                memory.settle();
                ring = Some((place, shape, RingWriter::attach(memory, shape).map_err(not_set_up)?));
            } else {
                let ring = RingView::attach(memory, shape).map_err(not_set_up)?;
                fellows.push(Fellow { rank: *rank, place, ring });
            }
        }
        let (place, shape, ring) = ring.expect("a rank is in its own set");
        let former = match &setting.replay {
            None => Unpacked::default(),
            Some(file) => download(Owner { rank: me, job: shape.job }, file)?,
        };
        let last = former.last_clock();
        if last != ring.written() {
            return Err(not_set_up(format!(
                "{} of rank {me} logged, {last} to replay: another process has taken part as this rank before. With \
                 --logging each rank is one program",
                counted(ring.written(), "event")
            )));
        }
        let waits = shape.durability != Durability::Process && !setting.causal;
        let gate = waits.then(|| Gate::new(setting.rings.len()));
        let job = shape.job;
        Ok((Events { me, job, ring, place, fellows, gate, heartbeat }, former))
    }

    /// Whose events these are.
    pub(crate) fn owner(&self) -> Owner {
        Owner { rank: self.me, job: self.job }
    }

    /// Whether anything may have to wait for its events.
    pub(crate) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Writes an event. Waits while the event logger is behind.
    #[inline(always)]
    pub(crate) fn write(&mut self, event: Clocked) {
        if let Ok(clock) = self.ring.push(&event.event) {
            debug_assert_eq!(clock, event.clock);
            return;
        }
        self.write_slowly(event);
    }

    /// Gets ready for the event that is expected next, after so many polls, with these flags.
    #[inline]
    pub(crate) fn prepare(&mut self, polls: u32, flags: u8) {
        self.ring.prepare(polls, flags);
    }

    #[cold]
    fn write_slowly(&mut self, event: Clocked) {
        let Events { ring, me, heartbeat, .. } = self;
        wait::until_taken(*me, *heartbeat, || ring.push(&event.event).is_ok());
    }

    /// Says that this rank is done with all others, at these incarnations, which are added up.
    pub(crate) fn leave(&mut self, incarnations: u64) {
        self.ring.leave(incarnations);
    }

    /// Tells what was sent with the messages of this rank.
    pub(crate) fn tell(&mut self, sent: &Counters) {
        self.ring.tell(sent);
    }

    /// The clock of the last event.
    pub(crate) fn written(&self) -> u64 {
        self.ring.written()
    }

    /// The clock of the last event that is stable.
    pub(crate) fn stable(&self) -> u64 {
        self.ring.stable().unwrap_or(0)
    }

    /// Whether all that this rank has written is stable.
    pub(crate) fn are_all_stable(&self) -> bool {
        self.gate.is_none() || self.stable() >= self.written()
    }

    /// What a message that is sent now has to wait for.
    #[inline]
    pub(crate) fn ticket(&mut self) -> Ticket {
        match self.gate {
            None => Ticket::default(),
            Some(_) => self.look(),
        }
    }

    #[inline(never)]
    fn look(&mut self) -> Ticket {
        self.refresh();
        self.gate.as_ref().map_or_else(Ticket::default, Gate::ticket)
    }

    /// Whether a message may leave (*stable-before-escape*).
    pub(crate) fn is_open(&mut self, ticket: &Ticket) -> bool {
        if ticket.is_free() {
            return true;
        }
        self.refresh();
        self.gate.as_ref().is_none_or(|gate| gate.is_open(ticket))
    }

    fn refresh(&mut self) {
        let Events { ring, place, fellows, gate: Some(gate), .. } = self else { return };
        gate.written(*place, ring.written());
        // A word that cannot be right opens nothing.
        gate.stable(*place, ring.stable().unwrap_or(0));
        for fellow in fellows {
            gate.written(fellow.place, fellow.ring.written());
            gate.stable(fellow.place, fellow.ring.stable());
        }
    }

    /// Up to which clock the event logger has the events of each member of the set, whatever they are
    /// to survive.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (Rank, u64)> {
        let fellows = self.fellows.iter().map(|fellow| (fellow.rank, fellow.ring.acknowledged()));
        std::iter::once((self.me, self.ring.acknowledged())).chain(fellows)
    }

    /// No rank has more events than this that the event logger does not have.
    pub(crate) fn capacity(&self) -> u64 {
        self.ring.capacity()
    }
}

fn map(rank: Rank, fd: &OwnedFd) -> Result<(Memory, RingShape), Error> {
    let stat = rustix::fs::fstat(fd).map_err(not_set_up)?;
    let memory = Memory::map(fd.as_fd(), stat.st_size as usize).map_err(not_set_up)?;
    let shape = RingShape::found(&memory, rank).map_err(not_set_up)?;
    Ok((memory, shape))
}

fn download(owner: Owner, file: &OwnedFd) -> Result<Unpacked, Error> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    let mut file = std::fs::File::from(file.try_clone().map_err(not_set_up)?);
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(not_set_up)?;
    let name = format!("of rank {}, handed over by the launcher", owner.rank);
    Unpacked::new(owner, &name, bytes).map_err(not_set_up)
}

pub(super) fn not_set_up(error: impl ToString) -> Error {
    Error::Setup(error.to_string())
}
