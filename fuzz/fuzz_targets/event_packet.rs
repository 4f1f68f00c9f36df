//! A packet to or from the event logger: read or refused, and what is read is written as the same
//! bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_launch::eventlog::{Packet, decode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = decode(bytes) else { return };
    assert_eq!(packet.encode(), bytes);
    if let Packet::Serve { capacity, .. } = packet {
        assert!(capacity.is_power_of_two(), "{capacity}");
    }
});
