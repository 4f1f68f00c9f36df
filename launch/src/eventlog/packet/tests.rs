//! What is said is heard, and nothing else.

use super::*;

fn all() -> Vec<Packet> {
    let told = KINDS.map(|what| Packet::Told(Told::new(3, what, &"no space")));
    let mut all = vec![
        Packet::Serve { rank: 1, job: 0x1234, capacity: 4096, set: 7, members: 3 },
        Packet::Ready { rank: 2, kept: 7, cut: 31 },
        Packet::Fetch { rank: 3, epoch: 9 },
        Packet::Events { rank: 4, count: 64 },
        Packet::FetchCheckpoint { rank: 4, epoch: 2 },
        Packet::Checkpoint { rank: 4, number: 3, incarnation: 1 },
        Packet::Secret { node: 1, job: 0x1234, nodes: 3 },
        Packet::Listens { address: "10.0.0.1:80".into() },
        Packet::Copy { epoch: 2, node: 1, address: "10.0.0.1:80".into() },
        Packet::Bring { rank: 4, copy: 2, epoch: 3, node: 1, address: "10.0.0.1:80".into() },
        Packet::Copied { epoch: 2 },
        Packet::Lost { epoch: 2, why: "no route".into() },
    ];
    all.extend(told);
    all
}

#[test]
fn what_was_said_is_heard() {
    for packet in all() {
        assert_eq!(decode(&packet.encode()), Ok(packet));
    }
}

/// Flipped bits make an error, or a packet that says just these bytes; never a panic.
#[test]
fn whatever_comes_is_refused_or_is_exactly_this() {
    for packet in all() {
        let good = packet.encode();
        for len in 0..good.len() {
            assert!(decode(&good[..len]).is_err(), "{packet:?} of {len} bytes");
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = decode(&bytes) {
                assert_eq!(other.encode(), bytes);
            }
        }
    }
}

#[test]
fn the_field_that_is_wrong_is_named() {
    let with = |at: usize, byte| {
        let serve = Packet::Serve { rank: 1, job: 2, capacity: 4, set: 5, members: 6 };
        let mut bytes = serve.encode();
        bytes[at] = byte;
        decode(&bytes).unwrap_err().field
    };
    assert_eq!((with(0, 0), with(8, 1), with(24, 3)), ("set and members", "version", "capacity"));
    assert_eq!(with(36, 0), "members");
    let mut unknown = Packet::Fetch { rank: 1, epoch: 0 }.encode();
    unknown[0] = 0;
    assert_eq!(decode(&unknown).unwrap_err().field, "magic");
    let long = Told::new(1, What::Waiting, &"ä".repeat(TEXT));
    assert_eq!(long.text.len(), TEXT);
    assert_eq!(Packet::Told(long).encode().len(), LONGEST);
}
