//! An agent as a state machine: events in, actions out. `docs/spec/agent.md`, section 4.

mod frames;

#[cfg(all(test, not(loom)))]
mod tests;

use crate::lease::Held;
use crate::roster::Roster;
use crate::wire::{
    BringOrder, CopyOrder, End, Frame, Hello, LeftBehind, Logging, Malformed, Program, RankCare,
    Reach, RosterUpdate, WaveWords,
};
use crate::{Incarnation, NodeId, RankIncarnation, Secret};
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that has happened on the node.
#[derive(Clone, Debug)]
pub enum Event {
    /// The launcher has sent this.
    Frame(Frame),
    /// The channel has ended, or what came on it was malformed.
    ChannelLost {
        /// Why.
        why: String,
    },
    /// A rank was started.
    Started {
        /// Which.
        life: RankIncarnation,
        /// Its direct child.
        pid: u32,
    },
    /// The direct child of a rank was reaped and its process group is empty, or it could not be started.
    Ended {
        /// Which.
        life: RankIncarnation,
        /// How.
        end: End,
    },
    /// What a rank leaves for its next incarnation is known.
    Recovered {
        /// The incarnation that has ended.
        life: RankIncarnation,
        /// What it leaves.
        left: LeftBehind,
    },
    /// The log of a rank is where an order has asked for, or is not. Or this node does not have what it was to recover.
    Brought {
        /// The incarnation that has ended.
        life: RankIncarnation,
        /// The number of the order.
        epoch: u64,
        /// Why it is not there; empty if it is.
        why: String,
    },
    /// An event logger's events of all ranks of the node are where this order has asked for.
    Copied {
        /// The number of the order.
        epoch: u64,
    },
    /// Something of a rank or of the agent for the launcher: LEFT, MEMBER, OUTPUT, INPUT_TAKEN, PUT, ENTER, ADDRESS, LINK,
    /// FAILED, NOTE, STORE, UNCOPIED, HELD.
    Say(Frame),
    /// What the listeners of the node have refused up to now, in the order of GOODBYE.
    Refused([u64; 5]),
    /// The guard has killed the ranks: it was faster.
    GuardFired,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to the launcher.
    Send(Frame),
    /// Let the guard kill everything at this time of the agent's clock, and not before.
    Arm(Duration),
    /// Make the roster, the guard and what else depends on the job.
    Set(Job),
    /// Publish changes to the ranks of the node.
    Publish(RosterUpdate),
    /// Publish the address of an incarnation.
    PublishAddress(RankIncarnation, Vec<u8>),
    /// Publish the words of a rank for waves.
    PublishWave(u32, WaveWords),
    /// Ranks may `get` this value.
    Value(RankIncarnation, String, String),
    /// The number of barriers that are complete.
    Complete(u64),
    /// This is one of the programs of the job.
    Define(Program),
    /// Start a rank. Answered by [`Event::Started`], or by [`Event::Ended`].
    Spawn {
        /// Which.
        life: RankIncarnation,
        /// The number of its program.
        app: u32,
        /// Of each rank, how many restarts the job had had when its present incarnation was started.
        generations: Vec<u32>,
    },
    /// Listen at interfaces of this network; at any if it is empty.
    Network(String),
    /// Messages are logged: make what outlives the processes of ranks.
    Log(Logging),
    /// Find out what a rank that has ended leaves for its next incarnation. Answered by [`Event::Recovered`].
    Recover {
        /// The incarnation that has ended.
        life: RankIncarnation,
        /// The order by which this node has a copy of its events; 0: it has run here.
        copy: u64,
    },
    /// Bring what a rank of a lost node leaves, of which this node has a copy, to another node. Answered by [`Event::Brought`].
    Bring(RankIncarnation, BringOrder),
    /// Say what the ranks that have run on this node hold of others. Answered by [`Frame::Held`] of this number.
    AskHeld(u64),
    /// Determinants that survivors hold, for ranks that are about to be recovered here.
    Held(Vec<u8>),
    /// Let an event logger copy the events of all ranks of this node there. Answered by [`Event::Copied`], if ranks were started.
    CopyTo(CopyOrder),
    /// Kill the process group of a rank. Answered by [`Event::Ended`].
    Kill(RankIncarnation),
    /// Kill all that belongs to the job on this node. Answered by [`Event::Ended`] of each rank.
    KillAll,
    /// Send a signal to all ranks.
    Signal(i32, Reach),
    /// Standard input of a rank; the end of it if there are no bytes.
    Input(RankIncarnation, Vec<u8>),
    /// All programs are over: their processes may end.
    Release,
    /// Say a line on standard error.
    Report(String),
    /// End with this status.
    Exit(u8),
}

/// What WELCOME says of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The number of this node.
    pub node: NodeId,
    /// Hosts of the job.
    pub nodes: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// How those of this node are treated.
    pub care: RankCare,
    /// Its secret.
    pub secret: Secret,
    /// How long a lease is: an agent that waits for as long loses its node.
    pub lease: Duration,
}

/// How far an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It waits for WELCOME.
    Greeting,
    /// It starts and watches ranks.
    Serving,
    /// The ranks were asked to end.
    Ending,
    /// The job has ended; the agent waits for the last process.
    Leaving,
    /// It has lost its lease or the launcher; it waits for the last process.
    Fenced,
    /// No process of the job is left on the node.
    Gone,
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    now: Duration,
    state: State,
    held: Held,
    node: NodeId,
    renew: Duration,
    renew_at: Duration,
    /// Once the ranks were asked to end.
    kill_at: Option<Duration>,
    roster: Roster,
    /// Ranks whose processes may live.
    lives: BTreeMap<u32, Incarnation>,
    /// The last incarnation of each rank that was started here.
    started: BTreeMap<u32, Incarnation>,
    /// The launcher has said which network listeners use.
    has_network: bool,
    /// The launcher has said that messages are logged.
    logs: bool,
    /// The event loggers of the node that copy to others.
    copies: u32,
    /// The last order to copy events of each of them.
    orders: BTreeMap<u32, u64>,
    output_window: u32,
    /// Of it, bytes under way.
    output_used: u32,
    refused: [u64; 5],
    actions: Vec<Action>,
}

impl Agent {
    /// An agent that has just been started, and the frame that it begins with.
    pub fn new(now: Duration, hello: Hello) -> (Agent, Vec<Action>) {
        let agent = Agent {
            now,
            state: State::Greeting,
            held: Held::ask_first(now),
            node: 0,
            renew: Duration::ZERO,
            renew_at: Duration::ZERO,
            kill_at: None,
            roster: Roster::new(0),
            lives: BTreeMap::new(),
            started: BTreeMap::new(),
            has_network: false,
            logs: false,
            copies: 0,
            orders: BTreeMap::new(),
            output_window: 0,
            output_used: 0,
            refused: [0; 5],
            actions: Vec::new(),
        };
        (agent, vec![Action::Send(Frame::Hello(Hello { renewal: 0, ..hello }))])
    }

    /// Takes an event at a time of the agent's clock, which counts while the machine is suspended.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = now;
        // check-before-act
        if !mutant!(CheckAfterAct) {
            self.check_deadline();
        }
        if let Err(e) = self.take(event) {
            self.fence(&format!("the launcher broke the protocol: {e}"));
        }
        self.check_deadline();
        self.check_due();
        std::mem::take(&mut self.actions)
    }

    /// How far it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// When it is to be handled next, if nothing happens before.
    pub fn due(&self) -> Option<Duration> {
        let renews = matches!(self.state, State::Serving | State::Ending);
        let obeys = self.state < State::Fenced && !mutant!(DeadlineIgnored);
        let deadline = self.held.deadline().filter(|_| obeys);
        let renewal = renews.then_some(self.renew_at);
        deadline.into_iter().chain(renewal).chain(self.kill_at).min()
    }

    /// Bytes of output that may be read from ranks now.
    pub fn output_room(&self) -> u32 {
        match self.state {
            State::Serving | State::Ending => self.output_window - self.output_used,
            _ => 0,
        }
    }

    fn take(&mut self, event: Event) -> Result<(), Malformed> {
        match event {
            Event::Frame(frame) => return self.frame(frame),
            Event::ChannelLost { why } => self.fence(&format!("the launcher is gone: {why}")),
            Event::GuardFired => self.fence("the guard has ended the ranks of this node"),
            Event::Started { life, pid } => self.say(Frame::Started { life, pid }),
            Event::Ended { life, end } => self.ended(life, end),
            Event::Recovered { life, left } if self.serves() => {
                self.send(Frame::Recovered { life, left });
            }
            Event::Recovered { .. } => {}
            Event::Brought { life, epoch, why } if self.serves() => {
                self.send(Frame::Brought { life, epoch, why });
            }
            Event::Brought { .. } => {}
            // Of an order before the last one: it counts no more.
            Event::Copied { epoch } if self.serves() && self.is_in_force(epoch) => {
                self.send(Frame::Copied { epoch });
            }
            Event::Copied { .. } => {}
            Event::Say(frame) => self.say(frame),
            Event::Refused(refused) => self.refused = refused,
            Event::Tick => {}
        }
        Ok(())
    }

    fn serves(&self) -> bool {
        matches!(self.state, State::Serving | State::Ending)
    }

    fn is_in_force(&self, order: u64) -> bool {
        self.orders.values().any(|last| *last == order)
    }

    fn lives(&self, life: RankIncarnation) -> bool {
        self.lives.get(&life.rank) == Some(&life.incarnation)
    }

    /// Passes something on, unless its rank has ended: ENDED is the last frame of an incarnation.
    fn say(&mut self, frame: Frame) {
        if !self.serves() || frame.life().is_some_and(|life| !self.lives(life)) {
            return;
        }
        if let Frame::Output { bytes, .. } = &frame {
            self.output_used = self.output_used.saturating_add(bytes.len() as u32);
        }
        self.send(frame);
    }

    fn ended(&mut self, life: RankIncarnation, end: End) {
        if !self.lives(life) {
            return;
        }
        if self.serves() {
            self.send(Frame::Ended { life, end });
        }
        self.lives.remove(&life.rank);
        self.check_gone();
    }

    fn send(&mut self, frame: Frame) {
        self.actions.push(Action::Send(frame));
    }

    fn check_deadline(&mut self) {
        if self.state < State::Fenced
            && self.held.deadline().is_some()
            && !self.held.holds(self.now)
        {
            self.fence("no word from the launcher in time: the lease of this node has ended");
        }
    }

    /// Ends all ranks, for good.
    fn fence(&mut self, why: &str) {
        if self.state >= State::Fenced {
            return;
        }
        self.state = State::Fenced;
        self.kill_at = None;
        self.actions.push(Action::Report(why.to_owned()));
        self.actions.push(Action::KillAll);
        if mutant!(GoodbyeAtKill) {
            self.send(Frame::Goodbye { refused: self.refused });
        }
        self.check_gone();
    }

    fn check_gone(&mut self) {
        let status = match self.state {
            State::Leaving => 0,
            State::Fenced => 1,
            _ => return,
        };
        if self.lives.is_empty() {
            self.state = State::Gone;
            self.send(Frame::Goodbye { refused: self.refused });
            self.actions.push(Action::Exit(status));
        }
    }

    fn check_due(&mut self) {
        if !self.serves() {
            return;
        }
        if self.now >= self.renew_at {
            let renewal = self.held.ask(self.now);
            self.send(Frame::Renew { renewal });
            self.renew_at = self.now + self.renew;
        }
        if self.kill_at.is_some_and(|at| self.now >= at) {
            self.kill_at = None;
            self.actions.push(Action::KillAll);
        }
    }

    /// A new deadline: the guard knows it before anything is done that relies on it.
    fn arm(&mut self, deadline: Option<Duration>) {
        if mutant!(GuardNotArmed) {
            return;
        }
        if mutant!(DeadlineIgnored) {
            return;
        }
        self.actions.extend(deadline.map(Action::Arm));
    }
}
