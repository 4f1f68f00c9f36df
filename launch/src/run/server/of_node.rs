//! The server of one node of a job over nodes: it hears the ranks of its node, and passes on what the others are to know.

use super::{MAPPING, Server, ServerAction, State, Value, barrier_out};

impl Server {
    /// The server of one node of a job of so many ranks.
    pub fn of_node(ranks: usize, name: String) -> Self {
        Server { is_of_node: true, ..Server::new(ranks, name, false) }
    }

    /// The node of every rank, before any of this node is heard.
    pub fn set_nodes(&mut self, nodes: &[u16]) {
        let mapping = Value::Put { by: None, value: mapping(nodes) };
        self.store.insert(MAPPING.to_owned(), mapping);
    }

    /// The roster has a rank as living, of this incarnation: a new one does everything from the beginning.
    pub fn announced(&mut self, rank: usize, incarnation: u32) {
        if incarnation > self.ranks[rank].incarnation {
            self.restarted(rank);
            self.ranks[rank].incarnation = incarnation;
        }
    }

    /// The number of the program that a rank runs.
    pub fn set_app(&mut self, rank: usize, app: usize) {
        self.apps[rank] = app;
    }

    /// A rank of another node has put a value.
    pub fn put_elsewhere(&mut self, rank: usize, key: String, value: String) -> Vec<ServerAction> {
        self.store.insert(key, Value::Put { by: Some(rank), value });
        self.answer_put()
    }

    /// So many barriers are complete, as all nodes have said.
    pub fn complete(&mut self, barriers: u64) -> Vec<ServerAction> {
        self.completed = self.completed.max(barriers);
        let mut passed = Vec::new();
        for (to, rank) in self.ranks.iter_mut().enumerate() {
            if rank.state == State::InBarrier && rank.entered <= self.completed {
                rank.state = State::Running;
                passed.push(barrier_out(to));
            }
        }
        passed
    }
}

/// The nodes of all ranks in the words of PMI: blocks of a first node, how many nodes, and the ranks on each.
fn mapping(of_ranks: &[u16]) -> String {
    let mut blocks: Vec<(u16, u16, usize)> = Vec::new();
    for of_node in of_ranks.chunk_by(|one, next| one == next) {
        let (node, each) = (of_node[0], of_node.len());
        match blocks.last_mut() {
            Some((first, nodes, ranks)) if *ranks == each && *first + *nodes == node => *nodes += 1,
            _ => blocks.push((node, 1, each)),
        }
    }
    let blocks: Vec<String> =
        blocks.iter().map(|(node, nodes, each)| format!("({node},{nodes},{each})")).collect();
    format!("(vector,{})", blocks.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(server: &mut Server, rank: usize, line: &str) -> Vec<ServerAction> {
        server.hear(rank, line.as_bytes()).unwrap()
    }

    fn texts(actions: &[ServerAction]) -> Vec<(usize, String)> {
        let text = |action: &ServerAction| match action {
            ServerAction::Say { to, message } => Some((*to, message.to_string())),
            _ => None,
        };
        actions.iter().filter_map(text).collect()
    }

    #[test]
    fn the_map_of_nodes_is_in_blocks() {
        assert_eq!(mapping(&[0, 0, 1, 1, 2]), "(vector,(0,2,2),(2,1,1))");
        assert_eq!(mapping(&[0, 1, 2, 0, 1]), "(vector,(0,3,1),(0,2,1))");
        assert_eq!(mapping(&[3]), "(vector,(3,1,1))");
        assert_eq!(mapping(&[1, 0]), "(vector,(1,1,1),(0,1,1))");
    }

    #[test]
    fn values_and_barriers_go_to_the_other_nodes_and_come_from_them() {
        let mut server = Server::of_node(3, "job".into());
        let put = say(&mut server, 0, "cmd=put kvsname=job key=a value=1");
        let passed_on = ServerAction::Put { key: "a".into(), value: "1".into() };
        assert!(put.len() == 2 && put[1] == passed_on, "{put:?}");
        let refused = say(&mut server, 1, "cmd=put kvsname=job key=a value=2");
        assert_eq!(refused.len(), 1, "what is refused is not passed on: {refused:?}");

        assert_eq!(say(&mut server, 1, "cmd=barrier_in"), [ServerAction::Enter(1)]);
        assert_eq!(say(&mut server, 1, "cmd=barrier_in"), [], "said twice, it is entered once");
        assert_eq!(say(&mut server, 0, "cmd=barrier_in"), [ServerAction::Enter(1)]);
        assert_eq!(server.complete(0), []);
        assert_eq!(server.put_elsewhere(2, "b".into(), "3".into()), []);
        let out = texts(&server.complete(1));
        assert_eq!(out, [0, 1].map(|rank| (rank, "cmd=barrier_out rc=0".to_owned())));
        let got = texts(&say(&mut server, 0, "cmd=get kvsname=job key=b"));
        assert!(got[0].1.contains("rc=0") && got[0].1.contains("value=3"), "{got:?}");
        // A node that has heard of two barriers lets a rank that is new pass both.
        assert_eq!(server.complete(2), []);
        assert_eq!(texts(&say(&mut server, 1, "cmd=barrier_in")).len(), 1);
        assert_eq!(say(&mut server, 1, "cmd=barrier_in"), [ServerAction::Enter(3)]);
    }

    #[test]
    fn more_values_than_the_launcher_takes_are_refused() {
        let mut server = Server::of_node(2, "job".into());
        let line = |n: u32| format!("cmd=put kvsname=job key=k{n} value=v");
        for n in 0..taffrail_agent::VALUES_MAX {
            assert_eq!(say(&mut server, 0, &line(n)).len(), 2);
        }
        let last = texts(&say(&mut server, 0, &line(taffrail_agent::VALUES_MAX)));
        assert!(last[0].1.contains("too_many_values"), "{last:?}");
    }
}
