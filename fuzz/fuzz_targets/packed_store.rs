//! A packed store that anything has happened to: refused, or read event by event, with clocks without gaps.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_logging::store::{Owner, Unpacked, packed_header};

const OWNER: Owner = Owner { rank: 1, job: 2 };

fuzz_target!(|bytes: &[u8]| {
    check(bytes.to_vec());
    // And with a header and sums that are right, which no search finds soon.
    let (mut whole, mut rest, mut clock) = (packed_header(OWNER).to_vec(), bytes, 1);
    while let [count, len, behind @ ..] = rest {
        let (events, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        whole.extend(block(clock, *count, events));
        (rest, clock) = (behind, clock + u64::from(*count));
    }
    check(whole);
});

/// A block that says that these bytes are so many events.
fn block(clock: u64, count: u8, events: &[u8]) -> Vec<u8> {
    let len = events.len() as u32;
    let mut block = [len.to_le_bytes(), u32::from(count).to_le_bytes()].concat();
    block.extend(clock.to_le_bytes());
    let sum = crc32c::crc32c_append(OWNER.rank, &block);
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &[0; 4]), events);
    block.extend(sum.to_le_bytes());
    block.extend([0; 4]);
    block.extend(events);
    block
}

fn check(bytes: Vec<u8>) {
    let Ok(events) = Unpacked::new(OWNER, "fuzzed", bytes) else { return };
    let last = events.last_clock();
    assert!(events.map(|one| one.clock).eq(1..=last));
}
