//! Nodes that have a network of their own: namespaces, with a bridge between them.

use super::losses::{PEACE, application_through, assert_right, program_of_application, some_time};
use super::ranks::{program, said};
use super::sshd::Sshd;
use super::*;
use std::sync::LazyLock;

/// Three namespaces t0 to t2 with the addresses 10.78.X.1 to 3, and one with the bridge. They end with this.
struct Nodes {
    id: String,
    third: u32,
}

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|output| output.status.success())
}

impl Nodes {
    /// Nothing where that is not permitted, which is said.
    fn new() -> Option<Nodes> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = format!("tf{}x{number}", std::process::id() % 100_000);
        let nodes = Nodes { third: std::process::id() % 250, id };
        match nodes.set_up() {
            true => Some(nodes),
            false => {
                eprintln!(
                    "skipped: network namespaces are not permitted here, or ip(8) is missing"
                );
                None
            }
        }
    }

    fn set_up(&self) -> bool {
        let (id, third) = (&self.id, self.third);
        let bridge = [
            format!("netns add {id}s"),
            format!("-n {id}s link add name sw0 type bridge"),
            format!("-n {id}s link set dev sw0 up"),
        ];
        let node = |number: u32| {
            [
                format!("netns add {id}n{number}"),
                format!("-n {id}n{number} link add eth0 type veth peer name p{number} netns {id}s"),
                format!("-n {id}s link set p{number} master sw0 up"),
                format!("-n {id}n{number} addr add 10.78.{third}.{}/24 dev eth0", number + 1),
                format!("-n {id}n{number} link set eth0 up"),
                format!("-n {id}n{number} link set lo up"),
            ]
        };
        let nodes = (0..3).flat_map(node);
        bridge.into_iter().chain(nodes).all(|words| ip(&words))
    }

    fn hosts(&self) -> String {
        format!("{0}n0:2,{0}n1:1,{0}n2:1", self.id)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in ["s", "n0", "n1", "n2"] {
            ip(&format!("netns del {}{name}", self.id));
        }
    }
}

impl Nodes {
    /// The addresses of the nodes, as hosts.
    fn addresses(&self) -> String {
        let third = self.third;
        format!("10.78.{third}.1:2,10.78.{third}.2:1,10.78.{third}.3:1")
    }

    /// An sshd in each of the three, reached from the first.
    fn sshd(&self) -> Option<Sshd> {
        let at = |number: u32| {
            let words = ["ip", "netns", "exec"].map(str::to_owned).into_iter();
            let words: Vec<_> = words.chain([format!("{}n{number}", self.id)]).collect();
            (format!("10.78.{}.{}", self.third, number + 1), words)
        };
        let all = [0, 1, 2].map(at);
        let all: Vec<_> = all
            .iter()
            .map(|(address, words)| (address.as_str(), words.iter().map(String::as_str).collect()))
            .collect();
        Sshd::listening(2222, &all)
    }

    /// Pulls the cable of a node out, or plugs it in.
    fn cable(&self, node: u32, state: &str) {
        assert!(ip(&format!("-n {}s link set p{node} {state}", self.id)));
    }
}

/// The cable of a node is pulled while its ranks exchange messages. Agents keep their connections with the launcher: nobody has
/// died, and nothing is lost or comes twice.
#[test]
fn a_cable_that_is_plugged_in_again_costs_time_only() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    let network = format!("10.78.{}.0/24", nodes.third);
    for (logged, seconds) in [(false, 4), (true, 16)] {
        let options = ["--network", &network];
        let job = match logged {
            true => application_through(NETNS, &nodes.hosts(), &options, 0),
            false => program_of_application(Job::through(NETNS, &nodes.hosts()).with(&options), 0),
        };
        let (child, started) = (job.begin(), Instant::now());
        some_time();
        nodes.cable(1, "down");
        std::thread::sleep(Duration::from_secs(seconds));
        nodes.cable(1, "up");
        let ended = job.end(child, started);
        let said = Some("it tries again").filter(|_| seconds > 10);
        assert_right(&ended, said.as_slice());
        assert!(!ended.err.contains("restarting"), "{}", ended.err);
    }
}

/// Messages of an unlogged job end with an error that names who cannot be reached.
#[test]
fn a_cable_that_stays_out_ends_an_unlogged_job_by_name() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    let network = format!("10.78.{}.0/24", nodes.third);
    let job = Job::through(NETNS, &nodes.hosts()).with(&["--network", &network]);
    let job = program_of_application(job, 0);
    let mut command = job.command();
    command.env("TAFFRAIL_CONNECT_TIMEOUT", "2");
    let child = job.begin_with(command);
    some_time();
    nodes.cable(1, "down");
    let ended = job.end(child, Instant::now());
    assert_ne!(ended.status, 0, "{}", ended.err);
    let by_name = ended.err.contains("rank 2") && ended.err.contains("not made anew");
    assert!(by_name, "{}", ended.err);
}

/// A node with an sshd of its own is cut off, from the launcher too, for longer than its lease. Its ranks end by themselves, and
/// others take their place before it is back; then nothing of it is listened to.
#[test]
fn a_node_that_is_cut_off_ends_by_its_lease() {
    let Some(nodes) = Nodes::new() else { return };
    let Some(sshd) = nodes.sshd() else { return };
    LazyLock::force(&PEACE);
    let network = format!("10.78.{}.0/24", nodes.third);
    let namespace = format!("{}n0", nodes.id);
    let before = ["ip", "netns", "exec", &namespace];

    let job = Job::through(&sshd.command(), &nodes.addresses()).started_by(&before);
    let job = job.with(&["--network", &network, "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    assert_eq!(said(&ended)[3], "rank 3: 0 tcp, 1 tcp, 2 tcp, 3 shm");

    let options = ["--network", &network];
    let job = application_through(&sshd.command(), &nodes.addresses(), &options, 0);
    let job = job.started_by(&before);
    let (child, started) = (job.begin(), Instant::now());
    nodes.cable(2, "down");
    // Longer than the lease, and than the time in which the ranks are somewhere else.
    std::thread::sleep(Duration::from_secs(8));
    let in_cut_node = job.ranks_of("2").len();
    nodes.cable(2, "up");
    let ended = job.end(child, started);
    assert_eq!(in_cut_node, 0, "its agent has ended its ranks without a word of the launcher");
    assert_right(&ended, &[&format!("node 10.78.{}.3 lost", nodes.third), "rank 3"]);
}

const NETNS: &str = "ip netns exec {host}";

#[test]
fn ranks_are_in_the_networks_of_their_nodes() {
    let Some(nodes) = Nodes::new() else { return };
    let network = format!("10.78.{}.0/24", nodes.third);
    let job = Job::through(NETNS, &nodes.hosts()).with(&["--network", &network, "-n", "4"]);
    let ended = job.with(&program("ranks::a_rank")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    let last = format!("rank 3 node 2 of [0, 0, 1, 2], near [3], network Some({network:?})");
    assert_eq!(said(&ended)[3], last);

    let job = Job::through(NETNS, &nodes.hosts()).with(&["--network", &network, "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    let near = ["0 shm, 1 shm, 2 tcp, 3 tcp", "0 tcp, 1 tcp, 2 shm, 3 tcp"];
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    assert_eq!(
        said(&ended)[1..3],
        [format!("rank 1: {}", near[0]), format!("rank 2: {}", near[1])]
    );

    let address = "ip -4 -o addr show dev eth0 | grep -o '10[.0-9]*/' ";
    let ended = Job::through(NETNS, &nodes.hosts()).with(&["--label"]).script(4, address).run();
    let third = nodes.third;
    let expected = [(0, 1), (1, 1), (2, 2), (3, 3)]
        .map(|(rank, host)| format!("[{rank}] 10.78.{third}.{host}/"));
    assert_eq!((ended.status, ended.sorted()), (0, expected.iter().map(String::as_str).collect()));

    let job = Job::through(NETNS, &nodes.hosts()).with(&["--network", "eth7", "-n", "4", "true"]);
    let ended = job.run();
    let why = "no address of this host fits eth7; there are ";
    assert!(ended.status == 1 && ended.err.contains(why), "{}", ended.err);
    assert!(ended.err.starts_with(&format!("taffrail: node {}n", nodes.id)), "{}", ended.err);

    let job = Job::through(NETNS, &nodes.hosts()).script(4, "sleep 300 & wait");
    let mut child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 4));
    child.kill().unwrap();
    child.wait().unwrap();
    job.assert_nothing_left("in namespaces, after the launcher was killed");
}
