//! The world: real time, what happens in it, and both ends.

use super::case::{Case, Fault, LEASE};
use super::channel::Arrival;
use super::copies::Copying;
use super::ended::Ended;
use super::finalizing::Completed;
use super::moves::Moves;
use super::node::Host;
use crate::agent::{self, Agent};
use crate::launcher::{self, Launcher};
use crate::wire::{BringOrder, Direction, End, Frame, LeftBehind};
use crate::{NodeId, RankIncarnation};
use fastrand::Rng;
use std::collections::{BTreeMap, VecDeque};

/// A job takes no more steps than this.
const STEPS_MAX: u32 = 20_000;

/// A job takes no longer than this.
const LONGEST: u64 = 60 * LEASE;

/// Who notices something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Launcher,
    Agent,
}

#[derive(Clone, Debug)]
pub enum Happening {
    Fault(Fault),
    /// Time for the launcher, or for an agent, to look at its clock.
    TickLauncher,
    TickAgent(usize),
    WakeLauncher,
    WakeAgent(usize),
    /// The starter has started an agent.
    Begins(usize),
    Arrives(usize, Direction, Vec<u8>),
    NoticesBreak(usize, Side),
    /// The guard's time has come.
    Guard(usize),
    Steps(usize, RankIncarnation),
    /// A process ends, by a signal or with success.
    Dies(usize, RankIncarnation, Option<i32>),
    /// Its agent has reaped it.
    Reaped(usize, RankIncarnation, Option<i32>),
    /// Its agent has found out what it leaves.
    Recovered(usize, RankIncarnation, LeftBehind),
    /// Ranks of a host have a message that depends on the events of a rank up to this one.
    Depends(usize, RankIncarnation, u64),
    /// An agent says what its ranks hold.
    Answers(usize, u64),
    /// What a rank of a lost node leaves arrives at another host, or does not.
    Brings(usize, RankIncarnation, BringOrder),
    /// An event logger copies events to another host, as an order says.
    Copies(usize, u32, u64),
    /// The copy store that a host has now is reported.
    Stores(usize),
    /// A checkpoint of a rank is copied to another host, as the last order says.
    CopiesCheckpoint(usize, u32),
    /// It is started again: its whole set has ended.
    Restarts(u32),
}

pub struct World {
    pub case: Case,
    pub rng: Rng,
    pub now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    number: u64,
    pub launcher: Launcher,
    pub launcher_paused_until: u64,
    pub launcher_was_paused: bool,
    waiting: Vec<launcher::Event>,
    /// When the launcher looks at its clock next.
    tick: u64,
    pub hosts: Vec<Host>,
    /// Ranks were started.
    pub begun: bool,
    pub violated: Option<String>,
    /// Barriers that each rank has ever entered, as far as they count.
    pub entered: Vec<u64>,
    /// Barriers that are complete.
    pub passed: u64,
    pub finished: Vec<bool>,
    pub last_node: Vec<Option<usize>>,
    /// Where all ranks listen.
    network: Option<String>,
    /// Events of each rank that others may depend on.
    pub stable: Vec<u64>,
    /// The last checkpoint of each rank of which others have dropped what it covers.
    pub announced: Vec<u64>,
    pub copying: Copying,
    pub moves: Moves,
    /// Ranks whose programs have completed.
    pub completed: BTreeMap<RankIncarnation, Completed>,
    pub done: bool,
    pub ended: Ended,
    pub trace: Vec<String>,
}

impl World {
    pub fn new(case: &Case) -> World {
        let config = case.config();
        let ranks = config.ranks;
        World {
            rng: Rng::with_seed(case.seed ^ 0x5eed),
            now: 0,
            queue: BTreeMap::new(),
            number: 0,
            network: None,
            moves: Moves::new(&config),
            launcher: Launcher::new(config).expect("enough slots"),
            launcher_paused_until: 0,
            launcher_was_paused: false,
            waiting: Vec::new(),
            tick: 0,
            begun: false,
            violated: None,
            hosts: case.clocks.iter().map(|clock| Host::new(*clock, case.ranks)).collect(),
            entered: vec![0; ranks],
            passed: 0,
            finished: vec![false; ranks],
            last_node: vec![None; ranks],
            stable: vec![0; ranks],
            announced: vec![0; ranks],
            copying: Copying::default(),
            completed: BTreeMap::new(),
            done: false,
            ended: Ended::default(),
            trace: Vec::new(),
            case: case.clone(),
        }
    }

    pub fn note(&mut self, line: String) {
        self.trace.push(format!("{:>9} {line}", self.now));
    }

    pub fn at(&mut self, time: u64, happening: Happening) {
        self.number += 1;
        self.queue.insert((time.max(self.now), self.number), happening);
    }

    /// Runs the job to its end.
    pub fn run(&mut self) -> Result<Ended, String> {
        for fault in self.case.faults.clone() {
            self.at(fault.at, Happening::Fault(fault));
        }
        self.launcher_events(vec![launcher::Event::Begin])?;
        while !self.done {
            let Some(((time, _), happening)) = self.queue.pop_first() else {
                return Err("ends: nothing happens any more".into());
            };
            if time > LONGEST || self.ended.steps > STEPS_MAX {
                return Err("ends: the job does not end".into());
            }
            self.now = time;
            self.ended.steps += 1;
            self.happens(happening)?;
            self.check()?;
        }
        self.check_survived()?;
        Ok(self.ended)
    }

    fn happens(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Fault(fault) => self.fault(fault)?,
            Happening::TickLauncher | Happening::WakeLauncher => {
                self.launcher_events(vec![launcher::Event::Tick])?;
            }
            Happening::TickAgent(node) => self.agent_event(node, agent::Event::Tick),
            Happening::WakeAgent(node) => self.wake_agent(node),
            Happening::Begins(node) => self.begins(node),
            Happening::Arrives(node, from, bytes) => self.arrives(node, from, bytes)?,
            Happening::NoticesBreak(node, Side::Launcher) => {
                let why = "end of the stream".to_owned();
                let broken = launcher::Event::Broken { node: node as NodeId, why };
                self.launcher_events(vec![broken])?;
            }
            Happening::NoticesBreak(node, Side::Agent) => {
                let why = "end of the stream".to_owned();
                self.agent_event(node, agent::Event::ChannelLost { why });
            }
            Happening::Guard(node) => {
                if self.hosts[node].guard.is_some_and(|at| at <= self.now) {
                    self.hosts[node].guard = None;
                    self.note(format!("the guard of node {node} kills"));
                    self.kill_all(node);
                    self.agent_event(node, agent::Event::GuardFired);
                }
            }
            Happening::Steps(node, life) => self.step(node, life)?,
            Happening::Dies(node, life, signal) => self.dies(node, life, signal),
            Happening::Reaped(node, life, signal) => {
                let end = signal.map_or(End::Exited(0), End::Signal);
                self.agent_event(node, agent::Event::Ended { life, end });
            }
            Happening::Restarts(rank) => {
                let events = self.restart(vec![rank]);
                self.launcher_events(events)?;
            }
            Happening::Brings(node, life, order) => self.brings(node, life, &order),
            Happening::Copies(node, logger, epoch) => self.copies(node, logger, epoch),
            Happening::Stores(node) => self.stores(node),
            Happening::Depends(node, life, event) => self.depends(node, life, event),
            Happening::Answers(node, number) => self.answers(node, number),
            Happening::CopiesCheckpoint(node, rank) => self.copy_checkpoint(node, rank),
            Happening::Recovered(node, life, left) => {
                self.agent_event(node, agent::Event::Recovered { life, left });
            }
        }
        Ok(())
    }

    fn begins(&mut self, node: usize) {
        if self.hosts[node].crashed {
            return;
        }
        let time = self.hosts[node].clock.at(self.now);
        let (agent, actions) = Agent::new(time, super::node::hello(node));
        self.hosts[node].agent = Some(agent);
        self.agent_acts(node, actions);
    }

    fn arrives(&mut self, node: usize, from: Direction, bytes: Vec<u8>) -> Result<(), String> {
        let host = &mut self.hosts[node];
        let channel = if from == Direction::Up { &mut host.up } else { &mut host.down };
        let frame = match channel.arrives(self.now, &bytes) {
            Arrival::Lost => return Ok(()),
            Arrival::Later(time) => {
                self.at(time, Happening::Arrives(node, from, bytes));
                return Ok(());
            }
            Arrival::Now(frame) => *frame,
        };
        if !matches!(frame, Frame::Renew { .. } | Frame::Grant { .. }) {
            self.note(format!("node {node}, {from:?}: {frame:?}"));
        }
        match from {
            Direction::Up => {
                let event = launcher::Event::Frame { node: node as NodeId, frame };
                self.launcher_events(vec![event])
            }
            Direction::Down => {
                self.agent_event(node, agent::Event::Frame(frame));
                Ok(())
            }
        }
    }

    fn send(&mut self, node: usize, from: Direction, frame: &Frame) {
        let delay = self.rng.u64(0..=self.case.delay);
        let host = &mut self.hosts[node];
        let channel = if from == Direction::Up { &mut host.up } else { &mut host.down };
        if let Some((time, bytes)) = channel.send(self.now, delay, frame) {
            self.at(time, Happening::Arrives(node, from, bytes));
        }
    }

    /// The launcher handles events, or they wait until it runs again.
    pub fn launcher_events(&mut self, events: Vec<launcher::Event>) -> Result<(), String> {
        self.waiting.extend(events);
        if self.now < self.launcher_paused_until {
            return Ok(());
        }
        let mut events = std::mem::take(&mut self.waiting);
        while !events.is_empty() {
            let time = self.case.launcher.at(self.now);
            let mut actions =
                VecDeque::from(self.launcher.handle(time, std::mem::take(&mut events)));
            while let Some(action) = actions.pop_front() {
                match action {
                    launcher::Action::StartAgent(node) => {
                        let soon = self.now + self.rng.u64(0..LEASE / 4);
                        self.at(soon, Happening::Begins(usize::from(node)));
                    }
                    launcher::Action::Send(node, frame) => {
                        match &frame {
                            Frame::Complete { barriers } => {
                                self.passed = self.passed.max(*barriers);
                            }
                            Frame::Start { .. } => self.check_beginning(),
                            Frame::Recover { copy: copy @ 1.., .. }
                            | Frame::Bring { order: BringOrder { copy, .. }, .. } => {
                                self.asks_store(usize::from(node), *copy);
                            }
                            _ => {}
                        }
                        self.send(usize::from(node), Direction::Down, &frame);
                    }
                    launcher::Action::Close(node) => self.close(usize::from(node)),
                    launcher::Action::Report(report) => events.extend(self.reported(report)?),
                }
            }
        }
        if let Some(due) = self.launcher.due() {
            let due = self.case.launcher.real(due);
            if self.tick <= self.now || due < self.tick {
                self.tick = due;
                self.at(due, Happening::TickLauncher);
            }
        }
        Ok(())
    }

    /// An agent handles an event, or it waits until that runs again.
    pub fn agent_event(&mut self, node: usize, event: agent::Event) {
        let host = &mut self.hosts[node];
        if self.now < host.paused_until {
            host.waiting.push_back(event);
            return;
        }
        let time = host.clock.at(self.now);
        let Some(agent) = &mut host.agent else { return };
        let before = agent.state();
        let actions = agent.handle(time, event);
        let exits = actions.contains(&agent::Action::Exit(1));
        let fenced = agent.state() == agent::State::Fenced || exits;
        self.ended.fenced += u32::from(fenced && before < agent::State::Fenced);
        self.agent_acts(node, actions);
    }

    fn wake_agent(&mut self, node: usize) {
        // It may have been stopped again.
        if self.now < self.hosts[node].paused_until {
            return;
        }
        while let Some(event) = self.hosts[node].waiting.pop_front() {
            self.agent_event(node, event);
        }
        self.agent_event(node, agent::Event::Tick);
    }

    fn agent_acts(&mut self, node: usize, actions: Vec<agent::Action>) {
        for action in actions {
            match action {
                agent::Action::Send(frame) => self.send(node, Direction::Up, &frame),
                agent::Action::Arm(deadline) => {
                    let real = self.hosts[node].clock.real(deadline);
                    self.hosts[node].guard = Some(real);
                    self.at(real, Happening::Guard(node));
                }
                agent::Action::Network(network) => {
                    let of_job = self.network.get_or_insert_with(|| network.clone());
                    assert_eq!(*of_job, network, "all listen in one network: node {node}");
                }
                agent::Action::Set(_) => self.hosts[node].was_up = true,
                agent::Action::Publish(update) => {
                    let applied = self.hosts[node].published.apply(&update);
                    applied.unwrap_or_else(|e| panic!("node {node}: {e}"));
                }
                agent::Action::Value(_, key, value) => {
                    self.hosts[node].values.insert(key, value);
                }
                agent::Action::Complete(barriers) => self.hosts[node].barriers = barriers,
                agent::Action::Spawn { life, .. } => {
                    self.note(format!("node {node} starts {life}"));
                    self.spawn(node, life);
                }
                agent::Action::Recover { life, copy } => self.recover(node, life, copy),
                agent::Action::Bring(life, order) => self.bring_log(node, life, order),
                agent::Action::CopyTo(order) => self.copy_to(node, &order),
                agent::Action::AskHeld(number) => {
                    let soon = self.now + self.rng.u64(0..LEASE / 4);
                    self.at(soon, Happening::Answers(node, number));
                }
                agent::Action::Held(determinants) => self.others_hold(node, &determinants),
                agent::Action::Log(_) if self.case.copies > 0 => self.stores(node),
                agent::Action::Kill(life) => self.kill(node, life.rank, false),
                agent::Action::KillAll => self.kill_all(node),
                agent::Action::Report(line) => self.note(format!("node {node} says: {line}")),
                agent::Action::Exit(_) => {
                    self.hosts[node].agent = None;
                    self.hosts[node].guard = None;
                    let soon = self.now + self.case.delay + 1;
                    self.at(soon, Happening::NoticesBreak(node, Side::Launcher));
                }
                _ => {}
            }
        }
        let host = &mut self.hosts[node];
        if let Some(due) = host.agent.as_ref().and_then(Agent::due) {
            let due = host.clock.real(due);
            if host.tick <= self.now || due < host.tick {
                host.tick = due;
                self.at(due, Happening::TickAgent(node));
            }
        }
    }
}
