//! What an agent does with the frames of the launcher.

use super::{Action, Agent, Job, State};
use crate::RankIncarnation;
use crate::roster::{RankState, Roster};
use crate::wire::{
    BringOrder, CopyOrder, Durability, End, Frame, Logging, Malformed, Reach, RosterUpdate, Welcome,
};
use std::time::Duration;

/// Signals, as the kernel numbers them.
const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;

impl Agent {
    pub(super) fn frame(&mut self, frame: Frame) -> Result<(), Malformed> {
        match (self.state, frame) {
            (State::Fenced | State::Gone, _) => Ok(()),
            (_, Frame::Revoke { why }) => {
                self.fence(&format!("the launcher has given up this node: {why}"));
                Ok(())
            }
            (_, Frame::Farewell) => {
                self.leave();
                Ok(())
            }
            (State::Greeting, Frame::Welcome(welcome)) => self.welcome(&welcome),
            (State::Greeting, other) => Err(unexpected("WELCOME", &other)),
            // What was under way when it was asked to leave.
            (State::Leaving, _) => Ok(()),
            (State::Serving | State::Ending, frame) => self.order(frame),
        }
    }

    fn welcome(&mut self, welcome: &Welcome) -> Result<(), Malformed> {
        self.held.set_lease(Duration::from_millis(welcome.lease_ms.into()));
        self.renew = Duration::from_millis(welcome.renew_ms.into());
        self.renew_at = self.now + self.renew;
        self.node = welcome.node;
        self.output_window = welcome.output_window;
        self.roster = Roster::new(welcome.ranks as usize);
        let deadline = self.held.granted(welcome.renewal, self.now)?;
        self.state = State::Serving;
        self.actions.push(Action::Set(Job {
            name: welcome.job.clone(),
            node: welcome.node,
            nodes: welcome.nodes,
            ranks: welcome.ranks,
            care: welcome.care,
            secret: welcome.secret,
            lease: Duration::from_millis(welcome.lease_ms.into()),
        }));
        self.arm(deadline);
        Ok(())
    }

    fn leave(&mut self) {
        self.state = State::Leaving;
        self.kill_at = None;
        if !self.lives.is_empty() {
            self.actions.push(Action::KillAll);
        }
        self.check_gone();
    }

    fn order(&mut self, frame: Frame) -> Result<(), Malformed> {
        match frame {
            Frame::Grant { renewal } => {
                let deadline = self.held.granted(renewal, self.now)?;
                self.arm(deadline);
            }
            Frame::Roster(update) => self.publish(update)?,
            Frame::Program(program) => self.actions.push(Action::Define(program)),
            Frame::Network { network } => self.network(network)?,
            Frame::Logging(logging) => self.log(logging)?,
            Frame::Start { life, app, generations } => self.start(life, app, generations)?,
            Frame::Recover { life, copy } => self.recover(life, copy)?,
            Frame::Bring { life, order } => self.bring(life, order)?,
            Frame::Copy(order) => self.copy(order)?,
            Frame::AskHeld { number } if self.logs => self.actions.push(Action::AskHeld(number)),
            Frame::Held { determinants, .. } if self.logs => {
                self.actions.push(Action::Held(determinants));
            }
            Frame::Kill { life } => self.kill(life),
            Frame::OutputTaken { bytes } => {
                let left = self.output_used.checked_sub(bytes);
                let expected = format!("at most {}", self.output_used);
                self.output_used =
                    left.ok_or_else(|| Malformed::new("bytes taken", expected, bytes))?;
            }
            Frame::Input { life, bytes } if self.lives(life) => {
                self.actions.push(Action::Input(life, bytes));
            }
            // It has ended, and the launcher does not know that yet.
            Frame::Input { .. } => {}
            Frame::Signal { signal, reach } => self.actions.push(Action::Signal(signal, reach)),
            Frame::Release => self.actions.push(Action::Release),
            Frame::Put { life, key, value } => self.actions.push(Action::Value(life, key, value)),
            Frame::Complete { barriers } => self.actions.push(Action::Complete(barriers)),
            Frame::Address { life, address } => {
                self.known(life.rank)?;
                self.actions.push(Action::PublishAddress(life, address));
            }
            Frame::Wave { life, words } => {
                self.known(life.rank)?;
                self.actions.push(Action::PublishWave(life.rank, words));
            }
            Frame::End { signal, grace_ms } => {
                self.state = State::Ending;
                self.kill_at = Some(self.now + Duration::from_millis(grace_ms.into()));
                self.actions.push(Action::Signal(signal, Reach::Groups));
                // A stopped process ends only after SIGCONT, or by SIGKILL.
                self.actions.push(Action::Signal(SIGCONT, Reach::Groups));
            }
            other => return Err(unexpected("a frame for an agent that serves", &other)),
        }
        Ok(())
    }

    /// Publishes, then acknowledges.
    fn publish(&mut self, update: RosterUpdate) -> Result<(), Malformed> {
        self.roster.apply(&update)?;
        let epoch = update.epoch;
        self.actions.push(Action::Publish(update));
        self.send(Frame::RosterAck { epoch });
        Ok(())
    }

    fn known(&self, rank: u32) -> Result<(), Malformed> {
        let ranks = self.roster.entries().len();
        let known = self.roster.entry(rank).map(|_| ());
        known.ok_or_else(|| Malformed::new("rank", format!("below {ranks}"), rank))
    }

    /// Before anything is started here, and once.
    fn network(&mut self, network: String) -> Result<(), Malformed> {
        if self.has_network || self.logs || !self.started.is_empty() {
            return Err(Malformed::new(
                "frame",
                "one NETWORK, before LOGGING and START",
                "another",
            ));
        }
        self.has_network = true;
        self.actions.push(Action::Network(network));
        Ok(())
    }

    /// Before anything is started here, and once.
    fn log(&mut self, logging: Logging) -> Result<(), Malformed> {
        if self.logs || !self.started.is_empty() {
            return Err(Malformed::new("frame", "one LOGGING, before START", "another"));
        }
        let ranks = self.roster.entries().len();
        if logging.sets.len() != ranks {
            return Err(Malformed::new("sets", ranks, logging.sets.len()));
        }
        self.logs = true;
        if let Durability::Copies(copies) = logging.durability {
            self.copies = copies - 1;
        }
        self.actions.push(Action::Log(logging));
        Ok(())
    }

    /// Of an incarnation whose process has ended: here, and it is the last one; or elsewhere, after all that were here.
    fn recover(&mut self, life: RankIncarnation, copy: u64) -> Result<(), Malformed> {
        self.recoverable(life, copy)?;
        self.actions.push(Action::Recover { life, copy });
        Ok(())
    }

    fn recoverable(&self, life: RankIncarnation, copy: u64) -> Result<(), Malformed> {
        self.known(life.rank)?;
        let last = self.started.get(&life.rank);
        let is_last = match copy {
            0 => last == Some(&life.incarnation),
            _ => last.is_none_or(|last| *last < life.incarnation),
        };
        if !self.logs || !is_last || self.lives.contains_key(&life.rank) {
            let expected = "the last one that was started here, after its end, in a logged job, or one of another node";
            return Err(Malformed::new("incarnation to recover", expected, life));
        }
        Ok(())
    }

    /// Of an incarnation of another node, of which there is a copy here.
    fn bring(&mut self, life: RankIncarnation, order: BringOrder) -> Result<(), Malformed> {
        self.recoverable(life, order.copy)?;
        if order.node == self.node {
            return Err(Malformed::new("node", "another one", order.node));
        }
        self.actions.push(Action::Bring(life, order));
        Ok(())
    }

    /// A later order than all before, for an event logger behind the first.
    fn copy(&mut self, order: CopyOrder) -> Result<(), Malformed> {
        let last = self.orders.values().copied().max().unwrap_or(0);
        let is_nowhere = order.address.is_empty();
        if order.epoch <= last || (order.node == self.node) != is_nowhere {
            let expected = format!("one behind {last}, to another node");
            return Err(Malformed::new("order to copy", expected, order.epoch));
        }
        if order.logger > self.copies {
            let expected = format!("one of {} that copy", self.copies);
            return Err(Malformed::new("event logger", expected, order.logger));
        }
        self.orders.insert(order.logger, order.epoch);
        if mutant!(CopiedWhenOrdered) {
            self.send(Frame::Copied { epoch: order.epoch });
        }
        self.actions.push(Action::CopyTo(order));
        Ok(())
    }

    fn start(
        &mut self,
        life: RankIncarnation,
        app: u32,
        generations: Vec<u32>,
    ) -> Result<(), Malformed> {
        self.known(life.rank)?;
        let ranks = self.roster.entries().len();
        if generations.len() != ranks {
            return Err(Malformed::new("generations", ranks, generations.len()));
        }
        if self.state != State::Serving {
            return Err(Malformed::new("frame", "no START behind END", life));
        }
        let entry = self.roster.entry(life.rank);
        let here = entry.is_some_and(|entry| {
            (entry.life, entry.node, entry.state) == (life, self.node, RankState::Live)
        });
        let before = self.started.get(&life.rank);
        let is_new = before.is_none_or(|before| *before < life.incarnation);
        if !here || !is_new || self.lives.contains_key(&life.rank) {
            let expected = "an incarnation that the roster has on this node, after the one before";
            return Err(Malformed::new("incarnation to start", expected, life));
        }
        self.lives.insert(life.rank, life.incarnation);
        self.started.insert(life.rank, life.incarnation);
        self.actions.push(Action::Spawn { life, app, generations });
        Ok(())
    }

    fn kill(&mut self, life: RankIncarnation) {
        if !self.lives(life) {
            return;
        }
        self.actions.push(Action::Kill(life));
        if mutant!(EndedAtKill) {
            self.ended(life, End::Signal(SIGKILL));
        }
    }
}

fn unexpected(expected: &str, got: &Frame) -> Malformed {
    Malformed::new("frame", expected, got.name())
}
