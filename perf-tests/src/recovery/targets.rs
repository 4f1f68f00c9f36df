//! What failures may cost, and whether they do not cost more.

use super::results::{APPLICATIONS, Experiment, OnTheWay, Results};
use crate::stats::median;
use crate::table::bytes;
use crate::verdict::{Bound, Verdict};

/// A re-execution takes at most this part of the time of what is executed again.
const AGAIN: f64 = 0.5;
/// The faults of a run with checkpoints, and how many times its time without both it may take then.
const FAULTS: (u32, f64) = (10, 1.5);
/// Milliseconds from SIGKILL until the next process runs.
const STARTED_MS: f64 = 50.0;

/// Every target, judged; those of what was left out are left out.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let ratio = |of, target, bound| Verdict {
        target,
        unit: "x",
        wanted: Bound::AtMost(bound),
        got: results.ratio(of).map(|ratio| ratio.median),
    };
    let mut verdicts = Vec::new();
    for of in results.measured() {
        match of {
            Experiment::AtTheEnd(size) => {
                let target =
                    format!("{}, re-execution relative to execution", bytes(size as usize));
                verdicts.push(ratio(of, target, AGAIN));
            }
            Experiment::OnTheWay(OnTheWay { app, checkpoints: true, faults, .. })
                if faults == FAULTS.0 =>
            {
                let (_, name, ..) = APPLICATIONS[app];
                let target =
                    format!("{name}, {faults} faults with checkpoints, relative to neither");
                verdicts.push(ratio(of, target, FAULTS.1));
            }
            Experiment::OnTheWay(_) => {}
        }
    }
    let started = results.started_ms();
    for (what, got) in [("median", Some(median(&started))), ("longest", started.last().copied())] {
        verdicts.push(Verdict {
            target: format!("from SIGKILL to the next process, {what}"),
            unit: " ms",
            wanted: Bound::AtMost(STARTED_MS),
            got: got.filter(|_| !started.is_empty()),
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{cost, on_the_way};
    use super::*;

    #[test]
    fn each_goal_is_judged() {
        let mut results = Results::default();
        results.begin_round();
        results.add(Experiment::AtTheEnd(1), Ok(cost(100.0, &[25.0], &[4.0])));
        results.add(Experiment::AtTheEnd(1 << 20), Ok(cost(100.0, &[26.0], &[60.0])));
        for (checkpoints, faults, whole) in
            [(false, 0, 100.0), (false, 10, 500.0), (true, 9, 500.0), (true, 10, 149.0)]
        {
            results.add(on_the_way(1, checkpoints, faults), Ok(cost(whole, &[], &[])));
        }
        let said: Vec<_> = judge(&results).iter().map(|v| (v.target.clone(), v.met())).collect();
        let expected = [
            ("1 B, re-execution relative to execution", Some(true)),
            ("1 MiB, re-execution relative to execution", Some(false)),
            ("jacobi3d, 10 faults with checkpoints, relative to neither", Some(true)),
            ("from SIGKILL to the next process, median", Some(true)),
            ("from SIGKILL to the next process, longest", Some(false)),
        ];
        assert_eq!(said, expected.map(|(target, met)| (target.to_owned(), met)));
    }

    #[test]
    fn where_nobody_was_killed_nothing_is_known() {
        let verdicts = judge(&Results::default());
        assert!(verdicts.len() == 2 && verdicts.iter().all(|v| v.met().is_none()), "{verdicts:?}");
    }
}
