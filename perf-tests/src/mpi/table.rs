//! The figures of one MPI on the terminal. Every one is a median over the rounds, with its 1st and
//! 99th percentile in brackets.

use super::results::{Results, SHORT, What};
use crate::rounds::Named;
use crate::table::{align, bytes};

/// Half a round trip of each size over everything.
pub fn times_table(results: &Results) -> String {
    let transports = transports(results);
    let headings = transports.iter().map(|what| format!("{} us", what.name()));
    let mut rows = vec![[String::from("size")].into_iter().chain(headings).collect()];
    for size in results.sizes() {
        let cell = |&what| results.time_cell(size, what);
        rows.push([bytes(size)].into_iter().chain(transports.iter().map(cell)).collect());
    }
    align(&rows)
}

/// All but the limit.
fn transports(results: &Results) -> Vec<What> {
    results.tried().into_iter().filter(|&what| what != What::Handover).collect()
}

/// Taffrail's times by those of the other transports, and times with logging by Taffrail's without.
const RATIOS: [(What, What); 6] = [
    (What::Taffrail, What::Own),
    (What::Taffrail, What::Shm),
    (What::Elided, What::Taffrail),
    (What::SenderBased, What::Taffrail),
    (What::Reserved, What::Taffrail),
    (What::Every, What::Taffrail),
];

/// The ratios of each size.
pub fn ratios_table(results: &Results) -> String {
    let tried = results.tried();
    let ratios =
        RATIOS.iter().filter(|(above, below)| tried.contains(above) && tried.contains(below));
    let headings =
        ratios.clone().map(|(above, below)| format!("{} / {}", above.name(), below.name()));
    let mut rows = vec![[String::from("size")].into_iter().chain(headings).collect()];
    for size in results.sizes() {
        let cell = |&(above, below)| results.ratio_cell((size, above), (size, below));
        rows.push([bytes(size)].into_iter().chain(ratios.clone().map(cell)).collect());
    }
    align(&rows)
}

/// The message rate over each transport, beside what it is compared with.
pub fn rates_table(results: &Results) -> String {
    let mut rows = Vec::new();
    for what in transports(results) {
        if results.rate(what).is_none() {
            continue;
        }
        let base = what.base();
        rows.push(vec![
            what.name().into(),
            results.rate_cell(what, SHORT),
            results.rate_ratio_cell(what, base),
            format!("x {}", base.name()),
        ]);
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::super::results::TRANSPORTS;
    use super::*;
    use crate::settled::Taken;

    fn measured() -> Results {
        let mut results = Results::default();
        for factor in [1.0, 1.9] {
            results.begin_round();
            for (size, us) in [(8, 5.0), (65536, 50.0), (4 << 20, 5000.0)] {
                for what in [What::Handover, What::Own, What::Taffrail, What::Elided] {
                    results.add_time(size, what, Ok(us * factor));
                }
                results.add_time(size, What::SenderBased, Ok(us * factor * 1.5));
            }
            results.add_time(8, What::Shm, Err("no such provider".into()));
            results.add_time(8, What::Reserved, Err("no memory".into()));
            results.add_rate(What::Own, Ok(2e6 * factor));
            results.add_rate(What::Taffrail, Ok(3e6 * factor));
        }
        results
    }

    #[test]
    fn all_tables_fit_a_terminal_of_120_columns() {
        let mut results = measured();
        let moved = || Taken { figure: Ok(5555.5), stayed: false };
        for size in [8, 65536, 4 << 20] {
            TRANSPORTS.iter().for_each(|&what| results.add_time(size, what, moved()));
        }
        for table in [times_table(&results), ratios_table(&results), rates_table(&results)] {
            let widest = table.lines().map(str::len).max().unwrap();
            assert!((60..=120).contains(&widest), "{widest}:\n{table}");
        }
    }

    #[test]
    fn what_is_missing_is_a_dash_and_rates_are_compared() {
        let results = measured();
        let text = times_table(&results);
        let first: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(first[..6], ["8", "B", "7.250", "(5.045-9.455)", "-", "7.250"], "{text}");
        let text = ratios_table(&results);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last[2..5], ["1.00", "(1.00-1.00)", "-"], "{text}");
        assert_eq!(last[7..], ["1.50", "(1.50-1.50)", "-"], "{text}");
        let text = rates_table(&results);
        assert!(text.contains("1.50 (1.50-1.50)") && !text.contains("one set"), "{text}");
    }
}
