//! The job of an agent: its ranks, its guard, the roster that they see, and the exchange between them.

use super::bound::Bound;
use super::interfaces;
use super::program::Defined;
use super::rank::NodeRank;
use super::recovery::NodeLogs;
use super::waiting::Waiting;
use super::{Source, Watched};
use crate::run::addresses;
use crate::run::event_loop::DELIVERY;
use crate::run::guard::{Guard, boot_time};
use crate::run::heartbeat::Heartbeats;
use crate::run::left_behind;
use crate::run::life;
use crate::run::members::Members;
use crate::run::nodes::{index, relay};
use crate::run::outlets::To;
use crate::run::output::TURN;
use crate::run::rank_messages::{self, Said};
use crate::run::ranks::Rank;
use crate::run::server::{Server, ServerAction};
use crate::run::{Failure, say};
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use taffrail_agent::agent::{self, Action, Event};
use taffrail_agent::client::memory::{MemoryError, RefusedMemory, RosterMemory, create_secret};
use taffrail_agent::roster::{JobState, RankState, Writer, job_digest};
use taffrail_agent::wire::{Frame, Level, Reach, Stream};
use taffrail_agent::{Agent, NodeId, RankIncarnation};

/// What WELCOME has said, and what was made of it.
pub struct Job {
    pub about: agent::Job,
    /// Interfaces of listeners; empty for any.
    pub network: String,
    pub roster: OwnedFd,
    pub secret: OwnedFd,
    /// What the listeners of this node have refused, and what they count it by.
    pub refused: (RefusedMemory, OwnedFd),
    writer: Writer<'static>,
    /// The node of each rank, as the roster has it.
    pub nodes: Vec<NodeId>,
    pub programs: BTreeMap<u32, Defined>,
    /// Of a job whose messages are logged.
    pub logs: NodeLogs,
    /// Orders that wait for its loggers or its copy store.
    pub(super) waiting: Waiting,
    pub(super) server: Server,
    pub members: Members,
    /// If ranks that hang are to be reported.
    pub heartbeats: Option<Heartbeats>,
    pub bound: Bound,
    pub guard: Guard,
    /// The deadline that the guard has.
    deadline: Duration,
    pub(super) ranks: BTreeMap<usize, NodeRank>,
    /// All that were started here.
    pub(super) started: BTreeSet<usize>,
    /// Those that are over. What they have left behind is known by the outputs that it holds.
    pub(super) over: Vec<Rank>,
    /// Bytes of output that may be read in this turn.
    pub(super) room: usize,
    /// Output that the launcher has not taken by then is lost.
    pub(super) delivery: Option<Instant>,
}

impl Job {
    /// Makes what the job needs.
    pub fn new(about: agent::Job) -> Result<Job, Failure> {
        let failed = |e: MemoryError| Failure::new(format!("no memory for the job: {e}"));
        let ranks = about.ranks as usize;
        let (memory, roster) = RosterMemory::create(ranks).map_err(failed)?;
        // For as long as the process lives: ranks have it, too.
        let memory: &'static RosterMemory = Box::leak(Box::new(memory));
        let digest = job_digest(&about.name);
        let writer = Writer::create(memory.words(), ranks, digest, (about.node, about.nodes));
        Ok(Job {
            roster,
            network: String::new(),
            secret: create_secret(&about.secret).map_err(failed)?,
            refused: RefusedMemory::create().map_err(failed)?,
            writer: writer.map_err(|e| Failure::new(e.to_string()))?,
            nodes: vec![0; ranks],
            programs: BTreeMap::new(),
            logs: NodeLogs::default(),
            waiting: Waiting::default(),
            server: Server::of_node(ranks, about.name.clone()),
            members: Members::new(about.ranks),
            heartbeats: (about.care.heartbeat_ms > 0).then(|| {
                let limit = Duration::from_millis(about.care.heartbeat_ms.into());
                Heartbeats::new(limit, about.ranks)
            }),
            bound: Bound::new(about.care.binding),
            guard: Guard::start(&about.name, about.ranks, Some(about.node))?,
            deadline: Duration::MAX,
            ranks: BTreeMap::new(),
            started: BTreeSet::new(),
            over: Vec::new(),
            room: 0,
            delivery: None,
            about,
        })
    }

    /// Ranks listen in this network from now on. What is wrong with this node, if it has no address there.
    fn listen_in(&mut self, network: String) -> Vec<Event> {
        self.network = network;
        let fault = interfaces::fault(&self.network).map(|why| Frame::Failed { status: 1, why });
        fault.map(Event::Say).into_iter().collect()
    }

    /// Does what the state machine says. What comes of it.
    pub fn carry_out(&mut self, action: Action) -> Vec<Event> {
        match action {
            Action::Arm(deadline) => {
                self.deadline = deadline;
                self.guard.arm(deadline);
            }
            Action::Publish(update) => {
                for change in &update.changes {
                    self.place(change.life, change.node);
                    if change.state == RankState::Live {
                        self.server.announced(index(change.life), change.life.incarnation.0);
                    }
                }
                self.writer.publish(update.epoch, &update.changes);
            }
            Action::PublishAddress(life, address) => self.writer.publish_address(life, &address),
            Action::PublishWave(rank, words) => self.writer.publish_wave(rank, &words),
            Action::Value(life, key, value) => {
                let answers = self.server.put_elsewhere(index(life), key, value);
                return self.answer(answers);
            }
            Action::Complete(barriers) => {
                let answers = self.server.complete(barriers);
                return self.answer(answers);
            }
            Action::Define(program) => {
                self.programs.insert(program.app, Defined::new(program));
            }
            Action::Network(network) => return self.listen_in(network),
            Action::Log(logging) => {
                addresses::settle();
                self.logs.log(logging);
                return self.keep_copies().into_iter().collect();
            }
            Action::Recover { life, copy } => return self.recover(life, copy),
            Action::Bring(life, order) => return self.bring(life, order),
            Action::CopyTo(order) => return self.copy_to(order),
            Action::AskHeld(number) => return self.ask_held(number),
            Action::Held(determinants) => self.logs.held.take_in(&determinants),
            Action::Spawn { life, app, generations } => {
                return self.spawn(life, app, generations).into_iter().collect();
            }
            Action::Kill(life) => {
                self.ranks.get(&index(life)).iter().for_each(|rank| rank.kill());
            }
            Action::KillAll => {
                self.delivery.get_or_insert(Instant::now() + DELIVERY);
                self.ranks.values().for_each(NodeRank::kill);
                return self.cancel_start().into_iter().collect();
            }
            Action::Signal(signal, reach) => self.signal(signal, reach),
            Action::Input(life, bytes) => {
                let rank = self.ranks.get_mut(&index(life));
                return rank.and_then(|rank| rank.push_input(bytes)).into_iter().collect();
            }
            Action::Release => {
                self.writer.publish_job(JobState::Released);
                self.members.release();
            }
            // They are of the process.
            Action::Send(_) | Action::Set(_) | Action::Report(_) | Action::Exit(_) => {}
        }
        Vec::new()
    }

    fn signal(&mut self, number: i32, reach: Reach) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        if let Some(heartbeats) = &mut self.heartbeats
            && [Signal::STOP, Signal::CONT].contains(&signal)
        {
            heartbeats.suspend(signal == Signal::STOP);
        }
        if reach == Reach::Groups && signal != Signal::CONT {
            self.writer.publish_job(JobState::Ending);
        }
        for rank in self.ranks.values() {
            match reach {
                Reach::Groups => rank.process.signal(signal),
                Reach::Everything => rank.process.signal_all(signal),
            }
        }
    }

    pub fn watch<'a>(&'a self, state: &Agent, watched: &mut Watched<'a>) {
        watched.push((Source::Guard, self.guard.connection(), PollFlags::IN));
        self.logs.watch(watched);
        let has_room = state.output_room() as usize >= TURN;
        self.ranks.iter().for_each(|(number, rank)| rank.watch(*number, has_room, watched));
        let members = self.members.connections();
        watched.extend(members.map(|(rank, fd)| (Source::Members(rank), fd, PollFlags::IN)));
        let gone = self.members.watched();
        watched.extend(gone.map(|(rank, pid, fd)| (Source::Member(rank, pid), fd, PollFlags::IN)));
    }

    /// When something is to be done if nothing happens before.
    pub fn due(&self) -> Option<Instant> {
        let of_delivery = self.delivery.filter(|_| self.ranks.values().any(NodeRank::has_ended));
        let of_heartbeats = self.heartbeats.as_ref().map(Heartbeats::due);
        let of_logs = self.logs.due().into_iter().chain(self.look_due());
        of_delivery.into_iter().chain(of_logs).chain(of_heartbeats).min()
    }

    /// A turn begins.
    pub fn begin(&mut self, state: &Agent) {
        self.room = state.output_room() as usize;
    }

    /// What a rank has written, if the launcher takes it.
    pub(super) fn read(&mut self, number: usize, to: To) -> Option<Event> {
        let rank = self.ranks.get_mut(&number).filter(|_| self.room >= TURN)?;
        let (life, bytes) = (rank.life, rank.read(to));
        rank.was_read(to, bytes.len());
        self.room -= bytes.len();
        let stream = if to == To::Out { Stream::Output } else { Stream::Error };
        (!bytes.is_empty()).then_some(Event::Say(Frame::Output { life, stream, bytes }))
    }

    /// Something has become ready.
    pub fn handle(&mut self, source: Source, events: &mut Vec<Event>) {
        match source {
            Source::Guard => events.extend(self.check_guard()),
            Source::Logger => events.extend(self.check_logger()),
            Source::CopyStore => events.extend(self.check_store()),
            Source::Line(number) => events.extend(self.listen(number)),
            Source::Output(number, to) => events.extend(self.read(number, to)),
            Source::Input(number) => {
                let rank = self.ranks.get_mut(&number);
                events.extend(rank.and_then(NodeRank::write_input));
            }
            Source::Members(number) => {
                let child = self.ranks.get(&number).map_or(0, |rank| rank.pid().as_raw_pid());
                let said = self.members.hear(number, child);
                events.extend(said.into_iter().filter_map(|said| self.member(number, said)));
                events.extend(self.reports());
            }
            Source::Member(number, pid) => {
                let gone = self.members.gone(number, pid);
                events.extend(self.member(number, gone));
            }
            Source::Signals | Source::Channel => {}
        }
    }

    /// What a process of a rank reports, for the launcher.
    pub(super) fn member(&self, number: usize, event: life::Event) -> Option<Event> {
        let life = self.ranks.get(&number)?.life;
        relay::to_frame(life, event).map(Event::Say)
    }

    pub(super) fn listen(&mut self, number: usize) -> Vec<Event> {
        let Some(rank) = self.ranks.get_mut(&number) else { return Vec::new() };
        let (life, pid) = (rank.life, rank.pid().as_raw_pid());
        let (who, pmix) = (rank.process.name(number), rank.pmix);
        let said = rank_messages::hear(&mut rank.process.line, &mut self.server, number, &who);
        let mut events = Vec::new();
        for said in said {
            match said {
                Said::Action(action) => events.extend(self.act(life, &who, action)),
                // Of its PMIx server, which speaks for it elsewhere.
                Said::Membership(..) if pmix => {}
                Said::Membership(membership, of) => {
                    let event = membership.event(number, of);
                    events.extend(self.member(number, event));
                    let gone = (of != pid).then(|| self.members.watch(number, of)).flatten();
                    events.extend(gone.and_then(|gone| self.member(number, gone)));
                }
                Said::Refused(text) => {
                    events.push(Event::Say(Frame::Note { level: Level::Note, text }));
                }
                Said::Broken(why) => events.push(Event::Say(Frame::Failed { status: 1, why })),
            }
        }
        events
    }

    /// Does what the PMI server says. What the launcher is to know of it.
    fn act(&mut self, life: RankIncarnation, who: &str, action: ServerAction) -> Option<Event> {
        let frame = match action {
            ServerAction::Say { to, message } => {
                let line = self.ranks.get_mut(&to)?.process.line.as_mut()?;
                let why = line.say(&message).err()?;
                let why = format!("cannot answer rank {to}: {why}");
                Frame::Failed { status: 1, why }
            }
            ServerAction::Put { key, value } => Frame::Put { life, key, value },
            ServerAction::Enter(barrier) => Frame::Enter { life, barrier },
            ServerAction::SpawnRefused => {
                Frame::Note { level: Level::Note, text: rank_messages::spawn_refused(who) }
            }
            ServerAction::Abort { code, message } => {
                let aborted = life::Event::Aborted { rank: index(life), code, text: message };
                return self.member(index(life), aborted);
            }
            // Of a server of one node there is none.
            ServerAction::Stuck { .. } => return None,
        };
        Some(Event::Say(frame))
    }

    pub(super) fn answer(&mut self, answers: Vec<ServerAction>) -> Vec<Event> {
        let nobody = RankIncarnation::default();
        answers.into_iter().filter_map(|action| self.act(nobody, "", action)).collect()
    }

    /// The guard has ended: at the deadline by itself, else somebody has killed it, and there is another one.
    fn check_guard(&mut self) -> Option<Event> {
        let is_late = boot_time() >= self.deadline;
        let groups: Vec<Pid> =
            self.ranks.values().map(NodeRank::pid).chain(self.logs.pids()).collect();
        match !is_late && self.guard.replace_if_dead(groups.into_iter()).is_ok() {
            true => {
                self.guard.arm(self.deadline);
                None
            }
            false => Some(Event::GuardFired),
        }
    }

    /// No process of the job is left on this node after this.
    pub fn end_left_behind(&self) {
        let mark = left_behind::mark(&self.about.name, Some(self.about.node));
        left_behind::end(&mark, &[self.guard.pid()]);
        crate::mpi::remove_left_behind(&self.about.name, self.started.iter().copied());
    }
}

impl Drop for Job {
    /// However the agent ends, nobody of the job is left on its node.
    fn drop(&mut self) {
        for rank in self.ranks.values_mut() {
            rank.kill();
            rank.reap(&self.guard);
        }
        if !self.ranks.is_empty() {
            say("ranks of this node were killed, since their agent has ended");
        }
        self.forget_loggers();
        self.end_left_behind();
    }
}
