//! Messages of any length are written, leave the memory, and come back.

use super::*;
use crate::log::host::vectors::SpillMap;
use proptest::prelude::*;
use taffrail_fabric::loopback::mesh;
use taffrail_logging::{Entry, Outbound, Received};

mod read_late;

const SIZE: usize = 64 << 10;
const INLINE: usize = 200;
const PIECE: usize = 16 << 10;

/// Calls again until nothing is waited for any more.
fn until<T>(mut call: impl FnMut() -> Result<T, NotNow>) -> Result<T, Error> {
    for _ in 0..10_000 {
        match call() {
            Ok(result) => return Ok(result),
            Err(NotNow::Failed(error)) => return Err(error),
            Err(NotNow::Waits) => {}
        }
    }
    panic!("it waits for ever")
}

/// All that is written to the file ends.
fn end_writes(payload_log: &mut PayloadLog<SpillMap>, memory: &mut impl SendMemory) {
    while payload_log.spilled.under_way() > 0 {
        payload_log.reap(memory);
    }
    assert_eq!(payload_log.failed, None);
}

/// Writes a message as a send does.
fn keep(
    payload_log: &mut PayloadLog<SpillMap>,
    memory: &mut impl SendMemory,
    bytes: &[u8],
) -> LogEntry {
    let len = bytes.len();
    until(|| payload_log.prepare(memory, len, PIECE)).unwrap();
    let mut kept = LogEntry::new(0, len, len > PIECE, false, 0x2bcd);
    let skew = taffrail_fabric::skew(&[bytes], len);
    kept.at = if len <= INLINE {
        payload_log.begin_short(len)
    } else if len <= PIECE {
        payload_log.begin_whole(len, skew)
    } else {
        payload_log.begin_fragments(memory, len, skew)
    };
    let begin = kept.at as usize + kept.prefix();
    assert!(len <= INLINE || begin % LINE == skew);
    let mut left = bytes;
    while !left.is_empty() {
        let now = left.len().min(PIECE).min(payload_log.room());
        assert_eq!(payload_log.write(memory, &left[..now]), now);
        left = &left[now..];
    }
    kept
}

fn read(
    payload_log: &mut PayloadLog<SpillMap>,
    memory: &mut impl SendMemory,
    kept: &LogEntry,
) -> Vec<u8> {
    let (mut at, end) = (kept.at, kept.at + kept.bytes() as u64);
    let mut bytes = Vec::new();
    while at < end {
        until(|| payload_log.bring_back(memory, at)).unwrap();
        let LogRange { segment, at: from, len } = payload_log.range(at, (end - at) as usize, PIECE);
        bytes.extend_from_slice(memory.read(segment, from, len));
        at += len as u64;
        assert!(kept.prefix() > 0 || at == end, "in one range");
    }
    if kept.prefix() > 0 {
        assert_eq!(bytes.drain(..PREFIX).as_slice(), (kept.len() as u64).to_le_bytes());
    }
    bytes
}

fn bytes(k: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + k) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read(
        lens in prop::collection::vec(
            prop_oneof![0..300usize, 0..20_000usize, 0..300_000usize], 1..60,
        ),
        segments in 12usize..40,
    ) {
        let mut memory = mesh(1).remove(0);
        let mut payload_log = PayloadLog::new(SIZE, segments * SIZE, SpillMap::default());
        let mut kept: Vec<LogEntry> = Vec::new();
        for (k, &len) in lens.iter().enumerate() {
            kept.push(keep(&mut payload_log, &mut memory, &bytes(k, len)));
            prop_assert!(payload_log.in_memory() <= segments);
            // Something is sent again in between.
            let again = k * 7 % (k + 1);
            let same = read(&mut payload_log, &mut memory, &kept[again]) == bytes(again, lens[again]);
            prop_assert!(same, "message {} after {}", again, k);
        }
        for (k, (&len, kept)) in lens.iter().zip(&kept).enumerate().rev() {
            prop_assert!(read(&mut payload_log, &mut memory, kept) == bytes(k, len), "message {}", k);
            prop_assert!(payload_log.in_memory() <= segments);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is released makes room; what is not stays as it was, in memory or in the file.
    #[test]
    fn what_was_not_released_is_read(
        steps in prop::collection::vec(
            (prop_oneof![0..300usize, 0..20_000usize, 0..300_000usize], 0..6u8, any::<u16>()), 1..90,
        ),
        segments in 12usize..40,
    ) {
        let mut memory = mesh(1).remove(0);
        let mut payload_log = PayloadLog::new(SIZE, segments * SIZE, SpillMap::default());
        let mut kept: Vec<(usize, usize, LogEntry)> = Vec::new();
        for (k, (len, released, which)) in steps.into_iter().enumerate() {
            kept.push((k, len, keep(&mut payload_log, &mut memory, &bytes(k, len))));
            for _ in 0..released.min(2) {
                // Mostly the oldest, as collection does.
                let at = if released > 4 { which as usize % kept.len().max(1) } else { 0 };
                if at < kept.len() {
                    let (_, _, kept) = kept.remove(at);
                    payload_log.release_bytes(&mut memory, kept.at, kept.bytes());
                }
            }
            payload_log.release_empty(&mut memory);
            prop_assert!(payload_log.in_memory() <= segments);
            for &(k, len, ref kept) in kept.iter().skip(which as usize % 7).step_by(7) {
                prop_assert!(read(&mut payload_log, &mut memory, kept) == bytes(k, len), "message {}", k);
            }
        }
        for (_, _, kept) in kept.drain(..) {
            payload_log.release_bytes(&mut memory, kept.at, kept.bytes());
        }
        end_writes(&mut payload_log, &mut memory);
        payload_log.release_empty(&mut memory);
        prop_assert_eq!(payload_log.live, 0);
        let left = payload_log.segments.iter().filter(|held| !held.is_given_up()).count();
        prop_assert!(left <= 1 + payload_log.spilled.under_way(), "the last, and what is being written");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In whatever runs messages are released, nothing of them is left.
    #[test]
    fn runs_are_released_whole(
        lens in prop::collection::vec((prop_oneof![0..300usize, 0..300_000usize], 1..130usize), 1..8),
    ) {
        let mut memory = mesh(1).remove(0);
        let mut payload_log = PayloadLog::new(SIZE, 1 << 30, SpillMap::default());
        let (mut outbound, mut k) = (Outbound::new(2, true), 0);
        for (len, count) in lens {
            for _ in 0..if len > 300 { count % 8 } else { count } {
                let payload = keep(&mut payload_log, &mut memory, &bytes(k, len));
                outbound.keep(1, Entry { context: 0, seq: k as u32, payload });
                k += 1;
            }
        }
        let committed = Received { channels: vec![(0, k as u32)], missing: Vec::new() };
        for run in outbound.collect(1, &committed) {
            payload_log.release(&mut memory, run);
        }
        payload_log.release_empty(&mut memory);
        prop_assert_eq!(payload_log.live, 0);
        let left = payload_log.segments.iter().filter(|held| !held.is_given_up()).count();
        prop_assert!(left <= 1, "{} segments are left", left);
    }
}

#[test]
fn a_log_that_is_collected_goes_round_in_the_same_memory() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 100 * SIZE, SpillMap::default());
    let mut kept = VecDeque::new();
    for k in 0..2000 {
        kept.push_back(keep(&mut payload_log, &mut memory, &bytes(k, 10_000)));
        if kept.len() > 12 {
            let first = kept.pop_front().unwrap();
            payload_log.release_bytes(&mut memory, first.at, first.bytes());
        }
        assert!(payload_log.segments.len() <= 4 && payload_log.in_memory() <= 6, "message {k}");
    }
}

#[test]
fn the_first_message_may_be_empty() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 4 * SIZE, SpillMap::default());
    let kept = keep(&mut payload_log, &mut memory, &[]);
    assert_eq!((kept.at, read(&mut payload_log, &mut memory, &kept)), (0, Vec::new()));
}

/// Writes a message that does not fit into memory.
fn keep_long(
    payload_log: &mut PayloadLog<SpillMap>,
    memory: &mut impl SendMemory,
    bytes: &[u8],
) -> Result<LogEntry, Error> {
    assert!(!payload_log.fits_at_once(bytes.len()));
    let kept = LogEntry::new(0, bytes.len(), true, false, 0x2bcd);
    until(|| payload_log.write_again(memory, &kept, bytes, false))
}

#[test]
fn messages_of_many_times_the_memory_are_logged_and_read() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 6 * SIZE, SpillMap::default());
    let mut all = vec![(keep(&mut payload_log, &mut memory, &[7; SIZE]), vec![7; SIZE])];
    for (k, len) in [(1, 9 * SIZE), (2, 40 * SIZE + 1), (3, 5 * SIZE - 8), (4, 100 * SIZE)] {
        let bytes = bytes(k, len);
        all.push((keep_long(&mut payload_log, &mut memory, &bytes).unwrap(), bytes));
        all.push((keep(&mut payload_log, &mut memory, &[k as u8; 99]), vec![k as u8; 99]));
        assert!(
            payload_log.in_memory() + payload_log.spilled.under_way() <= payload_log.most,
            "message {k}"
        );
    }
    for _ in 0..2 {
        for (kept, bytes) in &all {
            assert!(read(&mut payload_log, &mut memory, kept) == *bytes, "{} bytes", bytes.len());
            assert!(payload_log.in_memory() + payload_log.spilled.under_way() <= payload_log.most);
        }
    }
    for (kept, _) in &all {
        payload_log.release_bytes(&mut memory, kept.at, kept.bytes());
    }
    end_writes(&mut payload_log, &mut memory);
    payload_log.release_empty(&mut memory);
    let left = payload_log.segments.iter().filter(|held| !held.is_given_up()).count();
    assert!(left <= 1, "{left} segments are left");
}

#[test]
fn a_long_message_that_a_full_disk_does_not_take_leaves_what_was_logged() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 8 * SIZE, SpillMap::default());
    payload_log.spilled.spill.refuses = true;
    let kept = keep(&mut payload_log, &mut memory, &[7; 1000]);
    let live = payload_log.segments.iter().map(|held| held.live).sum::<u32>() + payload_log.live;
    let error = keep_long(&mut payload_log, &mut memory, &bytes(1, 40 * SIZE)).unwrap_err();
    let said = "the log of sent messages: writing to its file failed: no storage space";
    assert!(error.to_string().starts_with(said), "{error}");
    assert!(read(&mut payload_log, &mut memory, &kept) == vec![7; 1000]);
    assert_eq!(
        payload_log.segments.iter().map(|held| held.live).sum::<u32>() + payload_log.live,
        live
    );
}

/// Bytes of the log in memory, as the store has noted it.
fn noted(payload_log: &PayloadLog<SpillMap>) -> usize {
    payload_log.spilled.spill.in_memory.borrow().len()
}

#[test]
fn a_write_that_fails_leaves_its_segment_in_memory() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 8 * SIZE, SpillMap::default());
    payload_log.spilled.spill.fails_each = 3;
    let (mut kept, mut refused) = (Vec::new(), 0);
    for k in 0..40 {
        let bytes = bytes(k, 15_000);
        // What is refused is refused before anything of it is logged.
        match until(|| payload_log.prepare(&mut memory, bytes.len(), PIECE)) {
            Ok(()) => kept.push((keep(&mut payload_log, &mut memory, &bytes), bytes)),
            Err(error) => {
                let said = "the log of sent messages: writing to its file failed: no storage space";
                assert!(error.to_string().starts_with(said), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && kept.len() > 8, "{refused} refused, {} kept", kept.len());
    payload_log.spilled.spill.fails_each = 0;
    for (kept, bytes) in &kept {
        assert!(read(&mut payload_log, &mut memory, kept) == *bytes);
    }
    // Every segment is where the next process of the rank would look for it.
    for (number, held) in (payload_log.first..).zip(&payload_log.segments) {
        let is_spilled = payload_log.spilled.spill.spilled.borrow().contains(&number);
        let is_noted = payload_log.spilled.spill.in_memory.borrow().values().any(|n| *n == number);
        assert_eq!((held.in_file, held.segment.is_some()), (is_spilled, is_noted), "{number}");
    }
    assert!(noted(&payload_log) <= 8, "{} segments in memory", noted(&payload_log));
}

#[test]
fn a_segment_that_cannot_be_read_back_is_an_error_that_takes_no_memory() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 4 * SIZE, SpillMap::default());
    let all: Vec<LogEntry> =
        (0..30).map(|k| keep(&mut payload_log, &mut memory, &bytes(k, 15_000))).collect();
    payload_log.spilled.spill.is_unreadable = true;
    for _ in 0..10 {
        let back = until(|| payload_log.bring_back(&mut memory, all[0].at));
        let error = back.unwrap_err();
        let said = "the log of sent messages: reading its file failed: unexpected end of file";
        assert!(error.to_string().starts_with(said), "{error}");
        let error = until(|| payload_log.read(&mut memory, all[0].at, 8)).unwrap_err();
        assert!(error.to_string().starts_with(said), "{error}");
    }
    payload_log.spilled.spill.is_unreadable = false;
    for (k, kept) in all.iter().enumerate() {
        assert!(read(&mut payload_log, &mut memory, kept) == bytes(k, 15_000), "message {k}");
    }
}

#[test]
fn a_read_that_nobody_needs_any_more_is_no_full_log() {
    let mut memory = mesh(1).remove(0);
    let mut payload_log = PayloadLog::new(SIZE, 4 * SIZE, SpillMap::default());
    let all: Vec<LogEntry> =
        (0..30).map(|k| keep(&mut payload_log, &mut memory, &bytes(k, 15_000))).collect();
    end_writes(&mut payload_log, &mut memory);
    // One read or write at a time, which is a read of a segment that is then given up.
    payload_log.spilled.spill.at_once = 1;
    while payload_log.spilled.reads(SIZE) == 0 {
        assert_eq!(payload_log.bring_back(&mut memory, all[0].at), Err(NotNow::Waits));
    }
    payload_log.spilled.spill.ends_by_hand = true;
    let segment = all[0].at / SIZE as u64;
    for kept in all.iter().filter(|kept| kept.at / SIZE as u64 == segment) {
        payload_log.release_bytes(&mut memory, kept.at, kept.bytes());
    }
    assert_eq!(payload_log.spilled.reads(SIZE), 0, "the segment was given up");
    let mut room = payload_log.prepare(&mut memory, 15_000, PIECE);
    while room.is_ok() {
        keep(&mut payload_log, &mut memory, &bytes(1, 15_000));
        room = payload_log.prepare(&mut memory, 15_000, PIECE);
    }
    assert_eq!(room, Err(NotNow::Waits), "not full");
    payload_log.spilled.spill.ends_by_hand = false;
    keep(&mut payload_log, &mut memory, &bytes(1, 15_000));
    assert!(read(&mut payload_log, &mut memory, &all[29]) == bytes(29, 15_000));
}
