//! Nodes that have a network of their own: namespaces, with a bridge between them.

use super::losses::{PEACE, application_through, assert_right, program_of_application, some_time};
use super::ranks::{program, said};
use super::spaces::{NETNS, Nodes};
use super::sshd::Sshd;
use super::*;
use std::sync::LazyLock;

/// The application between the nodes, logged or not.
fn application_between(nodes: &Nodes, logged: bool) -> Job {
    let options = ["--network", Nodes::NETWORK];
    match logged {
        true => application_through(NETNS, &nodes.names(), &options, 0),
        false => program_of_application(Job::through(NETNS, &nodes.names()).with(&options), 0),
    }
}

/// The cable of a node is pulled while its ranks exchange messages. Agents keep their connections with the launcher: nobody has
/// died, and nothing is lost or comes twice.
#[test]
fn a_cable_that_is_plugged_in_again_costs_time_only() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    // Logged, the first message to the cut node may wait until its events are copied elsewhere; then it is tried for 10 s.
    for (logged, seconds) in [(false, 4), (true, 24)] {
        let job = application_between(&nodes, logged);
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

/// For some time the host at the address of a node resets connections and refuses new ones, as a firewall that is loaded anew may: its
/// processes live, so that nothing is lost.
#[test]
fn a_node_that_refuses_connections_for_a_while_costs_time_only() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    for logged in [false, true] {
        let job = application_between(&nodes, logged);
        let (child, started) = (job.begin(), Instant::now());
        some_time();
        nodes.move_address(1, true);
        std::thread::sleep(Duration::from_millis(1500));
        nodes.move_address(1, false);
        let ended = job.end(child, started);
        assert_right(&ended, &[]);
        assert!(!ended.err.contains("restarting"), "{}", ended.err);
    }
}

/// Messages of an unlogged job end with an error that names who cannot be reached.
#[test]
fn a_cable_that_stays_out_ends_an_unlogged_job_by_name() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    let job = application_between(&nodes, false);
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

/// Nodes do not reach each other any more, and all reach the launcher: one is ended, and the job comes to its answer. In the last
/// two runs that node reaches no other one, and what was copied of its events before is used. In the first one ranks report it again meanwhile.
#[test]
fn a_node_that_others_do_not_reach_is_ended() {
    for (logging, hosts, apart, limit, ranks) in [
        ("pessimistic", &[2, 1, 1][..], &[(0, 2)][..], "12 s", "rank 3"),
        ("causal", &[2, 1, 1], &[(0, 2)], "4 s", "rank 3"),
        ("pessimistic", &[2, 1, 1], &[(0, 2), (1, 2)], "4 s", "rank 3"),
        ("pessimistic", &[2, 2], &[(0, 1)], "4 s", "ranks 2-3"),
    ] {
        let Some(nodes) = Nodes::new() else { return };
        LazyLock::force(&PEACE);
        let host = |(node, slots)| format!("{}n{node}:{slots}", nodes.id);
        let names: Vec<String> = hosts.iter().enumerate().map(host).collect();
        let job = Job::through(NETNS, &names.join(",")).with(&["--network", Nodes::NETWORK]);
        let limits = ["--link-timeout", &limit.replace(' ', "")];
        let job = program_of_application(job.with(&["--logging", logging]).with(&limits), 0);
        let (child, started) = (job.begin(), Instant::now());
        some_time();
        apart.iter().for_each(|(one, other)| nodes.part(*one, *other));
        let ended = job.end(child, started);
        let last = format!("{}n{}", nodes.id, hosts.len() - 1);
        let said = [
            format!(
                "have not reached each other for {limit} (No route to host (os error 113)), and the launcher reaches both: node {last}"
            ),
            format!("node {last} lost (its agent has ended its ranks): {ranks}"),
        ];
        assert_right(&ended, &said.each_ref().map(String::as_str));
        assert_eq!(ended.err.matches(" lost (").count(), 1, "{}", ended.err);
    }
}

/// There are no copies: neither can be ended, which ends the job by name.
#[test]
fn parted_nodes_without_copies_end_the_job_by_name() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    let options = ["--network", Nodes::NETWORK, "--link-timeout", "2s", "--copies", "1"];
    let job = application_through(NETNS, &nodes.names(), &options, 0);
    let (child, started) = (job.begin(), Instant::now());
    some_time();
    nodes.part(0, 2);
    let ended = job.end(child, started);
    assert_eq!(ended.status, 1, "{}", ended.err);
    let [first, last] = [0, 2].map(|node| format!("node {}n{node} (rank ", nodes.id));
    let said = [&first, &last, "Expected: a way between all nodes within 2 s (--link-timeout)"];
    assert!(said.iter().all(|said| ended.err.contains(*said)), "{}", ended.err);
}

/// A node with an sshd of its own is cut off, from the launcher too, for longer than its lease. Its ranks end by themselves, and
/// others take their place before it is back; then nothing of it is listened to.
#[test]
fn a_node_that_is_cut_off_ends_by_its_lease() {
    let Some(nodes) = Nodes::new() else { return };
    let Some(sshd) = Sshd::listening(2222, &nodes.all()) else { return };
    LazyLock::force(&PEACE);
    let first = nodes.host(0).before;

    let job = Job::through(&sshd.command(), &nodes.addresses()).started_by(&first);
    let job = job.with(&["--network", Nodes::NETWORK, "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    assert_eq!(said(&ended)[3], "rank 3: 0 tcp, 1 tcp, 2 tcp, 3 shm");

    let options = ["--network", Nodes::NETWORK];
    let job = application_through(&sshd.command(), &nodes.addresses(), &options, 0);
    let job = job.started_by(&first);
    let (child, started) = (job.begin(), Instant::now());
    nodes.cable(2, "down");
    // Longer than the lease, and than the time in which the ranks are somewhere else.
    std::thread::sleep(Duration::from_secs(8));
    let in_cut_node = job.ranks_of(2).len();
    nodes.cable(2, "up");
    let ended = job.end(child, started);
    assert_eq!(in_cut_node, 0, "its agent has ended its ranks without a word of the launcher");
    assert_right(&ended, &[&format!("node {} lost", nodes.address(2)), "rank 3"]);
}

/// All have a bridge with the same address, and one lacks another network: the job takes the one that leads to all.
#[test]
fn a_network_that_all_nodes_have_is_chosen() {
    let Some(nodes) = Nodes::new() else { return };
    let job = Job::through(NETNS, &nodes.names()).with(&["-n", "4"]);
    let ended = job.with(&program("ranks::a_rank")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    let network = Nodes::NETWORK;
    let last = format!("rank 3 node 2 of [0, 0, 1, 2], near [3], network Some({network:?})");
    assert_eq!(said(&ended)[3], last);
    let job = Job::through(NETNS, &nodes.names()).with(&["-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
}

#[test]
fn ranks_are_in_the_networks_of_their_nodes() {
    let Some(nodes) = Nodes::new() else { return };
    let job = Job::through(NETNS, &nodes.names()).with(&["--network", Nodes::NETWORK, "-n", "4"]);
    let ended = job.with(&program("ranks::a_rank")).run();
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    let last =
        format!("rank 3 node 2 of [0, 0, 1, 2], near [3], network Some({:?})", Nodes::NETWORK);
    assert_eq!(said(&ended)[3], last);

    let job = Job::through(NETNS, &nodes.names()).with(&["--network", Nodes::NETWORK, "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    let near = ["0 shm, 1 shm, 2 tcp, 3 tcp", "0 tcp, 1 tcp, 2 shm, 3 tcp"];
    assert_eq!((ended.status, said(&ended).len()), (0, 4), "{}{}", ended.out, ended.err);
    assert_eq!(
        said(&ended)[1..3],
        [format!("rank 1: {}", near[0]), format!("rank 2: {}", near[1])]
    );

    let address = "ip -4 -o addr show dev eth0 | grep -o '10[.0-9]*/' ";
    let ended = Job::through(NETNS, &nodes.names()).with(&["--label"]).script(4, address).run();
    let expected =
        [(0, 1), (1, 1), (2, 2), (3, 3)].map(|(rank, host)| format!("[{rank}] 10.78.0.{host}/"));
    assert_eq!((ended.status, ended.sorted()), (0, expected.iter().map(String::as_str).collect()));

    let job = Job::through(NETNS, &nodes.names()).with(&["--network", "eth7", "-n", "4", "true"]);
    let ended = job.run();
    let why = "no address of this host fits eth7; there are ";
    assert!(ended.status == 1 && ended.err.contains(why), "{}", ended.err);
    assert!(ended.err.starts_with(&format!("taffrail: node {}n", nodes.id)), "{}", ended.err);

    let job = Job::through(NETNS, &nodes.names()).script(4, "sleep 300 & wait");
    let mut child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 4));
    child.kill().unwrap();
    child.wait().unwrap();
    job.assert_nothing_left("in namespaces, after the launcher was killed");
}
