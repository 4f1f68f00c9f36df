//! What logging may cost, and whether it does not cost more.

use super::results::{Results, What};
use crate::rounds::Named;
use crate::table::bytes;
use crate::verdict::{Bound, Verdict};

/// What, at which size, at most how many times the time of what.
const TIMES: [(What, usize, f64, What); 8] = [
    (What::Elided, 8, 1.02, What::Plain),
    (What::Elided, 1 << 20, 1.02, What::Plain),
    (What::SenderBased, 8, 1.10, What::Plain),
    (What::SenderBased, 4 << 10, 1.50, What::Plain),
    (What::SenderBased, 64 << 10, 0.50, What::OpenMpi),
    (What::SenderBased, 1 << 20, 0.80, What::OpenMpi),
    (What::AnySourceEvents, 8, 1.25, What::AnySource),
    (What::AnySourceProcess, 8, 1.25, What::AnySource),
];

/// From this size on, the bytes of the log are what takes time.
const LONG: usize = 64 << 10;
/// At which rate they are to be sent, relative to that at which they can be stored.
const OF_THE_LIMIT: f64 = 0.85;

/// What a log with checkpoints may cost at any size, relative to no logging.
const COLLECTED: f64 = 1.15;

/// Every target, judged; those of sizes that were left out are left out.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let sizes = results.sizes();
    let mut verdicts = Vec::new();
    let collected = sizes.iter().map(|&size| (What::Collected, size, COLLECTED, What::Plain));
    let times = TIMES.into_iter().filter(|(_, size, ..)| sizes.contains(size));
    for (what, size, bound, to) in times.chain(collected) {
        verdicts.push(Verdict {
            target: format!("{}, {}, relative to {}", bytes(size), what.name(), to.name()),
            unit: "x",
            wanted: Bound::AtMost(bound),
            got: results.ratio((size, what), (size, to)).map(|ratio| ratio.median),
        });
    }
    for size in sizes.into_iter().filter(|&size| size >= LONG) {
        let ratio = results.ratio((size, What::StoredFresh), (size, What::SenderBased));
        verdicts.push(Verdict {
            target: format!("{}, sender-based, of the rate of stores", bytes(size)),
            unit: "x",
            wanted: Bound::AtLeast(OF_THE_LIMIT),
            got: ratio.map(|ratio| ratio.median),
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_judged_by_the_rate_of_stores() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(8, What::Plain, Ok(0.2));
        results.add_time(8, What::SenderBased, Ok(0.21));
        results.add_time(8, What::Collected, Ok(0.22));
        results.add_time(4096, What::Plain, Ok(1.0));
        results.add_time(4096, What::Collected, Ok(1.16));
        for (size, us) in [(4096, 9.0), (65536, 90.0), (1 << 20, 110.0)] {
            results.add_time(size, What::StoredFresh, Ok(85.0));
            results.add_time(size, What::SenderBased, Ok(us));
        }
        let verdicts = judge(&results);
        let said = |part: &str| {
            let found = verdicts.iter().find(|v| v.target.starts_with(part));
            found.unwrap_or_else(|| panic!("{part}: {verdicts:?}")).met()
        };
        assert_eq!(said("8 B, sender-based"), Some(true));
        assert_eq!(said("64 KiB, sender-based, of the rate"), Some(true));
        assert_eq!(said("1 MiB, sender-based, of the rate"), Some(false));
        assert_eq!(said("1 MiB, sender-based, relative to Open MPI"), None);
        assert_eq!(said("8 B, collected, relative to no logging"), Some(true));
        assert_eq!(said("4 KiB, collected, relative to no logging"), Some(false));
        assert_eq!(said("64 KiB, collected, relative to no logging"), None);
        assert!(!verdicts.iter().any(|v| v.target.starts_with("4 KiB, sender-based, of the rate")));
        assert!(!verdicts.iter().any(|v| v.target.contains("256 KiB")));
    }
}
