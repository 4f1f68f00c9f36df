//! A tuning file from wherever: read or refused, what is read is written and read as the same, and
//! what it says of costs are times.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail::Error;
use taffrail::fuzzing::read_tuning;

fuzz_target!(|text: &str| {
    let tuning = match read_tuning(text) {
        Ok(tuning) => tuning,
        Err(Error::Tuning { key, why, .. }) => return assert!(!key.is_empty() && !why.is_empty()),
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(read_tuning(&tuning.to_text("written\nagain")).as_ref(), Ok(&tuning));
    assert!((64 << 10..=1 << 20).contains(&tuning.eager_max), "{tuning:?}");
    assert!((4 << 10..=64 << 10).contains(&tuning.piece), "{tuning:?}");
    let costs = tuning.costs().expect("the file was believed");
    for cost in [costs.outbox, costs.streaming, costs.kernel, costs.mapped] {
        for len in [0, 1, 4096, 65536, 65537, 1 << 20, 1 << 40, usize::MAX] {
            assert!(cost.of(len) >= 0.0, "{len} bytes take {} ns: {tuning:?}", cost.of(len));
        }
    }
});
