//! The events of this rank: where they are written, and whether they are stable.

use super::setting::Setting;
use crate::{Error, Rank};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use taffrail_logging::store::{
    Durability, Memory, Owner, RingShape, RingView, RingWriter, read_events,
};
use taffrail_logging::{Clocked, Gate, Replay, Ticket};

/// Time after which somebody should know that a rank waits for its event logger.
const PATIENCE: Duration = Duration::from_secs(5);

/// The event ring of this rank, and the gate of its set.
pub(crate) struct Events {
    ring: RingWriter<Memory>,
    /// Where what is written is not stable at once.
    gate: Option<SetGate>,
}

struct SetGate {
    gate: Gate,
    /// Our place in the set.
    place: usize,
    /// The other members, and their places.
    fellows: Vec<(usize, RingView<Memory>)>,
}

impl Events {
    /// Attaches to the rings of the set.
    ///
    /// # Errors
    /// [`Error::Setup`] when they are not what they should be.
    pub(crate) fn open(setting: &Setting, me: Rank) -> Result<(Events, Replay), Error> {
        let mut ring = None;
        let mut fellows = Vec::new();
        for (place, (rank, fd)) in setting.rings.iter().enumerate() {
            let (memory, shape) = map(*rank, fd)?;
            if *rank == me {
                ring = Some((place, shape, RingWriter::attach(memory, shape).map_err(not_set_up)?));
            } else {
                fellows.push((place, RingView::attach(memory, shape).map_err(not_set_up)?));
            }
        }
        let (place, shape, ring) = ring.expect("a rank is in its own set");
        let replay = match &setting.replay {
            None => Replay::new(0, []),
            Some(file) => {
                let events = download(Owner { rank: me, job: shape.job }, file)?;
                Replay::new(0, events.into_iter().map(|e| (e.clock, e.event)))
            }
        };
        let replay = replay.map_err(not_set_up)?;
        if replay.clock() != ring.written() {
            return Err(not_set_up(format!(
                "{} events are to be replayed, and {} are written in the ring of rank {me}",
                replay.clock(),
                ring.written()
            )));
        }
        let gate = (shape.durability != Durability::Process).then(|| SetGate {
            gate: Gate::new(setting.rings.len()),
            place,
            fellows,
        });
        Ok((Events { ring, gate }, replay))
    }

    /// Writes an event. Waits while the event logger is behind.
    pub(crate) fn write(&mut self, event: Clocked) {
        if let Ok(clock) = self.ring.push(&event.event) {
            debug_assert_eq!(clock, event.clock);
            return;
        }
        self.write_slowly(event);
    }

    #[cold]
    fn write_slowly(&mut self, event: Clocked) {
        let mut since = Instant::now();
        while self.ring.push(&event.event).is_err() {
            std::thread::sleep(Duration::from_micros(50));
            if since.elapsed() > PATIENCE {
                since = Instant::now();
                tracing::warn!(
                    written = self.ring.written(),
                    "waiting for the event logger, which takes no events: is it alive, and is there room where it keeps them?"
                );
            }
        }
    }

    /// Says that this rank is done with all others, at these incarnations, which are added up.
    pub(crate) fn leave(&mut self, incarnations: u64) {
        self.ring.leave(incarnations);
    }

    /// The clock of the last event.
    pub(crate) fn written(&self) -> u64 {
        self.ring.written()
    }

    /// The clock of the last event that is stable.
    pub(crate) fn stable(&self) -> u64 {
        self.ring.stable().unwrap_or(0)
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
        self.gate.as_ref().map_or_else(Ticket::default, |set| set.gate.ticket())
    }

    /// Whether a message may leave (*stable-before-escape*).
    pub(crate) fn is_open(&mut self, ticket: &Ticket) -> bool {
        if ticket.is_free() {
            return true;
        }
        self.refresh();
        self.gate.as_ref().is_none_or(|set| set.gate.is_open(ticket))
    }

    fn refresh(&mut self) {
        let Some(SetGate { gate, place, fellows }) = &mut self.gate else { return };
        gate.written(*place, self.ring.written());
        // A word that cannot be right opens nothing.
        gate.stable(*place, self.ring.stable().unwrap_or(0));
        for (place, view) in fellows {
            gate.written(*place, view.written());
            gate.stable(*place, view.stable());
        }
    }
}

fn map(rank: Rank, fd: &OwnedFd) -> Result<(Memory, RingShape), Error> {
    let stat = rustix::fs::fstat(fd).map_err(not_set_up)?;
    let memory = Memory::map(fd.as_fd(), stat.st_size as usize).map_err(not_set_up)?;
    let shape = RingShape::found(&memory, rank).map_err(not_set_up)?;
    Ok((memory, shape))
}

fn download(owner: Owner, file: &OwnedFd) -> Result<Vec<Clocked>, Error> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    let mut file = std::fs::File::from(file.try_clone().map_err(not_set_up)?);
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(not_set_up)?;
    let name = format!("of rank {}, handed over by the launcher", owner.rank);
    read_events(owner, &name, &bytes).map_err(not_set_up)
}

fn not_set_up(error: impl ToString) -> Error {
    Error::Setup(error.to_string())
}
