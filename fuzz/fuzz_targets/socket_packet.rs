//! A packet from whoever connected: read or refused, and what is read is written as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_shm::fuzzing::{Hello, Notice, decode_hello, decode_notice};

fuzz_target!(|packet: &[u8]| {
    let hello = decode_hello(packet);
    if let Ok(hello) = &hello {
        assert_eq!(hello.encode(), packet);
        assert!(hello.rank < hello.ranks, "{hello:?}");
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
