//! The network of the job, where the user has named none.

use super::*;
use crate::network::HostAddress;

/// What the agent of a host says that has a bridge as all have, and these addresses of networks 10.N.0.0/24.
fn hello(addresses: &[[u8; 2]]) -> Frame {
    let one = |address: [u8; 4], prefix| HostAddress {
        interface: "eth0".into(),
        address: address.into(),
        prefix,
    };
    let own = addresses.iter().map(|[net, host]| one([10, *net, 0, *host], 24));
    let interfaces = [one([172, 17, 0, 1], 16)].into_iter().chain(own).collect();
    Frame::Hello(Hello { interfaces, ..Hello::default() })
}

/// The networks that agents are sent.
fn networks(actions: &[Action]) -> Vec<(NodeId, &str)> {
    let network = |action| match action {
        &Action::Send(node, Frame::Network { ref network }) => Some((node, network.as_str())),
        _ => None,
    };
    actions.iter().filter_map(network).collect()
}

/// A job on a and b, which is about to start its ranks, and what that took. A spare that is started for copies is up before them.
fn chosen(config: Config, spare: Option<Frame>) -> (Launcher, Vec<Action>) {
    let mut launcher = Launcher::new(config).unwrap();
    at(&mut launcher, 0, Event::Begin);
    let mut first = from(&mut launcher, 0, hello(&[[1, 1], [2, 1]]));
    if let Some(spare) = spare {
        first.extend(from(&mut launcher, 2, spare));
    }
    assert_eq!(networks(&first), [], "not all are up");
    let actions = from(&mut launcher, 1, hello(&[[2, 2]]));
    (launcher, actions)
}

#[test]
fn all_nodes_get_a_network_that_they_have() {
    let (mut launcher, actions) = chosen(config("a:2,b:2,c:2", 4), None);
    assert_eq!(networks(&actions), [(0, "10.2.0.0/24"), (1, "10.2.0.0/24")]);
    let reported = |action: &&Action| matches!(action, Action::Report(Report::Network(_)));
    assert_eq!(actions.iter().filter(reported).count(), 1);
    from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] });
    let late = from(&mut launcher, 2, hello(&[[2, 3]]));
    assert_eq!(networks(&late), [(2, "10.2.0.0/24")]);
}

#[test]
fn a_network_that_is_named_is_not_chosen() {
    let named = Config { network: "eth0".into(), ..config("a:2,b:2", 4) };
    let mut launcher = Launcher::new(named).unwrap();
    at(&mut launcher, 0, Event::Begin);
    for node in [0, 1] {
        let actions = from(&mut launcher, node, hello(&[[1, node as u8]]));
        assert_eq!(networks(&actions), [(node, "eth0")]);
        assert_eq!(sent(&actions)[..2], [(node, "WELCOME"), (node, "NETWORK")]);
    }
}

#[test]
fn a_host_outside_of_the_network_is_passed_over() {
    let says = |actions: &[Action]| {
        let is_note = |action: &Action| match action {
            Action::Report(Report::Note { node: 2, text, .. }) => text.contains("10.2.0.0/24"),
            _ => false,
        };
        actions.iter().any(is_note)
    };
    let logging = Logging {
        protocol: LoggingProtocol::Pessimistic,
        events: EventKind::All,
        durability: Durability::Copies(2),
        memory: 0,
        sets: vec![0, 0, 1, 1],
    };
    let config = Config { logging: Some(logging), ..config("a:2,b:2,c:2", 4) };
    let (mut launcher, actions) = chosen(config.clone(), None);
    assert_eq!(networks(&actions).len(), 2);
    // It is the first choice for the copies of both.
    let started = store(&mut launcher, 0);
    let late = from(&mut launcher, 2, hello(&[[1, 3]]));
    assert!(says(&late) && networks(&late).is_empty(), "{late:?}");
    assert!(late.contains(&Action::Close(2)) && started.is_empty());
    assert_eq!(orders(&late), [(1, 1, 0)]);
    assert_eq!(store(&mut launcher, 1), [(0, 2, 1)]);

    let (mut launcher, actions) = chosen(config, Some(hello(&[[1, 3]])));
    assert_eq!(networks(&actions).len(), 2);
    assert!(says(&actions) && sent(&actions).contains(&(2, "FAREWELL")), "{actions:?}");
    store(&mut launcher, 0);
    store(&mut launcher, 1);
    let left = from(&mut launcher, 2, Frame::Goodbye { refused: [0; 5] });
    assert_eq!(orders(&left), [(0, 1, 1), (1, 2, 0)]);
}

/// A reliable host that is lost before the job has begun is not waited for.
#[test]
fn a_reliable_host_that_is_gone_has_no_say() {
    let reliable = Config { reliable: Some(2), ..config("a:2,b:2,c:2", 4) };
    let mut launcher = Launcher::new(reliable).unwrap();
    at(&mut launcher, 0, Event::Begin);
    from(&mut launcher, 0, hello(&[[1, 1], [2, 1]]));
    from(&mut launcher, 2, hello(&[[1, 3]]));
    from(&mut launcher, 2, Frame::Goodbye { refused: [0; 5] });
    let actions = from(&mut launcher, 1, hello(&[[2, 2]]));
    assert_eq!(networks(&actions), [(0, "10.2.0.0/24"), (1, "10.2.0.0/24")]);
}
