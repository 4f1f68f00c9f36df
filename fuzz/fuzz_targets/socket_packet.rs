//! A packet from whoever connected: read or refused, and what is read is written as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_shm::fuzzing::{Address, Hello, Notice, decode_hello, decode_notice};

fuzz_target!(|packet: &[u8]| {
    let hello = decode_hello(packet);
    if let Ok(hello) = &hello {
        assert_eq!(hello.encode(), packet);
        assert!(hello.rank < hello.ranks, "{hello:?}");
        if hello.open {
            assert!(hello.peer_slot < hello.ranks && hello.peer_slot != hello.rank, "{hello:?}");
        } else {
            assert_eq!(hello.peer_slot, 0, "{hello:?}");
        }
        let address = hello.address.as_str();
        assert!((1..=Address::MAX_LEN).contains(&address.len()), "{hello:?}");
        assert_eq!(Address::parse(address.as_bytes()), Ok(hello.address));
    }
    let notice = decode_notice(packet);
    if let Ok(notice) = &notice {
        assert_eq!(notice.encode(), packet);
        if let Notice::Region { region, len, used } = *notice {
            assert!(region != 0 && used <= len && used > 0, "{notice:?}");
        }
    }
    assert!(hello.is_err() || notice.is_err(), "{} bytes are both", Hello::LEN);
});
