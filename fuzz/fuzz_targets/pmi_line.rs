//! A line of PMI-1 from whatever program: read or refused, and what is read can be written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail::pmi::parse;

fuzz_target!(|line: &[u8]| {
    let Ok(message) = parse(line) else { return };
    // Reading is more tolerant than writing.
    if let Ok(written) = message.to_line() {
        assert_eq!(parse(written.as_bytes()).as_ref(), Ok(&message), "{written:?}");
    }
});
