//! What Taffrail is meant to reach between two nodes, and whether it does.

use super::results::{Figure, Part, Results, What};
use crate::table::bytes;
use crate::verdict::{Bound, Verdict};

/// Size and greatest time relative to a plain socket whose readers spin.
const BY_SOCKET: [(usize, f64); 3] = [(8, 1.15), (64 << 10, 1.10), (1 << 20, 1.10)];
/// Sizes at which no MPI over sockets is to be faster.
const BY_MPI: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
/// Sizes at which a log may not cost more than 5 % of the bandwidth.
const LONG: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// Every target of the comparison, judged; those of sizes that were left out are left out.
pub fn judge_comparison(results: &Results) -> Vec<Verdict> {
    let sizes = results.sizes();
    let mut verdicts = Vec::new();
    for (size, bound) in BY_SOCKET.into_iter().filter(|(size, _)| sizes.contains(size)) {
        for (part, name) in [(Part::BySocket, ""), (Part::LowBySocket, ", low")] {
            verdicts.push(Verdict {
                target: format!("{}, relative to a plain socket{name}", bytes(size)),
                unit: "x",
                wanted: Bound::AtMost(bound),
                got: results.time_us(size, Figure(What::Taffrail, part)).map(|of| of.median),
            });
        }
    }
    for size in BY_MPI.into_iter().filter(|size| sizes.contains(size)) {
        for what in [What::OpenMpi, What::Mpich] {
            verdicts.push(relative(results, size, (What::Taffrail, what), Bound::AtMost(1.0)));
        }
    }
    verdicts
}

/// Every target of logging, judged; those of sizes that were left out are left out.
pub fn judge_logging(results: &Results) -> Vec<Verdict> {
    let sizes = results.sizes();
    let mut all = vec![(8, What::Named, Bound::AtMost(1.10))];
    all.extend(LONG.map(|size| (size, What::Named, Bound::AtLeast(0.95))));
    all.extend(LONG.map(|size| (size, What::Reserved, Bound::AtLeast(0.95))));
    // MPICH-V2 has 3.1 times, and 0.95 of the bandwidth.
    all.push((8, What::Every, Bound::AtMost(2.0)));
    all.push((1 << 20, What::Every, Bound::AtLeast(0.95)));
    all.push((8, What::Causal, Bound::AtMost(1.10)));
    all.retain(|(size, ..)| sizes.contains(size));
    let judged = |(size, what, bound)| relative(results, size, (what, What::Taffrail), bound);
    all.into_iter().map(judged).collect()
}

/// Of times, or of bandwidth where a least one is wanted.
fn relative(results: &Results, size: usize, (what, to): (What, What), wanted: Bound) -> Verdict {
    let [ours, theirs] = [what, to].map(|what| (size, Figure(what, Part::Median)));
    let (of, got) = match wanted {
        Bound::AtMost(_) => ("", results.ratio(ours, theirs)),
        Bound::AtLeast(_) => (" bandwidth", results.ratio(theirs, ours)),
    };
    Verdict {
        target: format!("{}{of}, {} relative to {}", bytes(size), what.name(), to.name()),
        unit: "x",
        wanted,
        got: got.map(|ratio| ratio.median),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::{add, add_by_socket};
    use super::*;
    use crate::stats::Spread;

    fn spread(us: f64) -> Spread {
        Spread { median: us, p1: us, p99: us, samples: 100 }
    }

    fn met(verdicts: &[Verdict]) -> Vec<Option<bool>> {
        verdicts.iter().map(Verdict::met).collect()
    }

    #[test]
    fn the_comparison_is_judged_by_the_socket_that_took_turns() {
        let mut results = Results::default();
        results.begin_round();
        add(&mut results, 8, What::Taffrail, Ok(spread(11.0)));
        add_by_socket(&mut results, 8, What::Taffrail, spread(11.0), spread(10.0));
        // That of another job does not count.
        add(&mut results, 8, What::Socket, Ok(spread(5.0)));
        add(&mut results, 8, What::OpenMpi, Ok(spread(12.0)));
        assert_eq!(met(&judge_comparison(&results)), [Some(true), Some(true), Some(true), None]);
        add_by_socket(&mut results, 8, What::Taffrail, spread(12.0), spread(10.0));
        add(&mut results, 8, What::Mpich, Ok(spread(10.0)));
        let got = met(&judge_comparison(&results));
        assert_eq!(got[3], Some(false), "{got:?}");
    }

    #[test]
    fn logging_is_judged_by_latency_and_bandwidth() {
        let mut results = Results::default();
        results.begin_round();
        for (what, short, long) in [
            (What::Taffrail, 10.0, 100.0),
            (What::Named, 10.9, 104.0),
            (What::Reserved, 10.0, 106.0),
            (What::Every, 21.0, 104.0),
            (What::Causal, 10.5, 104.0),
        ] {
            add(&mut results, 8, what, Ok(spread(short)));
            add(&mut results, 1 << 20, what, Ok(spread(long)));
        }
        let verdicts = judge_logging(&results);
        let expected = [true, true, false, false, true, true].map(Some);
        assert_eq!(met(&verdicts), expected, "{verdicts:?}");
        assert_eq!(verdicts[1].target, "1 MiB bandwidth, named receives relative to Taffrail");
    }
}
