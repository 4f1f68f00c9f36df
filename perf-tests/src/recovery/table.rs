//! The costs of failures on the terminal. Every figure is a median over the rounds, with its 1st and
//! 99th percentile in brackets.

use super::results::{Results, Row};
use crate::stats::Spread;
use crate::table::{align, bytes, spread, times};

/// Re-execution against execution, by the size of the token.
pub fn again_table(results: &Results) -> String {
    let headings = ["size", "work ms", "again ms", "ratio", "started ms"];
    table(results, "re-execution", &headings, |row| {
        let [time, again, started] = [row.time_ms, row.again_ms, row.started_ms].map(spread);
        vec![bytes(row.size as usize), time, again, ratio(row.ratio), started]
    })
}

/// Runs with more and more faults.
pub fn faults_table(results: &Results) -> String {
    let headings = ["faults", "every", "whole ms", "again ms", "ratio", "to same", "started ms"];
    table(results, "faults", &headings, |row| {
        let name = format!("{}, {:2}", row.application, row.faults);
        let every = row.checkpoint_every.map_or("-".into(), |every| every.to_string());
        let [time, again, started] = [row.time_ms, row.again_ms, row.started_ms].map(spread);
        vec![name, every, time, again, ratio(row.ratio), ratio(row.ratio_to_same), started]
    })
}

fn table(
    results: &Results,
    figure: &str,
    headings: &[&str],
    cells: impl Fn(&Row) -> Vec<String>,
) -> String {
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rows = results.rows();
    let rows = rows.iter().filter(|row| row.figure == figure).map(cells);
    align(&[headings].into_iter().chain(rows).collect::<Vec<_>>())
}

fn ratio(ratio: Option<Spread>) -> String {
    ratio.map_or("-".into(), times)
}

/// How long it takes until the next process runs, in words.
pub fn started_line(started_ms: &[f64]) -> String {
    let Spread { median, p1, p99, samples } = Spread::of(started_ms);
    let longest = started_ms.last().copied().unwrap_or(0.0);
    format!(
        "From SIGKILL until the `main` of the next process: median {median:.2} ms (p1 {p1:.2}, p99 \
         {p99:.2}), longest {longest:.2} ms, of {samples} kills"
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::Experiment;
    use super::super::results::tests::{cost, on_the_way};
    use super::*;

    #[test]
    fn tables_fit_a_terminal_and_have_a_line_for_each_experiment() {
        let mut results = Results::default();
        for slow in [1.0, 2.0] {
            results.begin_round();
            results
                .add(Experiment::AtTheEnd(1), Ok(cost(9000.0 * slow, &[2000.0], &[14.0 * slow])));
            for (checkpoints, faults) in [(false, 0), (false, 10), (true, 0), (true, 10)] {
                let started = vec![14.0; faults];
                let cost = cost(9000.0 * slow, &[2000.0; 10][..faults], &started);
                results.add(on_the_way(1, checkpoints, faults as u32), Ok(cost));
            }
        }
        for (table, lines) in [(again_table(&results), 2), (faults_table(&results), 5)] {
            assert_eq!(table.lines().count(), lines, "{table}");
            assert!(table.lines().all(|line| line.len() <= 120), "{table}");
        }
        let line = started_line(&results.started_ms());
        assert!(line.contains("median 14.00 ms") && line.ends_with("of 42 kills"), "{line}");
    }
}
