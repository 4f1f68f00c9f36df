//! Correlated sets over the map of nodes. `docs/spec/agent.md`, section 7.

use crate::NodeId;

/// The set of every rank under `--sets node`: one for each node that has ranks, numbered in the order of ranks.
pub fn by_node(nodes: &[NodeId]) -> Vec<usize> {
    let mut known: Vec<NodeId> = Vec::new();
    let number = |node: &NodeId| match known.iter().position(|other| other == node) {
        Some(at) => at,
        None => {
            known.push(*node);
            known.len() - 1
        }
    };
    nodes.iter().map(number).collect()
}

/// A set that has events and lies on several nodes: its cut would need several event loggers to agree
/// (*cut-needs-one-reader*).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "set {set} (ranks {ranks:?}) lies on nodes {nodes:?}: with events a set must be on one node; use --sets node"
)]
pub struct SpansNodes {
    /// The number of the set.
    pub set: usize,
    /// Its ranks.
    pub ranks: Vec<usize>,
    /// Their nodes.
    pub nodes: Vec<NodeId>,
}

/// Checks that every set lies on one node. Sets without events may lie anywhere.
///
/// # Errors
/// [`SpansNodes`], for the first set that does not.
pub fn check(sets: &[usize], nodes: &[NodeId]) -> Result<(), SpansNodes> {
    let node_of = |set: usize| sets.iter().position(|other| *other == set).map(|rank| nodes[rank]);
    let apart = sets.iter().zip(nodes).find(|(set, node)| node_of(**set) != Some(**node));
    let Some((&set, _)) = apart else { return Ok(()) };
    let ranks: Vec<usize> = (0..sets.len()).filter(|&rank| sets[rank] == set).collect();
    let mut of_set: Vec<NodeId> = ranks.iter().map(|&rank| nodes[rank]).collect();
    of_set.sort_unstable();
    of_set.dedup();
    Err(SpansNodes { set, ranks, nodes: of_set })
}

/// Whether the job promises to survive a node, so that its events and checkpoints outlive one unless the user asks
/// for less (*defaults-cover-the-promise*).
pub fn survives_a_node(nodes: &[NodeId]) -> bool {
    nodes.iter().any(|node| Some(node) != nodes.first())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sets_follow_the_map_of_nodes() {
        assert_eq!(by_node(&[4, 4, 2, 4, 7, 2]), [0, 0, 1, 0, 2, 1]);
        assert!(check(&by_node(&[4, 4, 2, 4, 7, 2]), &[4, 4, 2, 4, 7, 2]).is_ok());
        assert!(check(&[0, 1, 2], &[0, 0, 1]).is_ok(), "a set is smaller than a node");
        let error = check(&[0, 1, 1, 1], &[0, 0, 2, 0]).unwrap_err();
        assert_eq!(
            (error.set, &error.ranks[..], &error.nodes[..]),
            (1, &[1, 2, 3][..], &[0, 2][..])
        );
        assert!(error.to_string().contains("use --sets node"));
    }

    #[test]
    fn a_job_on_several_nodes_survives_one() {
        assert!(survives_a_node(&[0, 0, 1]));
        assert!(!survives_a_node(&[3, 3]) && !survives_a_node(&[]));
    }
}
