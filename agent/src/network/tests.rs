use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn host(addresses: &[&str]) -> Vec<HostAddress> {
    let one = |(number, text): (usize, &&str)| {
        let (address, prefix) = text.split_once('/').unwrap();
        let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
        HostAddress { interface: format!("eth{number}"), address, prefix }
    };
    addresses.iter().enumerate().map(one).collect()
}

fn chosen(hosts: &[&[&str]]) -> Option<String> {
    let hosts: Vec<_> = hosts.iter().map(|addresses| host(addresses)).collect();
    let lists: Vec<_> = hosts.iter().map(Vec::as_slice).collect();
    choose(&lists).map(|network| network.to_string())
}

const DOCKER: &str = "172.17.0.1/16";

#[test]
fn the_network_is_one_of_all_hosts() {
    let some = |text: &str| Some(text.to_owned());
    let (a, b) = (["10.1.0.1/24", "10.2.0.1/24"], ["10.2.0.2/24", "10.1.0.2/24"]);
    assert_eq!(chosen(&[&a, &b]), some("10.1.0.0/24"), "the order of the first host");
    assert_eq!(chosen(&[&b, &a]), some("10.2.0.0/24"));
    let docker = [&[DOCKER, a[0]][..], &[DOCKER, b[1]]];
    assert_eq!(chosen(&docker), some("10.1.0.0/24"), "all have the same address in the first");
    assert_eq!(chosen(&[&a, &b, &["10.2.0.3/24"]]), some("10.2.0.0/24"), "one lacks the first");
    assert_eq!(chosen(&[&["fd00::1/64"], &["fd00::2/64", DOCKER]]), some("fd00::/64"));
    assert_eq!(chosen(&[&["10.1.0.1/8"], &["10.1.0.2/24"]]), None, "these are two networks");
    assert_eq!(chosen(&[&["10.1.0.1/32"], &["10.1.0.2/32"]]), None, "routed hosts");
    // What listens within 10.0.0.0/8 would take the address of a bridge that all have.
    let nested = [&["10.0.3.1/24", "10.1.0.1/8"][..], &["10.0.3.1/24", "10.1.0.2/8"]];
    assert_eq!(chosen(&nested), None);
    assert_eq!(chosen(&[&["0.0.0.1/0"], &["0.0.0.2/0"]]), some("0.0.0.0/0"));
}

#[test]
fn nodes_on_one_machine_have_no_network_between_them() {
    let (a, b) = (["10.1.0.1/24", DOCKER], ["10.1.0.2/24", DOCKER]);
    assert_eq!(chosen(&[&a, &a]), None);
    assert_eq!(chosen(&[&[], &[]]), None);
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&[&a, &a, &b]), Some("10.1.0.0/24".to_owned()), "two are on one machine");
}

fn any_host() -> impl Strategy<Value = Vec<HostAddress>> {
    let one = (0u8..3, 0u8..4, prop::sample::select(vec![16u8, 24]));
    vec(one, 0..5).prop_map(|all| {
        let address = |(net, number, prefix)| HostAddress {
            interface: format!("eth{net}"),
            address: IpAddr::from([10, net / 2, net, number]),
            prefix,
        };
        all.into_iter().map(address).collect()
    })
}

proptest! {
    #[test]
    fn what_is_chosen_leads_from_each_host_to_each_other_one(hosts in vec(any_host(), 0..5)) {
        let lists: Vec<_> = hosts.iter().map(Vec::as_slice).collect();
        let Some(network) = choose(&lists) else { return Ok(()) };
        for (number, one) in hosts.iter().enumerate() {
            // Where it listens.
            let listens = network.among(one).next();
            prop_assert!(listens.is_some() && network.has(one));
            let others = hosts[..number].iter().filter(|other| *other != one);
            for other in others {
                prop_assert!(network.among(other).all(|address| Some(address) != listens));
            }
        }
        let again: Vec<_> = lists.iter().rev().copied().collect();
        prop_assert!(choose(&again).is_some(), "whether there is one does not hang on the order");
    }
}
