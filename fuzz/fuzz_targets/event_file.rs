//! An event file that anything has happened to: refused, or read as exactly what its bytes say.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_logging::store::{FILE_HEADER, Owner, file_header, read_events};

const OWNER: Owner = Owner { rank: 1, job: 2 };

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // And with a header that is right, which no search finds soon.
    check(&[&file_header(OWNER), bytes].concat());
});

fn check(bytes: &[u8]) {
    let Ok(events) = read_events(OWNER, "fuzzed", bytes) else { return };
    let records = events.iter().flat_map(|one| one.event.encode(OWNER.rank, one.clock));
    assert!(records.eq(bytes[FILE_HEADER..].iter().copied()), "{events:?}");
    assert!((1..).zip(&events).all(|(clock, one)| one.clock == clock), "{events:?}");
}
