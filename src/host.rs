//! The outside of a log in the product: event rings, files and memory that the launcher holds, or that the process makes
//! for itself. The engine sees them through [`Host`].

pub(crate) mod heartbeat;
mod previous;
mod rings;
pub(crate) mod setting;
mod spill;

use crate::Error;
use crate::Rank;
use crate::engine::log::host::{
    CheckpointError, CheckpointStore, Host, LogParts, ReplayedEvents, RestartPoint,
};
use crate::words::{say, warn};
use previous::PreviousFiles;
use rings::EventRings;
use setting::{Estate, Setting};
use spill::SpillFile;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use taffrail_logging::causal::HeldStore;
use taffrail_logging::store::{
    Announcements, CheckpointFiles, Committed, HeldTable, Owner, SegmentMap, Unpacked,
};
use taffrail_logging::{LoggedEvent, Position};

/// Rings and files.
#[derive(Debug)]
pub(crate) struct Files;

impl Host for Files {
    type Events = EventRings;
    type Replayed = ReplayedFile;
    type Spill = SpillFile;
    type Previous = PreviousFiles;
    type Checkpoints = CheckpointFile;

    fn end_process(why: &str) -> ! {
        say(why);
        std::process::abort();
    }

    fn warn(what: &str) {
        warn(what);
    }
}

/// What there is for the log of a rank whose memory has segments of so many bytes, and so many of them at the most.
///
/// # Errors
/// [`Error::Setup`] when rings, files or a checkpoint are not what they should be, or there is no memory.
pub(crate) fn open(
    setting: &Setting,
    me: Rank,
    segment: usize,
    segments: usize,
) -> Result<LogParts<Files>, Error> {
    let (events, replayed) = EventRings::open(setting, me)?;
    let gated = events.are_gated() && !setting.config.causal;
    let owner = events.owner();
    let table = setting.held.as_ref().map(|held| {
        let file = held.try_clone().map_err(not_set_up)?;
        HeldTable::attach(file, owner).map_err(not_set_up)
    });
    let mut parts = LogParts {
        events,
        gated,
        replayed: ReplayedFile(replayed),
        held: table.transpose()?.map(|table| Box::new(table) as Box<dyn HeldStore>),
        spill: SpillFile::default(),
        checkpoints: None,
        restart: None,
    };
    let Some(Estate { checkpoints, own, former }) = &setting.estate else { return Ok(parts) };
    let open = |file: &OwnedFd| file.try_clone().map(File::from).map_err(not_set_up);
    let checkpoints = CheckpointFiles::open(open(checkpoints)?, owner).map_err(not_set_up)?;
    let places = SegmentMap::begin(open(&own.places)?, segments, segment).map_err(not_set_up)?;
    parts.spill = SpillFile::given(open(&own.spill)?, places);
    let last = checkpoints.last().map_err(not_set_up)?;
    let announcements = checkpoints.announcements().map_err(not_set_up)?;
    parts.checkpoints = Some(CheckpointFile { files: checkpoints, announcements });
    let Some(Committed { number, incarnation, position, state }) = last else { return Ok(parts) };
    let position =
        Position::decode(&position, setting.config.sets.len() as u32).map_err(not_set_up)?;
    let former = former.as_ref().ok_or_else(|| {
        not_set_up(format!("the log of incarnation {incarnation} was not handed over"))
    })?;
    let previous = PreviousFiles::open(former, segment)?;
    tracing::info!(number, incarnation, clock = position.clock, "going on from a checkpoint");
    parts.restart = Some(RestartPoint { number, position, state, previous });
    Ok(parts)
}

/// The events of earlier incarnations, as the event logger has packed them.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedFile(Unpacked);

impl Iterator for ReplayedFile {
    type Item = LoggedEvent;

    #[inline]
    fn next(&mut self) -> Option<LoggedEvent> {
        self.0.next()
    }
}

impl ReplayedEvents for ReplayedFile {
    fn behind(self, clock: u64) -> Self {
        ReplayedFile(self.0.behind(clock))
    }
}

/// The checkpoints of a rank, in memory that its launcher holds.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    files: CheckpointFiles,
    announcements: Announcements,
}

impl CheckpointStore for CheckpointFile {
    fn save(
        &mut self,
        incarnation: u32,
        position: &[u8],
        state: &[IoSlice<'_>],
    ) -> Result<u64, CheckpointError> {
        self.files.commit(incarnation, position, state).map_err(CheckpointError)
    }

    fn may_announce(&self, number: u64) -> bool {
        self.announcements.may_announce(number)
    }
}

/// The bytes of the events of earlier incarnations, as the launcher hands them over.
fn download(owner: Owner, file: &OwnedFd) -> Result<Unpacked, Error> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    let mut file = File::from(file.try_clone().map_err(not_set_up)?);
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(not_set_up)?;
    let name = format!("of rank {}, handed over by the launcher", owner.rank);
    Unpacked::new(owner, &name, bytes).map_err(not_set_up)
}

fn not_set_up(error: impl ToString) -> Error {
    Error::Setup(error.to_string())
}
