//! The launcher's end as a state machine: events in, actions out. `docs/spec/agent.md`, section 6.
//!
//! It carries out on nodes what the state machine of ranks' lives decides (`docs/spec/rank-life.md`), and reports what
//! happens there.

mod copies;
mod exchange;
mod finalizing;
mod frames;
mod held;
mod links;
mod moves;
mod networks;
mod nodes;
mod starts;
mod together;

#[cfg(all(test, not(loom)))]
mod tests;

use crate::hosts::Hosts;
use crate::lease::Terms;
use crate::network::Network;
use crate::place::{self, Oversubscribed};
use crate::roster::{Change, RankState, Roster};
use crate::wire::{
    End, Frame, Hello, LeftBehind, Level, Logging, Member, Program, RankCare, Reach, Stream,
    WaveWords,
};
use crate::{Incarnation, NodeId, RankIncarnation, Secret};
use exchange::Exchange;
use networks::Listeners;
use nodes::Node;
use starts::{Phase, Rank};
use std::time::Duration;

/// For how long a report that a link is down counts if it is not repeated. A rank that waits repeats it with every attempt that
/// fails, which takes up to 5.5 s, but not within 2 s: at least twice within this time.
pub const LINK_LAPSE: Duration = Duration::from_secs(15);

/// What a job over nodes is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it may run.
    pub hosts: Hosts,
    /// The last of them, if no rank is to begin on it, and the events of all others are to be copied there.
    pub reliable: Option<NodeId>,
    /// How many ranks it has.
    pub ranks: usize,
    /// More ranks than slots are allowed.
    pub oversubscribe: bool,
    /// The set of every rank, where a set must stay on one node.
    pub sets: Option<Vec<usize>>,
    /// How messages are logged, if they are. The logs of a rank are with the agent of its node, and it is started again there;
    /// elsewhere only where that node is lost, and another one has a copy of its events.
    pub logging: Option<Logging>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// Of each rank, the number of its program.
    pub apps: Vec<u32>,
    /// Its name.
    pub job: String,
    /// Its secret.
    pub secret: Secret,
    /// Interfaces of listeners; if it is empty, a network that all nodes have is chosen.
    pub network: String,
    /// How long leases are.
    pub terms: Terms,
    /// How long a host has to come up.
    pub start_timeout: Duration,
    /// How long ranks of two nodes may not reach each other, where messages are logged, before one of the nodes is ended.
    pub link_timeout: Duration,
    /// For how long a report that a link is down counts: [`LINK_LAPSE`].
    pub link_lapse: Duration,
    /// Bytes of output that each node may have under way.
    pub output_window: u32,
    /// How agents treat their ranks.
    pub care: RankCare,
}

/// Something that has happened, or is wanted.
#[derive(Clone, Debug)]
pub enum Event {
    /// Start the job: incarnation 0 of all ranks.
    Begin,
    /// An agent has sent this.
    Frame {
        /// Its node.
        node: NodeId,
        /// What it has sent.
        frame: Frame,
    },
    /// A channel has ended, or what came on it was malformed.
    Broken {
        /// Its node.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// Find out what ranks that have ended leave for their next incarnations. Answered by [`Report::Recovered`] of each.
    Recover(Vec<u32>),
    /// Start ranks that have ended again, as the next incarnation of each.
    Restart {
        /// Which.
        ranks: Vec<u32>,
        /// How many restarts the job has had.
        generation: u32,
    },
    /// Kill a rank.
    Kill(u32),
    /// Send a signal to all ranks.
    Signal(i32, Reach),
    /// Ask all ranks to end; they are killed after the time that is given.
    End(i32, Duration),
    /// All programs are over: their processes may end.
    Release,
    /// A rank has ended for good: nobody waits for it in the exchange.
    Leave(u32),
    /// Standard input for rank 0; the end of it if there are no bytes.
    Input(Vec<u8>),
    /// Output of this node was written.
    OutputTaken {
        /// The node.
        node: NodeId,
        /// How many bytes.
        bytes: u32,
    },
    /// Words of a rank for waves and schedules.
    Wave(u32, WaveWords),
    /// The job has ended: agents leave.
    Finish,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start the agent of a node.
    StartAgent(NodeId),
    /// Send this to an agent.
    Send(NodeId, Frame),
    /// Close the channel of a node, and end its starter.
    Close(NodeId),
    /// Something to know.
    Report(Report),
}

/// Something that the launcher reports.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of the frames")]
pub enum Report {
    /// Ranks use this network between nodes, which was chosen.
    Network(Network),
    /// A node is up.
    NodeUp { node: NodeId, hello: Hello },
    /// The connection with the agent of a node is lost: these ranks may live until its lease has expired. Then they can be
    /// restarted where a whole copy of their events is.
    NodeCut { node: NodeId, why: String, ranks: Vec<RankIncarnation>, copy: Option<NodeId> },
    /// Another node and this one cannot reach each other: its ranks are ended, and restarted where a whole copy of their events is.
    NodeRevoked { node: NodeId, why: String, ranks: Vec<RankIncarnation>, copy: NodeId },
    /// A node has left in good order, or is given up: then these ranks were lost with it, and can be restarted where a whole
    /// copy of their events is.
    NodeEnded {
        node: NodeId,
        why: String,
        lost: Vec<RankIncarnation>,
        refused: [u64; 5],
        copy: Option<NodeId>,
    },
    /// An event logger of a node is to copy there; nowhere, if no node is left for it. The events are to be on this number of
    /// other nodes, with those that are awaited.
    Copying { node: NodeId, logger: u32, to: Option<NodeId>, nodes: u32 },
    /// The events of a node's ranks cannot be copied to where they were to be.
    Uncopied { node: NodeId, why: String },
    /// The log of a rank of a lost node is brought to the node where it is to be started.
    Moving { life: RankIncarnation, from: NodeId, to: NodeId },
    /// It could not be brought there.
    NotMoved { life: RankIncarnation, to: NodeId, why: String },
    /// A node that was asked for the log of a rank has no copy of it any more. Another one is used, if one counts.
    NoCopy { life: RankIncarnation, node: NodeId, why: String },
    /// A rank was started.
    Started { life: RankIncarnation, node: NodeId, pid: u32 },
    /// A rank has ended.
    Ended { life: RankIncarnation, end: End },
    /// What it leaves for its next incarnation.
    Recovered { life: RankIncarnation, left: LeftBehind },
    /// A rank is done with all others; the incarnations of all, added up, when it was.
    Left { life: RankIncarnation, known: u64 },
    /// A process of a rank reports.
    Member { life: RankIncarnation, member: Member },
    /// A rank has written.
    Output { life: RankIncarnation, node: NodeId, stream: Stream, bytes: Vec<u8> },
    /// Rank 0 has taken this number of bytes of its input.
    InputTaken { life: RankIncarnation, bytes: u32 },
    /// A rank waits in a barrier for one that is gone.
    Stuck { waiting: u32, gone: u32 },
    /// An agent has something to say.
    Note { node: NodeId, level: Level, text: String },
    /// The job cannot go on.
    Failed { status: u32, why: String },
    /// No agent is left.
    Done,
}

/// The launcher of a job over nodes.
#[derive(Debug)]
pub struct Launcher {
    config: Config,
    now: Duration,
    nodes: Vec<Node>,
    ranks: Vec<Rank>,
    roster: Roster,
    /// Changes that are not in the roster yet.
    changes: Vec<Change>,
    exchange: Exchange,
    /// Where ranks listen.
    listeners: Listeners,
    /// Of each rank, how many restarts the job had had when its present incarnation was to be started.
    generations: Vec<u32>,
    /// The number of the last order to copy events.
    copy_epoch: u64,
    /// What survivors of lost nodes are asked for.
    survey: held::Survey,
    /// Links that are down.
    links: links::Links,
    /// Whether ranks were started.
    begun: bool,
    /// Ranks were asked to end, or nothing is to be started for another reason.
    ending: bool,
    /// Agents were asked to leave.
    finishing: bool,
    done: bool,
    actions: Vec<Action>,
}

impl Launcher {
    /// A job that has not begun, with its ranks placed.
    ///
    /// # Errors
    /// There are more ranks than slots.
    pub fn new(config: Config) -> Result<Launcher, Oversubscribed> {
        let of_ranks = config.hosts.of_ranks(config.reliable);
        let placed = place::initial(&of_ranks, config.ranks, config.oversubscribe)?;
        let copies = copies::loggers_that_copy(&config);
        Ok(Launcher {
            now: Duration::ZERO,
            nodes: config.hosts.0.iter().map(|host| Node::new(host, copies)).collect(),
            ranks: placed.into_iter().map(Rank::new).collect(),
            roster: Roster::new(config.ranks),
            changes: Vec::new(),
            exchange: Exchange::new(config.ranks),
            listeners: Listeners::new(&config.network),
            generations: vec![0; config.ranks],
            copy_epoch: 0,
            survey: held::Survey::default(),
            links: links::Links::default(),
            begun: false,
            ending: false,
            finishing: false,
            done: false,
            actions: Vec::new(),
            config,
        })
    }

    /// Takes events that were noticed together, at a time of the launcher's clock, which runs while the machine is suspended.
    pub fn handle(&mut self, now: Duration, batch: Vec<Event>) -> Vec<Action> {
        self.now = now;
        for event in batch {
            self.take(event);
        }
        self.check_nodes();
        self.check_links();
        self.check_network();
        self.check_together();
        self.advance();
        self.check_moves();
        self.check_copies();
        self.publish();
        self.check_survey();
        self.check_done();
        std::mem::take(&mut self.actions)
    }

    /// When it is to be handled next, if nothing happens before.
    pub fn due(&self) -> Option<Duration> {
        self.nodes
            .iter()
            .filter_map(Node::due)
            .chain(self.links_due())
            .chain(self.moves_due())
            .min()
    }

    /// The node of each rank: where it runs, ran last, or will run.
    pub fn map(&self) -> Vec<NodeId> {
        self.ranks.iter().map(Rank::node).collect()
    }

    /// What the roster says.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Begin => self.begin(),
            Event::Frame { node, frame } => self.frame(node, frame),
            Event::Broken { node, why } => self.broken(node, &why),
            Event::Recover(ranks) => self.recover(&ranks),
            Event::Restart { ranks, generation } => self.restart(&ranks, generation),
            Event::Kill(rank) => {
                if let Some((node, life)) = self.placed(rank) {
                    self.send(node, Frame::Kill { life });
                }
            }
            Event::Signal(signal, reach) => self.send_all(&Frame::Signal { signal, reach }),
            Event::End(signal, grace) => {
                self.ending = true;
                let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
                self.send_all(&Frame::End { signal, grace_ms });
            }
            Event::Release => self.send_all(&Frame::Release),
            Event::Leave(rank) => {
                self.exchange.leave(rank);
                self.check_stuck();
            }
            Event::Input(bytes) => {
                if let Some((node, life)) = self.placed(0) {
                    self.send(node, Frame::Input { life, bytes });
                }
            }
            Event::OutputTaken { node, bytes } => self.output_taken(node, bytes),
            Event::Wave(rank, words) => {
                if let Some((node, life)) = self.placed(rank) {
                    self.send(node, Frame::Wave { life, words });
                }
            }
            Event::Finish => self.finish(),
            Event::Tick => {}
        }
    }

    fn report(&mut self, report: Report) {
        self.actions.push(Action::Report(report));
    }

    /// Sends something to a node that can be reached.
    fn send(&mut self, node: NodeId, frame: Frame) {
        if self.nodes[usize::from(node)].is_up() {
            self.actions.push(Action::Send(node, frame));
        }
    }

    fn send_all(&mut self, frame: &Frame) {
        for node in 0..self.nodes.len() {
            self.send(node as NodeId, frame.clone());
        }
    }

    /// The present incarnation of a rank, and where it runs.
    fn placed(&self, rank: u32) -> Option<(NodeId, RankIncarnation)> {
        let known = self.ranks.get(rank as usize)?;
        let Phase::Placed { node } = known.phase else { return None };
        Some((node, RankIncarnation { rank, incarnation: known.incarnation }))
    }

    /// The job cannot go on: nothing is started any more.
    fn fail(&mut self, why: String) {
        if !self.ending {
            self.ending = true;
            self.report(Report::Failed { status: 1, why });
        }
    }

    /// Changes of the roster that were made since the last time, in one update for all.
    fn publish(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let update = self.roster.change(std::mem::take(&mut self.changes));
        self.send_all(&Frame::Roster(update));
    }

    fn change(&mut self, life: RankIncarnation, node: NodeId, state: RankState) {
        self.changes.retain(|change| change.life.rank != life.rank);
        self.changes.push(Change { life, node, state });
    }

    fn next(incarnation: Incarnation) -> Incarnation {
        Incarnation(incarnation.0 + 1)
    }
}
