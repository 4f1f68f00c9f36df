//! The network in which ranks listen: the one that the user has named, or one that all nodes have.

use super::{Launcher, Report};
use crate::NodeId;
use crate::network::{self, HostAddress, Network};
use crate::place::SeatState;
use crate::wire::{Frame, Level};

/// Where ranks listen.
#[derive(Debug)]
pub(super) enum Listeners {
    /// Not known before all nodes with ranks are up.
    Unknown,
    /// At what the user has named.
    Named(String),
    /// In this network.
    Chosen(Network),
    /// Each at the first address of its host.
    Any,
}

impl Listeners {
    pub fn new(named: &str) -> Listeners {
        match named {
            "" => Listeners::Unknown,
            named => Listeners::Named(named.to_owned()),
        }
    }

    pub fn are_known(&self) -> bool {
        !matches!(self, Listeners::Unknown)
    }
}

impl Launcher {
    /// Chooses once the nodes with which the job begins are up.
    pub(super) fn check_network(&mut self) {
        if self.listeners.are_known() || self.ending {
            return;
        }
        let nodes = 0..self.nodes.len() as NodeId;
        let is_needed = |node: &NodeId| {
            // It may be gone before the job has begun, which begins without it then.
            let seat = self.nodes[usize::from(*node)].seat();
            let is_reliable = self.config.reliable == Some(*node) && seat != SeatState::Gone;
            is_reliable || self.ranks.iter().any(|rank| rank.node() == *node)
        };
        let needed: Vec<usize> = nodes.filter(is_needed).map(usize::from).collect();
        if !needed.iter().all(|node| self.nodes[*node].is_up()) {
            return;
        }
        let hosts = needed.iter().map(|node| self.nodes[*node].interfaces.as_slice());
        self.listeners = match network::choose(&hosts.collect::<Vec<_>>()) {
            Some(network) => {
                self.report(Report::Network(network));
                Listeners::Chosen(network)
            }
            None => Listeners::Any,
        };
        for node in 0..self.nodes.len() as NodeId {
            let interfaces = &self.nodes[usize::from(node)].interfaces;
            match self.outside(interfaces) {
                Some(text) if self.nodes[usize::from(node)].is_up() => {
                    self.report(Report::Note { node, level: Level::Note, text });
                    self.send(node, Frame::Farewell);
                }
                _ => self.send_network(node),
            }
        }
    }

    /// Where ranks of a node listen, and how they log.
    pub(super) fn send_network(&mut self, node: NodeId) {
        let network = match &self.listeners {
            Listeners::Unknown => return,
            Listeners::Named(named) => named.clone(),
            Listeners::Chosen(network) => network.to_string(),
            Listeners::Any => String::new(),
        };
        self.send(node, Frame::Network { network });
        if let Some(logging) = &self.config.logging {
            self.send(node, Frame::Logging(logging.clone()));
        }
    }

    /// Whether a host that comes later has no address in the network that was chosen: then it is passed over.
    pub(super) fn passes_over(&mut self, node: NodeId, interfaces: &[HostAddress]) -> bool {
        let Some(text) = self.outside(interfaces) else { return false };
        self.report(Report::Note { node, level: Level::Note, text: text.clone() });
        self.node_ended(node, &text);
        true
    }

    /// Why a host cannot be used, if it has no address in the network that was chosen.
    fn outside(&self, interfaces: &[HostAddress]) -> Option<String> {
        let Listeners::Chosen(network) = self.listeners else { return None };
        let is_inside = network.has(interfaces);
        (!is_inside).then(|| format!("it has no address in {network}, the network of the job"))
    }
}
