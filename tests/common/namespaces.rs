//! Nodes that have a network of their own: namespaces, with a bridge between them.

use super::host::Host;
use std::process::Command;

/// Starts a program in a namespace.
pub const NETNS: &str = "ip netns exec {host}";

/// Three namespaces n0 to n2 with the addresses 10.78.0.1 to 3, and one with the bridge. They end with this.
pub struct Nodes {
    /// Random: all runs on this machine have the same folder of names, and in a namespace of pids these are no names.
    pub id: String,
    /// Those that are there.
    made: Vec<String>,
}

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|output| output.status.success())
}

impl Nodes {
    /// The network between them. It is theirs alone, so that each test has the same.
    pub const NETWORK: &str = "10.78.0.0/24";

    /// Nothing where that is not permitted, which is said.
    pub fn new() -> Option<Nodes> {
        let mut nodes =
            Nodes { id: format!("tf{:010x}", fastrand::u64(..1 << 40)), made: Vec::new() };
        let there = nodes.set_up();
        if !there {
            eprintln!("skipped: network namespaces are not permitted here, or ip(8) is missing");
        }
        there.then_some(nodes)
    }

    fn set_up(&mut self) -> bool {
        let all = ["s", "n0", "n1", "n2"].map(|name| format!("{}{name}", self.id));
        for name in all {
            if !ip(&format!("netns add {name}")) {
                return false;
            }
            self.made.push(name);
        }
        let id = &self.id;
        let bridge = [
            format!("-n {id}s link add name sw0 type bridge"),
            format!("-n {id}s link set dev sw0 up"),
        ];
        let node = |number: usize| {
            let of_node = format!("-n {id}n{number}");
            [
                format!("{of_node} link add eth0 type veth peer name p{number} netns {id}s"),
                format!("-n {id}s link set p{number} master sw0 up"),
                format!("{of_node} addr add {}/24 dev eth0", self.address(number)),
                format!("{of_node} link set eth0 up"),
                format!("{of_node} link set lo up"),
            ]
        };
        // Listed before the network of all: one with the same address everywhere, and one that the second node lacks.
        let other = |(number, name, address): (usize, &str, String)| {
            let of_node = format!("-n {id}n{number}");
            [
                format!("{of_node} link add name {name} type bridge"),
                format!("{of_node} addr add {address} dev {name}"),
                format!("{of_node} link set {name} up"),
            ]
        };
        let docker = (0..3).map(|number| (number, "docker0", "172.17.0.1/16".to_owned()));
        let apart = [0, 2].map(|number| (number, "mgmt0", format!("10.79.0.{}/24", number + 1)));
        let others = docker.chain(apart).flat_map(other);
        let nodes = (0..3).flat_map(node);
        bridge.into_iter().chain(others).chain(nodes).all(|words| ip(&words))
    }

    /// The address of a node.
    pub fn address(&self, node: usize) -> String {
        format!("10.78.0.{}", node + 1)
    }

    /// The namespaces by their names, as hosts.
    pub fn names(&self) -> String {
        format!("{0}n0:2,{0}n1:1,{0}n2:1", self.id)
    }

    /// The nodes by their addresses, as hosts.
    pub fn addresses(&self) -> String {
        format!("{}:2,{}:1,{}:1", self.address(0), self.address(1), self.address(2))
    }

    /// A node, whose programs have its network, and all else of this host.
    pub fn host(&self, node: usize) -> Host {
        let before = ["nsenter".to_owned(), format!("--net=/run/netns/{}n{node}", self.id)];
        Host { address: self.address(node), before: before.to_vec() }
    }

    /// All nodes.
    pub fn all(&self) -> [Host; 3] {
        [0, 1, 2].map(|node| self.host(node))
    }

    /// Pulls the cable of a node out (`down`), or plugs it in (`up`).
    pub fn cable(&self, node: usize, state: &str) {
        assert!(ip(&format!("-n {}s link set p{node} {state}", self.id)));
    }

    /// Where the address of a node is: connections with it, also those that there are, are refused while the namespace of the bridge
    /// has it in place of the node.
    pub fn move_address(&self, node: usize, away: bool) {
        let here = (format!("{}n{node}", self.id), "eth0");
        let there = (format!("{}s", self.id), "sw0");
        let ((from, at), (to, device)) = if away { (here, there) } else { (there, here) };
        let address = self.address(node);
        assert!(ip(&format!("-n {from} addr del {address}/24 dev {at}")));
        assert!(ip(&format!("-n {to} addr add {address}/24 dev {device}")));
        for other in (0..3).filter(|other| *other != node) {
            ip(&format!("-n {}n{other} neigh flush dev eth0", self.id));
        }
    }

    /// Whether the packets that come to a node are swallowed if they are long, as where a network on the way has a shorter MTU and
    /// nobody says so. `false` where that cannot be done, which is said.
    pub fn swallow(&self, node: usize, on: bool) -> bool {
        let name = format!("{}n{node}", self.id);
        let change = if on { "-A" } else { "-D" };
        let rule = "INPUT -i eth0 -p tcp -m length --length 1000:65535 -j DROP";
        let words = format!("netns exec {name} /usr/sbin/iptables -w {change} {rule}");
        let done = ip(&words);
        if !done {
            eprintln!(
                "skipped: {words}: iptables(8) is missing, or filters are not permitted here"
            );
        }
        done
    }

    /// Two nodes do not reach each other any more. All others reach both.
    pub fn part(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let of_node = format!("-n {}n{from} route add unreachable", self.id);
            assert!(ip(&format!("{of_node} {}/32", self.address(to))));
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in &self.made {
            ip(&format!("netns del {name}"));
        }
    }
}
