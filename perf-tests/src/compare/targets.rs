//! What Taffrail is meant to reach, and whether it does.

use super::results::{Results, What};
use crate::machine::Distance;
use crate::peers;
use crate::table::bytes;
use crate::verdict::{Bound, Verdict};

/// Size and greatest time relative to Open MPI.
const AGAINST_OPEN_MPI: [(usize, f64); 7] = [
    (8, 0.65),
    (256, 0.8),
    (4 << 10, 0.2),
    (16 << 10, 0.3),
    (64 << 10, 0.3),
    (1 << 20, 0.33),
    (4 << 20, 0.5),
];

/// Greatest time relative to Open MPI, at every size, when the processors share no cache.
const FAR: f64 = 0.75;

/// The size at which memory of the endpoint and loans have targets of their own.
const LONG: usize = 4 << 20;

/// Every target for processors that are so far from each other, judged; those of sizes that were left out
/// are left out.
pub fn judge(distance: Distance, results: &Results) -> Vec<Verdict> {
    match distance {
        Distance::OneCore => Vec::new(),
        Distance::Near => judge_near(results),
        Distance::Far => judge_far(results),
    }
}

fn judge_far(results: &Results) -> Vec<Verdict> {
    results.sizes().into_iter().map(|size| against_open_mpi(results, size, FAR)).collect()
}

fn against_open_mpi(results: &Results, size: usize, bound: f64) -> Verdict {
    let open_mpi = What::Peer(peers::OPEN_MPI.name);
    let got = results.ratio((size, What::Taffrail), (size, open_mpi));
    Verdict {
        target: format!("{}, relative to Open MPI", bytes(size)),
        unit: "x",
        wanted: Bound::AtMost(bound),
        got: got.map(|ratio| ratio.median),
    }
}

fn judge_near(results: &Results) -> Vec<Verdict> {
    let sizes = results.sizes();
    let mut verdicts = Vec::new();
    if sizes.contains(&8) {
        let got = results.ratio((8, What::Taffrail), (8, What::Handover));
        verdicts.push(Verdict {
            target: "8 B, relative to the handover of one cache line".into(),
            unit: "x",
            wanted: Bound::AtMost(1.8),
            got: got.map(|ratio| ratio.median),
        });
    }
    let open_mpi = What::Peer(peers::OPEN_MPI.name);
    for (size, bound) in AGAINST_OPEN_MPI.into_iter().filter(|(size, _)| sizes.contains(size)) {
        verdicts.push(against_open_mpi(results, size, bound));
    }
    if sizes.contains(&LONG) {
        let got = results.ratio((LONG, What::Allocated), (LONG, open_mpi));
        verdicts.push(Verdict {
            target: format!("{}, allocated, relative to Open MPI", bytes(LONG)),
            unit: "x",
            wanted: Bound::AtMost(0.33),
            got: got.map(|ratio| ratio.median),
        });
    }
    if sizes.contains(&LONG) && sizes.contains(&64) {
        let got = results.ratio((LONG, What::Loaned), (64, What::Loaned));
        verdicts.push(Verdict {
            target: format!("{}, loaned, relative to 64 B loaned", bytes(LONG)),
            unit: "x",
            wanted: Bound::AtMost(1.3),
            got: got.map(|ratio| ratio.median),
        });
    }
    let rate = results.rate_ratio(What::Taffrail, What::Peer(peers::UCX.name));
    verdicts.push(Verdict {
        target: "8 B messages a second, relative to UCX".into(),
        unit: "x",
        wanted: Bound::AtLeast(2.5),
        got: rate.map(|ratio| ratio.median),
    });
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ours_us: f64) -> Results {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(8, What::Handover, Ok(0.05));
        results.add_time(8, What::Taffrail, Ok(ours_us));
        results.add_time(8, What::Peer("Open MPI"), Ok(0.14));
        results
    }

    #[test]
    fn a_target_is_met_missed_or_not_measured() {
        let verdicts = judge_near(&measured(0.08));
        let met: Vec<_> = verdicts.iter().map(Verdict::met).collect();
        assert_eq!(met, [Some(true), Some(true), None]);
        let met: Vec<_> = judge_near(&measured(0.1)).iter().map(Verdict::met).collect();
        assert_eq!(met, [Some(false), Some(false), None]);
    }

    #[test]
    fn far_processors_have_one_target_for_every_size() {
        let met = |ours_us| {
            let verdicts = judge(Distance::Far, &measured(ours_us));
            verdicts.iter().map(Verdict::met).collect::<Vec<_>>()
        };
        assert_eq!((met(0.1), met(0.11)), (vec![Some(true)], vec![Some(false)]));
        assert!(judge(Distance::OneCore, &measured(0.1)).is_empty());
    }

    #[test]
    fn loans_are_compared_with_small_ones() {
        let mut results = measured(0.08);
        results.add_time(64, What::Loaned, Ok(0.20));
        results.add_time(4 << 20, What::Loaned, Ok(0.25));
        let verdicts = judge_near(&results);
        let loaned = verdicts.iter().find(|v| v.target.contains("loaned")).unwrap();
        assert_eq!((loaned.got, loaned.met()), (Some(1.25), Some(true)));
    }

    #[test]
    fn rates_are_bounded_from_below() {
        for (ours, met) in [(24.0, false), (26.0, true)] {
            let mut results = measured(0.08);
            results.add_rate(What::Taffrail, Ok(ours));
            results.add_rate(What::Peer("UCX"), Ok(10.0));
            let verdict = judge_near(&results).pop().unwrap();
            assert_eq!(verdict.met(), Some(met));
            assert_eq!(verdict.to_string().contains("NOT MET"), !met, "{verdict}");
        }
    }
}
