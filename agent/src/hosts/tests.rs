use super::*;
use proptest::prelude::*;

fn list(text: &str) -> Vec<(String, u32)> {
    let hosts: Hosts = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    hosts.0.into_iter().map(|host| (host.name, host.slots)).collect()
}

fn pairs(pairs: &[(&str, u32)]) -> Vec<(String, u32)> {
    pairs.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect()
}

#[test]
fn hosts_have_slots_behind_a_colon() {
    assert_eq!(list("a:2,b:3"), pairs(&[("a", 2), ("b", 3)]));
    assert_eq!(
        list("a, b-1.example ,10.0.0.1:4"),
        pairs(&[("a", 1), ("b-1.example", 1), ("10.0.0.1", 4)])
    );
    // One that comes again adds to its slots.
    assert_eq!(list("a:2,b,a"), pairs(&[("a", 3), ("b", 1)]));
    assert_eq!(
        list("me@a:2,[fe80::1%eth0]:3,u@[::1]"),
        pairs(&[("me@a", 2), ("fe80::1%eth0", 3), ("u@::1", 1)])
    );
}

#[test]
fn files_of_both_mpis_are_read() {
    let open_mpi = "# nodes\na slots=2 max_slots=4\n\n  b slots = 3 # two\nc\n";
    let hosts = Hosts::from_file(open_mpi).unwrap();
    assert_eq!(hosts.to_string(), "a:2, b:3, c:1");
    assert_eq!(hosts.slots(), 6);
    let mpich = Hosts::from_file("a:2\nb\na:1").unwrap();
    assert_eq!(mpich.to_string(), "a:3, b:1");
}

#[test]
fn what_is_no_host_is_named() {
    for (text, why) in [
        ("", "expected the name of a host, got \"\""),
        ("a,,b", "expected the name of a host, got \"\""),
        ("a:0", "expected a number of slots from 1 to 4096, got \"0\""),
        ("a:", "expected a number of slots from 1 to 4096, got \"\""),
        ("a:+2", "got \"+2\""),
        ("a:x", "got \"x\""),
        ("a:5000", "got \"5000\""),
        ("-oProxyCommand=x", "expected the name of a host"),
        ("u@-x", "expected the name of a host"),
        ("@a", "expected the name of a host"),
        ("a b", "expected the name of a host"),
        ("fe80::1", "expected the name of a host, got \"fe80::1\""),
        ("[::1]x", "expected the name of a host"),
        ("a:4000,b:97", "at most 1024 hosts with 4096 slots"),
    ] {
        let error = text.parse::<Hosts>().expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    for (text, why) in [
        ("# nothing\n", "expected a host, got none"),
        (
            "a\nb cpus=2",
            "line 2: expected slots=N or max_slots=N behind the name of a host, got \"cpus=2\"",
        ),
        ("a slots=3 max_slots=2", "line 1: expected max_slots of 3 or more, got 2"),
        ("a\n\nb slots=", "line 3: expected a number of slots"),
    ] {
        let error = Hosts::from_file(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let many = (0..=NODES_MAX).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
    assert_eq!(many.parse::<Hosts>().unwrap_err().problem, HostsProblem::TooMany);
}

fn a_host() -> impl Strategy<Value = Host> {
    let name = prop_oneof![
        "[a-z][a-z0-9.-]{0,20}",
        "[a-z]{1,8}@[a-z0-9]{1,8}",
        "[0-9a-f]{1,4}::[0-9a-f]{1,4}",
        "[a-z]{1,8}@[0-9a-f]{1,4}::[0-9a-f]{1,4}",
    ];
    (name, 1u32..50).prop_map(|(name, slots)| Host { name, slots })
}

/// As a user writes it.
fn written(host: &Host) -> String {
    match host.name.split_once('@') {
        Some((user, address)) if address.contains(':') => {
            format!("{user}@[{address}]:{}", host.slots)
        }
        _ => host.to_string(),
    }
}

proptest! {
    #[test]
    fn hosts_are_read_as_written(hosts in prop::collection::vec(a_host(), 1..20)) {
        let mut hosts = hosts;
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        hosts.dedup_by(|a, b| a.name == b.name);
        let words: Vec<String> = hosts.iter().map(written).collect();
        prop_assert_eq!(&words.join(",").parse::<Hosts>().unwrap().0, &hosts);
        prop_assert_eq!(&Hosts::from_file(&words.join("\n")).unwrap().0, &hosts);
    }

    /// Any text is read or refused, and whatever is read can be given to a starter.
    #[test]
    fn any_text_is_read_or_refused(text in "[-a-z0-9:,.@\\[\\] =#\n]{0,40}") {
        let read = [text.parse::<Hosts>(), Hosts::from_file(&text)];
        for host in read.into_iter().flatten().flat_map(|hosts| hosts.0) {
            prop_assert!(!host.name.starts_with('-') && !host.name.contains([' ', '\n', ',']));
            prop_assert!(host.slots >= 1);
            prop_assert_eq!(written(&host).parse::<Host>(), Ok(host));
        }
    }
}
