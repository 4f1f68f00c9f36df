//! The costs of logging on the terminal. Every figure is a median over the rounds, with its 1st and
//! 99th percentile in brackets.

use super::results::{Results, What};
use crate::rounds::Named;
use crate::table::{align, bytes, figure, spread, times};

/// What the machine allows, and Open MPI.
pub fn limits_table(results: &Results) -> String {
    let whats = [What::Handover, What::Stored, What::StoredFresh, What::OpenMpi];
    let headings = whats.iter().map(|what| format!("{} us", what.name()));
    let mut rows: Vec<Vec<String>> =
        vec![[String::from("size")].into_iter().chain(headings).collect()];
    for size in results.sizes() {
        let cell = |&what| results.time_us(size, what).map_or("-".into(), spread);
        rows.push([bytes(size)].into_iter().chain(whats.iter().map(cell)).collect());
    }
    align(&rows)
}

/// Half a round trip of each size: without logging; relative to that, where payload is elided; and
/// where payload is logged its time, its ratio, and its rate relative to its limit.
pub fn costs_table(results: &Results) -> String {
    let ways = [(What::SenderBased, What::StoredFresh), (What::Reserved, What::Stored)];
    let mut headings = vec!["size".to_owned(), format!("{} us", What::Plain.name())];
    headings.push(What::Elided.name().into());
    for (way, _) in &ways {
        headings.extend([format!("{} us", way.name()), "ratio".into(), "limit".into()]);
    }
    let mut rows = vec![headings];
    for size in results.sizes() {
        let time = |what| {
            let time = results.time_us(size, what);
            time.map_or("-".into(), |us| figure(us.median, us.median))
        };
        let ratio =
            |what| results.ratio((size, what), (size, What::Plain)).map_or("-".into(), times);
        let mut row = vec![bytes(size), time(What::Plain), ratio(What::Elided)];
        for (way, limit) in ways {
            let part = results.ratio((size, limit), (size, way));
            let part = part.map_or("-".into(), |part| format!("{:.2}", part.median));
            row.extend([time(way), ratio(way), part]);
        }
        rows.push(row);
    }
    align(&rows)
}

/// Half a round trip of each size where checkpoints let logs shrink: relative to no logging, and to the
/// same log without checkpoints.
pub fn collected_table(results: &Results) -> String {
    let headings = ["size", "collected us", "ratio", "to reserved"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    for size in results.sizes() {
        let Some(time) = results.time_us(size, What::Collected) else { continue };
        let ratio = |to| results.ratio((size, What::Collected), (size, to));
        let ratios = [What::Plain, What::Reserved].map(|to| ratio(to).map_or("-".into(), times));
        rows.push([bytes(size), spread(time)].into_iter().chain(ratios).collect());
    }
    align(&rows)
}

/// The ping-pong of receives from any source, each of which is an event where events are logged.
pub fn any_source_table(results: &Results) -> String {
    let mut rows = vec![["", "time us", "ratio"].map(String::from).to_vec()];
    for what in results.measured().into_iter().filter(|what| what.is_from_any_source()) {
        for size in results.sizes() {
            let Some(time) = results.time_us(size, what) else { continue };
            let ratio = results.ratio((size, what), (size, what.base())).map(times);
            let name = format!("{}, {}", bytes(size), what.name());
            rows.push(vec![name, spread(time), ratio.unwrap_or("-".into())]);
        }
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Results {
        let mut results = Results::default();
        for factor in [1.0, 1.9] {
            results.begin_round();
            for (size, us) in [(8, 5.0), (65536, 50.0), (4 << 20, 5000.0)] {
                for what in [What::Handover, What::Stored, What::StoredFresh, What::OpenMpi] {
                    results.add_time(size, what, Ok(us * factor));
                }
                for what in [What::Plain, What::Elided, What::SenderBased, What::Reserved] {
                    results.add_time(size, what, Ok(us * 2.0 * factor));
                }
                results.add_time(size, What::Collected, Ok(us * 2.5 * factor));
            }
            results.add_time(8, What::AnySource, Ok(0.2 * factor));
            results.add_time(8, What::AnySourceProcess, Ok(0.3 * factor));
            results.add_time(8, What::AnySourceDisk, Err("no disk".into()));
        }
        results
    }

    #[test]
    fn all_tables_fit_a_terminal_of_120_columns() {
        let results = measured();
        let tables = [limits_table, costs_table, collected_table, any_source_table];
        for table in tables.map(|table| table(&results)) {
            let widest = table.lines().map(str::len).max().unwrap();
            assert!((40..=120).contains(&widest), "{widest}:\n{table}");
        }
    }

    #[test]
    fn a_cost_stands_beside_its_ratio_and_its_limit() {
        let text = costs_table(&measured());
        let last = text.lines().last().unwrap();
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(words[..2], ["4", "MiB"], "{text}");
        assert_eq!(words[words.len() - 3..], ["1.00", "(1.00-1.00)", "0.50"], "{text}");
        let text = collected_table(&measured());
        assert!(text.ends_with("1.25 (1.25-1.25)  1.25 (1.25-1.25)\n"), "{text}");
        let text = any_source_table(&measured());
        assert!(text.contains("durability process") && text.contains("1.50 (1.50-1.50)"), "{text}");
        assert!(!text.contains("disk"), "{text}");
    }
}
