//! The log of a rank that starts.

use super::events::Events;
use super::host::{Host, LogParts, LoggingConfig, PAGE_RUNS, ReplayedEvents, RestartPoint};
use super::payload_log::PayloadLog;
use super::poll_state::{PollState, Recheck};
use super::resumption::Resumption;
use super::{Finalizing, Link, Logging, causal};
use crate::{Error, Rank};
use rustc_hash::FxHashMap;
use taffrail_logging::{Inbound, Outbound, Recorder, Replay};

impl<H: Host> Logging<H> {
    /// The log of a rank that starts, for the first time or again, in segments of `segment` bytes.
    ///
    /// # Errors
    /// [`Error::Setup`] when the events that are to be replayed are no history of a rank.
    pub fn open(
        config: &LoggingConfig,
        parts: LogParts<H>,
        me: Rank,
        segment: usize,
    ) -> Result<Self, Error> {
        let LoggingConfig { causal, all_events, ref sets, incarnation, memory, page_runs } =
            *config;
        let LogParts { events, gated, replayed, held, spill, checkpoints, restart } = parts;
        let events = Events::new(events, me, gated);
        let (ranks, mine) = (sets.len() as u32, sets[me as usize]);
        let causal = causal
            .then(|| causal::open(me, ranks, &events, &replayed, held.as_deref()))
            .transpose()?;
        let (going_on, restored) = restart
            .map(|RestartPoint { number, position, state, previous }| {
                (Resumption::new(number, position, previous), state)
            })
            .unzip();
        let clock = going_on.as_ref().map_or(0, Resumption::clock);
        let replay = Replay::new(clock, replayed.behind(clock))
            .map_err(|error| Error::Setup(error.to_string()))?;
        let first = incarnation == 0;
        if !first {
            let events = replay.clock() - clock;
            tracing::info!(incarnation, events, "started again: replaying");
        }
        let mut inbound = Inbound::new(ranks);
        inbound.met(me, incarnation);
        let is_one_set = sets.iter().all(|&set| set == mine);
        Ok(Logging {
            me,
            incarnation,
            sets: sets.clone(),
            all_events,
            departs_freely: causal.is_none() && !events.has_gate(),
            is_one_set,
            resend_backlog_high: false,
            chooses_turns: held.is_some(),
            ends_turns: !first || held.is_some(),
            held,
            recorder: Recorder::after(replay.clock()),
            replaying: !replay.is_over(),
            replay,
            poll_state: PollState::default(),
            recheck: Recheck::default(),
            pending_answer: None,
            outbound: Outbound::new(ranks, first),
            inbound,
            events,
            causal: causal.map(Box::new),
            frame: Vec::new(),
            payload_log: PayloadLog::new(segment, memory, spill),
            checkpoints,
            unannounced: None,
            going_on,
            restored,
            finalizing: Finalizing::No,
            page_runs: page_runs.clamp(1, PAGE_RUNS),
            pages: vec![Vec::new(); sets.len()],
            reserved: FxHashMap::default(),
            awaited: FxHashMap::default(),
            multi_replays: FxHashMap::default(),
            partial: FxHashMap::default(),
            syncs: FxHashMap::default(),
            links: (sets.iter())
                .map(|set| Link { is_first: !first, same_set: *set == mine, ..Link::default() })
                .collect(),
        })
    }
}
