//! Checkpoints: taken, gone on from, and what others drop because of them (`docs/logging.md`, section 14;
//! MPICH-V2, section 4.6).

use super::decisions::Logged;
use super::host::{CheckpointError, CheckpointStore, Host, PreviousLog, PreviousLogError};
use super::nondeterminism::CoreParts;
use super::resumption::Resumption;
use super::{LogEntry, Logging, Unannounced, log_index};
use crate::Engine;
use crate::core::{Core, Deferred};
use crate::peer::Queued;
use crate::policy::protocol::Checkpoints;
use crate::request::{ANY, Slot, Stage};
use crate::{Error, NotNow, Rank};
use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use taffrail_fabric::{Fabric, MemoryError, SendMemory};
use taffrail_logging::{
    Entry, MsgId, PeerNumbers, PeerPosition, Position, Received, Recorder, Restart, RestartPhase,
    mutant,
};

impl<H: Host> Logging<H> {
    /// Notes what our checkpoint has of a rank, if it is one that COMMITTED goes to: of another set, and the checkpoint has something
    /// of it (*neighbours-only*). Whether it is.
    fn note_own_checkpoint(&mut self, rank: Rank, received: &Received) -> bool {
        let is_needed = !self.is_same_set(rank) && !received.channels.is_empty();
        if is_needed {
            self.links[rank as usize].exchanged().own_checkpoint = Some(received.clone());
        }
        is_needed
    }

    /// What the process before has logged for a peer, by the table of it in its checkpoint.
    pub(super) fn entries(
        &self,
        rank: Rank,
        table: &[u8],
        previous: &H::Previous,
    ) -> Result<VecDeque<Entry<LogEntry>>, Error> {
        let damaged = || Error::Setup(format!("the checkpoint has no table for rank {rank}"));
        let entries =
            log_index::messages(table, self.page_runs, |at, into| previous.read(at, into));
        Ok(entries.ok_or_else(damaged)?.map_err(not_read)?.into())
    }

    /// What the last checkpoint covers of each rank, if it is to be announced and may be now.
    fn take_announceable(&mut self) -> Option<Vec<Received>> {
        let store = self.checkpoints.as_ref()?;
        let may = |last: &mut Box<Unannounced>| {
            store.may_announce(last.number) || mutant!(AnnouncedBeforeElsewhere)
        };
        Some(self.unannounced.take_if(may)?.covered)
    }

    /// Takes over what the process before has logged for a peer, as far as it may be asked for. Messages of up to
    /// `inline` bytes are short ones, and longer ones leave in fragments. What is taken over leaves the list.
    pub(super) fn take_over(
        &mut self,
        memory: &mut impl SendMemory,
        rank: Rank,
        entries: &mut VecDeque<Entry<LogEntry>>,
        previous: &H::Previous,
        (inline, fragment): (usize, usize),
    ) -> Result<(), NotNow> {
        let mut bytes = Vec::new();
        while let Some(&Entry { context, seq, payload: kept }) = entries.front() {
            bytes.resize(kept.len(), 0);
            if previous.read(kept.at + kept.prefix() as u64, &mut bytes).map_err(not_read)? {
                if self.fills_page(rank) {
                    self.write_page(memory, rank)?;
                }
                if self.payload_log.fits_at_once(bytes.len()) {
                    self.payload_log.prepare(memory, bytes.len(), fragment)?;
                }
                let is_short = bytes.len() <= inline;
                let payload = self.payload_log.write_again(memory, &kept, &bytes, is_short)?;
                self.outbound.keep(rank, Entry { context, seq, payload });
            }
            entries.pop_front();
        }
        Ok(())
    }
}

impl<P: Logged> Checkpoints<P> for Logging<P::Host> {
    /// `false` while this rank is replayed.
    fn begin_checkpoint<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> Result<bool, Error> {
        let log = engine.core.log();
        // A process that resumes from this checkpoint has polled no completion.
        if !mutant!(DrainedAcrossCheckpoint) {
            log.poll_state.forget_drained();
        }
        if log.checkpoints.is_none() {
            return Err(Error::NotLogged {
                what: "a checkpoint of a rank whose set has other members, or with causal logging,",
                remedy: "start the job with --logging pessimistic --sets rank",
            });
        }
        // What the replay has answered too early is an event that has not happened yet.
        if (log.replaying || log.pending_answer.is_some()) && !mutant!(CheckpointInReplay) {
            return Ok(false);
        }
        // What this rank has sent to itself is here then, or waits for a turn of its own.
        engine.progress();
        engine.check_nothing_is_under_way()?;
        engine.collect_what_waits();
        if !mutant!(PollsAcrossCheckpoint) {
            let CoreParts { log, peers, .. } = engine.core.parts();
            log.before_send(peers);
        }
        Ok(true)
    }

    /// Not before all events of this rank are stable: a rank that is restored from a checkpoint writes its next event
    /// behind them. And not before the last checkpoint is announced (*one-under-way*).
    fn checkpoint<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        state: &[IoSlice<'_>],
    ) -> Result<bool, Error> {
        let log = engine.core.log();
        let is_stable = log.events.are_all_stable() || mutant!(CheckpointBeforeStable);
        let may_write = is_stable && log.unannounced.is_none();
        if may_write {
            engine.write_checkpoint(state)?;
        }
        Ok(may_write)
    }

    /// Not before it outlives the failures that the job is to survive (*announced-is-elsewhere*).
    fn announce<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) {
        match engine.core.log().take_announceable() {
            Some(covered) => engine.send_committed_to_all(covered),
            None => engine.core.deferred.retry(Deferred::Announce),
        }
    }

    fn resume<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> Result<(), NotNow> {
        let Some(mut from) = engine.core.log().going_on.take() else { return Ok(()) };
        let result = engine.resume_from(&mut from);
        if result == Err(NotNow::Waits) {
            engine.core.log().going_on = Some(from);
        }
        result
    }
}

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    /// Writes a checkpoint that was begun.
    #[expect(clippy::expect_used, reason = "a checkpoint is begun only where it can be kept")]
    fn write_checkpoint(&mut self, state: &[IoSlice<'_>]) -> Result<(), Error> {
        let position = self.position();
        if mutant!(AnnouncedBeforeCommit) {
            self.send_committed_to_all(covered(&position));
        }
        let log = self.core.log();
        let incarnation = log.incarnation;
        let store = log.checkpoints.as_mut().expect("it was begun");
        let number = store.save(incarnation, &position.encode(), state);
        let number = number.map_err(|error| not_written(&error))?;
        tracing::debug!(number, clock = position.clock, "checkpoint taken");
        log.unannounced = Some(Box::new(Unannounced { number, covered: covered(&position) }));
        match log.take_announceable() {
            Some(covered) => self.send_committed_to_all(covered),
            None => self.core.deferred.push(Deferred::Announce),
        }
        Ok(())
    }

    fn resume_from(
        &mut self,
        from: &mut Resumption<<P::Host as Host>::Previous>,
    ) -> Result<(), NotNow> {
        if from.ranks == 0 {
            let CoreParts { log, requests, .. } = self.core.parts();
            let posts = if mutant!(PostsNotRestored) { 0 } else { from.position.posts };
            log.recorder = Recorder::going_on(log.replay.clock(), posts);
            requests.count_from(if mutant!(SerialNotRestored) { 0 } else { from.position.serial });
            let covered = covered(&from.position);
            log.unannounced = Some(Box::new(Unannounced { number: from.number, covered }));
        }
        loop {
            let Engine { fabric, core, sizes, .. } = self;
            let sizes = (fabric.limits(fabric.me()).inline, sizes.fragment);
            let last = from.ranks.wrapping_sub(1);
            core.log().take_over(fabric, last, &mut from.entries, &from.previous, sizes)?;
            let rank = from.ranks;
            let Some(side) = from.position.sides.get_mut(rank as usize) else {
                self.resume_announcing();
                return Ok(());
            };
            let table = self.resume_side(rank, std::mem::take(side));
            if rank != self.rank() {
                from.entries = self.core.log().entries(rank, &table, &from.previous)?;
            }
            from.ranks += 1;
        }
    }

    /// Restores the state of the channels with one peer from the checkpoint of the process before. Returns the table of what
    /// was logged for it.
    fn resume_side(&mut self, rank: Rank, side: PeerPosition) -> Vec<u8> {
        let Received { channels, missing } = side.received;
        let CoreParts { log, numbers, .. } = self.core.parts();
        for (context, seq) in channels.into_iter().filter(|_| !mutant!(ReceivedNotRestored)) {
            numbers.of_mut(rank).expected.set(context, seq);
        }
        for (context, seq) in missing.into_iter().filter(|_| !mutant!(UnreceivedNotRestored)) {
            log.inbound.lies_ahead(MsgId { source: rank, context, seq });
        }
        for (context, seq) in side.next.into_iter().filter(|_| !mutant!(SentNotRestored)) {
            numbers.of_mut(rank).sent.set(context, seq);
        }
        side.log
    }

    /// The process before may have ended between its checkpoint and COMMITTED, which leaves with RESTART then.
    fn resume_announcing(&mut self) {
        let Some(covered) = self.core.log().take_announceable() else {
            return self.core.deferred.push(Deferred::Announce);
        };
        for (rank, received) in (0..).zip(covered) {
            self.core.log().note_own_checkpoint(rank, &received);
        }
    }

    /// Sends COMMITTED to the ranks of other sets of which a checkpoint has something: what it has of each (*neighbours-only*).
    fn send_committed_to_all(&mut self, covered: Vec<Received>) {
        for (rank, received) in (0..).zip(covered) {
            if self.core.log().note_own_checkpoint(rank, &received) {
                self.send_committed(rank, received);
            }
        }
    }

    /// Sends COMMITTED.
    pub(super) fn send_committed(&mut self, rank: Rank, received: Received) {
        let incarnation = self.core.log().incarnation;
        self.post_restart(rank, &Restart::new(RestartPhase::Committed, incarnation, received));
    }

    /// # Errors
    /// [`Error::Pending`], which names what is.
    fn check_nothing_is_under_way(&mut self) -> Result<(), Error> {
        let requests = &self.core.requests;
        let is_own = |slot: &Slot| slot.extra.as_ref().is_some_and(|extra| extra.detached);
        let open = requests.under_way().find(|(_, slot)| !is_own(slot));
        let what = match open.or_else(|| requests.over().next()) {
            Some((_, slot)) if slot.stage.is_over() => {
                Some("an operation is over and its result was not taken".to_owned())
            }
            Some((_, slot)) => {
                let what = match slot.stage {
                    Stage::Posted | Stage::Arriving | Stage::CtsSent | Stage::Reading => {
                        "a receive"
                    }
                    _ => "a send, get or put",
                };
                let peer = match slot.peer {
                    ANY => "any rank".to_owned(),
                    rank => format!("rank {rank}"),
                };
                Some(format!("{what} with {peer}"))
            }
            None if self.core.matcher.claimed().next().is_some() => {
                Some("a message is claimed and not received".to_owned())
            }
            None if !self.has_all_of_itself() => {
                Some("a message of this rank to itself is not received".to_owned())
            }
            None if self.lending.is_any_out() => Some("a loan is out".to_owned()),
            None => None,
        };
        what.map_or(Ok(()), |what| Err(Error::Pending { what }))
    }

    /// Whether this rank has received all that it has sent to itself.
    fn has_all_of_itself(&self) -> bool {
        let me = self.rank();
        let PeerNumbers { sent, expected } = self.core.numbers.of(me);
        self.core.matcher.unexpected_from(me).next().is_none()
            && sent.all().all(|(context, next)| expected.next(context) == next)
    }

    /// Where this rank is.
    fn position(&mut self) -> Position {
        let log = self.core.log();
        let (clock, posts) = (log.recorder.clock(), log.recorder.posts());
        let serial = self.core.requests.serial();
        let sides = (0..self.size()).map(|rank| self.side(rank)).collect();
        Position { clock, posts, serial, sides }
    }

    fn side(&mut self, rank: Rank) -> PeerPosition {
        let Core { policy, numbers, matcher, .. } = &mut self.core;
        let log = policy.logging();
        let PeerNumbers { sent, expected } = numbers.of(rank);
        let channels: Vec<(u16, u32)> = expected.all().collect();
        let next = sent.all().collect();
        if rank == log.me {
            let received = Received { channels, missing: Vec::new() };
            return PeerPosition { received, next, log: Vec::new() };
        }
        let unreceived = matcher.unexpected_from(rank);
        let unreceived = unreceived.filter(|_| !mutant!(UnreceivedIsCovered));
        let unreceived = unreceived.map(|(_, envelope, _)| (envelope.context, envelope.seq));
        // Some of it may still lie ahead of the checkpoint that this process went on from.
        let absent = log.inbound.missing(rank).map(|name| (name.context, name.seq));
        let missing = BTreeSet::from_iter(unreceived.chain(absent));
        let missing: Vec<(u16, u32)> = missing.into_iter().collect();
        PeerPosition { received: Received { channels, missing }, next, log: log.table(rank) }
    }

    /// Drops what could not be dropped when COMMITTED came.
    fn collect_what_waits(&mut self) {
        for rank in 0..self.size() {
            self.collect_rest(rank);
        }
    }

    /// Drops what could not be dropped yet of what the checkpoint of a peer covers.
    pub(super) fn collect_rest(&mut self, rank: Rank) {
        let exchanged = self.core.log().links[rank as usize].exchanged.as_deref_mut();
        if let Some(committed) = exchanged.and_then(|exchanged| exchanged.committed.take()) {
            self.collect_from(rank, committed);
        }
    }

    /// A peer has a checkpoint, and will not ask again for what that covers.
    pub(super) fn collect(&mut self, rank: Rank, committed: Received) {
        let exchanged = self.core.log().links[rank as usize].exchanged();
        (exchanged.committed, exchanged.seen) = (None, 0);
        self.collect_from(rank, committed);
    }

    /// The same, behind the pages that were looked at.
    fn collect_from(&mut self, rank: Rank, committed: Received) {
        let peer = &self.core.peers[rank as usize];
        let waits = peer.frames().any(|frame| !matches!(frame, Queued::Small { .. }));
        // What is on its way is read from where it is.
        let is_sent = |slot: &Slot| {
            slot.peer == rank && slot.extra.as_ref().is_some_and(|extra| extra.kept.is_some())
        };
        // What a replay sends again is logged again, and then it is covered as well.
        let is_replaying = self.core.log().replaying;
        let mut seen = std::mem::take(&mut self.core.log().links[rank as usize].exchanged().seen);
        if waits || is_replaying || self.core.requests.under_way().any(|(_, slot)| is_sent(slot)) {
            self.core.log().links[rank as usize].exchanged().committed = Some(committed);
            return;
        }
        let Engine { fabric, core, .. } = self;
        let log = core.policy.logging();
        let sent = core.numbers.of(rank).sent.all();
        let committed = match mutant!(CollectsAll) {
            true => Received { channels: sent.collect(), missing: vec![] },
            false => committed,
        };
        log.links[rank as usize].exchanged().dropped = Some(committed.clone());
        match log.drop_covered(fabric, rank, &committed, &mut seen) {
            Ok(()) => {}
            Err(NotNow::Waits) => {
                let exchanged = log.links[rank as usize].exchanged();
                (exchanged.committed, exchanged.seen) = (Some(committed), seen);
                core.deferred.retry(Deferred::Collect { rank });
            }
            Err(NotNow::Failed(error)) => P::Host::warn(&format!(
                "rank {}: what rank {rank} does not need any more stays in the log: {error}",
                log.me
            )),
        }
    }
}

/// What a checkpoint at a position covers of each rank.
fn covered(position: &Position) -> Vec<Received> {
    position.sides.iter().map(|side| side.received.clone()).collect()
}

/// The error of a checkpoint that its file did not take.
#[cold]
fn not_written(error: &CheckpointError) -> Error {
    Error::Memory(MemoryError::Refused {
        what: "the checkpoint",
        why: error.to_string(),
        remedy: "make it smaller, or leave the job more memory: checkpoints are kept in memory",
    })
}

/// The error of a log that the process before has left, and that a checkpoint refers to.
#[cold]
fn not_read(error: PreviousLogError) -> Error {
    Error::Setup(error.to_string())
}
