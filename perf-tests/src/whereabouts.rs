//! Where two ranks are, and what is between them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The job and the node of a rank, where an agent has started it.
const NODE: &str = "TAFFRAIL_NODE";

/// Where a rank is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The number of its node, in a job over nodes.
    pub node: Option<u32>,
    /// The kernel that it runs on, named by something that no other one has.
    pub kernel: String,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
}

/// What is between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Between {
    /// They are on one node.
    SharedMemory,
    /// They are on two nodes of one machine: sockets that leave no machine.
    Loopback,
    /// They are on two machines.
    Network,
}

/// The two ranks of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// What is between them.
    pub between: Between,
    /// Their nodes.
    pub nodes: [Option<u32>; 2],
    /// The CPUs they are pinned to, each of its machine.
    pub cpus: [Option<usize>; 2],
}

impl Spot {
    /// That of this process.
    pub fn here(cpu: Option<usize>) -> Spot {
        let node = taffrail::environment::value(NODE);
        let node = node.and_then(|node| node.rsplit_once(':')?.1.parse().ok());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Spot { node, kernel: kernel.unwrap_or_default().trim().into(), cpu }
    }

    /// As other ranks get it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// That of another rank; what is none is nowhere.
    pub fn from_text(text: &str) -> Spot {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl Network {
    /// That between two ranks.
    pub fn between(first: &Spot, second: &Spot) -> Network {
        let between = match first.node == second.node {
            true => Between::SharedMemory,
            false if first.kernel == second.kernel => Between::Loopback,
            false => Between::Network,
        };
        Network { between, nodes: [first.node, second.node], cpus: [first.cpu, second.cpu] }
    }

    /// The two CPUs, if they are pinned to two of one machine.
    pub fn pair(&self) -> Option<(usize, usize)> {
        match self.cpus {
            [Some(first), Some(second)] if self.between != Between::Network => {
                (first != second).then_some((first, second))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.between, self.nodes) {
            (Between::SharedMemory, _) => f.write_str("one node, shared memory")?,
            (between, nodes) => {
                let [first, second] = nodes.map(|node| node.map_or("?".into(), |n| n.to_string()));
                let over = match between {
                    Between::Loopback => "one machine: sockets over its loopback",
                    _ => "two machines: sockets between them",
                };
                write!(f, "nodes {first} and {second}, {over}")?;
            }
        }
        match self.cpus {
            [Some(first), Some(second)] => write!(f, "; pinned to CPUs {first} and {second}"),
            _ => f.write_str("; not pinned"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(node: u32, kernel: &str, cpu: usize) -> Spot {
        Spot { node: Some(node), kernel: kernel.into(), cpu: Some(cpu) }
    }

    #[test]
    fn what_is_between_two_ranks_is_said() {
        let of = |a: &Spot, b: &Spot| Network::between(a, b);
        let here = spot(0, "k", 0);
        let loopback = of(&here, &spot(1, "k", 1));
        let said = "nodes 0 and 1, one machine: sockets over its loopback; pinned to CPUs 0 and 1";
        assert_eq!((loopback.to_string().as_str(), loopback.pair()), (said, Some((0, 1))));
        let apart = of(&here, &spot(1, "other", 1));
        assert_eq!((apart.between, apart.pair()), (Between::Network, None));
        assert!(apart.to_string().contains("two machines"));
        let together = of(&Spot { node: None, ..here.clone() }, &Spot::here(None));
        assert_eq!((together.between, together.pair()), (Between::SharedMemory, None));
        assert!(of(&here, &spot(0, "k", 0)).pair().is_none(), "both on one CPU");
    }

    #[test]
    fn a_spot_arrives_as_it_was_sent() {
        let here = Spot::here(Some(3));
        assert!(!here.kernel.is_empty());
        assert_eq!(Spot::from_text(&here.to_text()), here);
        assert_eq!(Spot::from_text("{"), Spot::default());
    }
}
