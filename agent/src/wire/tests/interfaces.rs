//! Interfaces in HELLO.

use super::*;
use crate::network::{HostAddress, INTERFACES_MAX};

pub fn any_one() -> impl Strategy<Value = HostAddress> {
    ("[a-z0-9]{1,15}", any::<std::net::IpAddr>(), 0u8..=32)
        .prop_map(|(interface, address, prefix)| HostAddress { interface, address, prefix })
}

fn a_hello(addresses: &[&str]) -> Frame {
    let one = |address: &&str| HostAddress {
        interface: "eth0".into(),
        address: address.parse().unwrap(),
        prefix: 24,
    };
    Frame::Hello(Hello { interfaces: addresses.iter().map(one).collect(), ..Hello::default() })
}

#[test]
fn interfaces_are_what_a_kernel_has() {
    // The bytes of the specification.
    let bytes = a_hello(&["10.0.0.1", "fd00::1"]).encode().unwrap();
    assert_eq!(bytes[36..48], *b"\x02\0\0\0\x04\x18\x04\0eth0");
    assert_eq!(bytes[48..62], *b"\x0a\0\0\x01\x06\x18\x04\0eth0\xfd\0");

    let good = a_hello(&["10.0.0.1"]).encode().unwrap();
    for (at, byte, field) in [
        (40, 5, "family"),
        (40, 6, "address"),
        (41, 33, "prefix"),
        (42, 0, "name of an interface"),
        (36, 2, "interfaces"),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(decode(&bad, Direction::Up).unwrap_err().field, field, "{at}");
    }
    for (count, is_good) in [(INTERFACES_MAX, true), (INTERFACES_MAX + 1, false)] {
        let bytes = a_hello(&vec!["10.0.0.1"; count]).encode().unwrap();
        assert_eq!(decode(&bytes, Direction::Up).is_ok(), is_good);
    }
}
