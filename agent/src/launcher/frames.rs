//! What the launcher does with the frames of an agent.

use super::nodes::NodeState;
use super::{Action, Launcher, Report};
use crate::wire::{Frame, Hello, Malformed, Welcome};
use crate::{NodeId, RankIncarnation};

impl Launcher {
    /// Frames of nodes that are not up are late: nothing of them counts.
    pub(super) fn frame(&mut self, node: NodeId, frame: Frame) {
        let state = self.nodes[usize::from(node)].state;
        let taken = match state {
            NodeState::Starting { .. } => match frame {
                Frame::Hello(hello) => self.hello(node, hello),
                other => Err(Malformed::new("frame", "HELLO", other.name())),
            },
            NodeState::Up => self.of_node(node, frame),
            // Its ranks have ended, and nothing else of it counts.
            NodeState::Revoked => match frame {
                Frame::Goodbye { .. } => self.of_node(node, frame),
                _ => Ok(()),
            },
            NodeState::Ended if mutant!(LateBelieved) => self.of_node(node, frame),
            NodeState::Idle | NodeState::Cut | NodeState::Ended => Ok(()),
        };
        if let Err(e) = taken {
            let why = format!("its agent broke the protocol: {e}");
            self.send(node, Frame::Revoke { why: why.clone() });
            self.broken(node, &why);
        }
    }

    fn hello(&mut self, node: NodeId, hello: Hello) -> Result<(), Malformed> {
        if self.passes_over(node, &hello.interfaces) {
            return Ok(());
        }
        let terms = self.config.terms;
        let on_node = &mut self.nodes[usize::from(node)];
        on_node.interfaces = hello.interfaces.clone();
        on_node.granted.grant(hello.renewal, self.now, &terms)?;
        on_node.state = NodeState::Up;
        let welcome = Welcome {
            renewal: hello.renewal,
            node,
            nodes: self.nodes.len() as u32,
            ranks: self.config.ranks as u32,
            lease_ms: terms.lease.as_millis() as u32,
            renew_ms: terms.renew().as_millis() as u32,
            output_window: self.config.output_window,
            care: self.config.care,
            secret: self.config.secret,
            job: self.config.job.clone(),
        };
        self.send(node, Frame::Welcome(Box::new(welcome)));
        self.send_network(node);
        if !mutant!(LateNodeWithoutRoster) {
            self.send(node, Frame::Roster(self.roster.whole()));
        }
        for frame in self.exchange.whole() {
            self.send(node, frame);
        }
        self.report(Report::NodeUp { node, hello });
        Ok(())
    }

    fn of_node(&mut self, node: NodeId, frame: Frame) -> Result<(), Malformed> {
        if let Some(life) = frame.life() {
            let known = self.config.ranks;
            if life.rank as usize >= known {
                return Err(Malformed::new("rank", format!("below {known}"), life.rank));
            }
            if let Frame::Recovered { left, .. } = frame {
                return self.recovered(node, life, left);
            }
            if let Frame::Brought { epoch, why, .. } = frame {
                return self.brought(node, life, epoch, why);
            }
            let is_present = self.placed(life.rank) == Some((node, life));
            if is_present || mutant!(LateBelieved) {
                return self.of_rank(node, life, frame);
            }
            // START of an incarnation came behind ENDED of the one before.
            let got = format!("{} of {life}", frame.name());
            return Err(Malformed::new(
                "incarnation",
                "the one that was started on this node",
                got,
            ));
        }
        match frame {
            Frame::Renew { renewal } => {
                let terms = self.config.terms;
                let granted = &mut self.nodes[usize::from(node)].granted;
                granted.grant(renewal, self.now, &terms)?;
                self.send(node, Frame::Grant { renewal });
            }
            Frame::RosterAck { epoch } => {
                let newest = self.roster.epoch();
                let acked = &mut self.nodes[usize::from(node)].acked;
                if epoch < *acked || epoch > newest {
                    return Err(Malformed::new("epoch", format!("{acked} to {newest}"), epoch));
                }
                *acked = epoch;
            }
            Frame::Goodbye { refused } => self.goodbye(node, refused),
            Frame::Failed { status, why } => {
                let why = format!("node {}: {why}", self.nodes[usize::from(node)].name);
                self.report(Report::Failed { status, why });
            }
            Frame::Store { address } => self.store(node, address),
            Frame::Copied { epoch } => self.copied(node, epoch)?,
            Frame::Uncopied { epoch, why } => self.uncopied(node, epoch, why)?,
            Frame::Held { number, more, determinants } => {
                self.held(node, number, more, &determinants)?;
            }
            Frame::Note { level, text } => self.report(Report::Note { node, level, text }),
            other => {
                return Err(Malformed::new("frame", "one of an agent that serves", other.name()));
            }
        }
        Ok(())
    }

    fn of_rank(
        &mut self,
        node: NodeId,
        life: RankIncarnation,
        frame: Frame,
    ) -> Result<(), Malformed> {
        match frame {
            Frame::Started { pid, .. } => self.report(Report::Started { life, node, pid }),
            Frame::Ended { end, .. } => self.rank_ended(life, end),
            Frame::Left { known, .. } => self.report(Report::Left { life, known }),
            Frame::Member { member, .. } => self.report(Report::Member { life, member }),
            Frame::Output { stream, bytes, .. } => {
                self.output(node, bytes.len())?;
                self.report(Report::Output { life, node, stream, bytes });
            }
            Frame::Finalizing { known, .. } => self.finalizing(life, node, known),
            Frame::Link { peer, down, .. } => self.link(life, peer, down)?,
            Frame::InputTaken { bytes, .. } => self.report(Report::InputTaken { life, bytes }),
            Frame::Put { key, value, .. } => {
                self.exchange.put(life, &key, &value)?;
                self.send_others(node, &Frame::Put { life, key, value });
            }
            Frame::Enter { barrier, .. } => {
                if self.exchange.enter(life.rank, barrier)? {
                    self.send_all(&Frame::Complete { barriers: self.exchange.complete() });
                }
                self.check_stuck();
            }
            // The agents of all nodes publish it, this one as well.
            Frame::Address { address, .. } => {
                self.exchange.address(life, &address);
                self.send_all(&Frame::Address { life, address });
            }
            other => {
                return Err(Malformed::new("frame", "one of an agent that serves", other.name()));
            }
        }
        Ok(())
    }

    pub(super) fn check_stuck(&mut self) {
        if let Some((waiting, gone)) = self.exchange.stuck() {
            self.report(Report::Stuck { waiting, gone });
        }
    }

    fn send_others(&mut self, from: NodeId, frame: &Frame) {
        for node in (0..self.nodes.len() as NodeId).filter(|node| *node != from) {
            self.send(node, frame.clone());
        }
    }

    fn output(&mut self, node: NodeId, bytes: usize) -> Result<(), Malformed> {
        let window = self.config.output_window;
        let used = &mut self.nodes[usize::from(node)].output;
        *used = used.saturating_add(bytes as u32);
        match *used <= window {
            true => Ok(()),
            false => Err(Malformed::new("bytes of output", format!("at most {window}"), used)),
        }
    }

    pub(super) fn output_taken(&mut self, node: NodeId, bytes: u32) {
        let used = &mut self.nodes[usize::from(node)].output;
        *used = used.saturating_sub(bytes);
        if bytes > 0 && self.nodes[usize::from(node)].is_up() {
            self.actions.push(Action::Send(node, Frame::OutputTaken { bytes }));
        }
    }
}
