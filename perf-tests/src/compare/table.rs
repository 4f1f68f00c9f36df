//! The comparison on the terminal.

use super::results::{Results, What};
use crate::rounds::Named;
use crate::table::{align, bytes, figure};

/// Half a round trip of each size: the limits, and Taffrail with each kind of memory. Every figure
/// is a median over the rounds with its 1st and 99th percentile.
pub fn times_table(results: &Results) -> String {
    let (ours, _) = split(results);
    let headings = ours.iter().map(|what| format!("{} us", what.name()));
    let mut rows = vec![[String::from("size")].into_iter().chain(headings).collect()];
    for size in results.sizes() {
        let cell = |&what| results.time_cell(size, what);
        rows.push([bytes(size)].into_iter().chain(ours.iter().map(cell)).collect());
    }
    align(&rows)
}

/// The other transports: half a round trip of each size, and Taffrail's relative to it.
pub fn ratios_table(results: &Results) -> String {
    let (_, peers) = split(results);
    let mut headings = vec![String::from("size")];
    for what in &peers {
        headings.extend([what.name().into(), "ratio".into()]);
    }
    let mut rows = vec![headings];
    for size in results.sizes() {
        let mut row = vec![bytes(size)];
        for &what in &peers {
            let time = results.time_us(size, what).map(|time| figure(time.median, time.median));
            let ratio = results.ratio_cell((size, What::Taffrail), (size, what));
            row.extend([time.unwrap_or("-".into()), ratio]);
        }
        rows.push(row);
    }
    let above = "Theirs in us; ratio: Taffrail's by theirs in the same round, below 1 if faster.\n";
    above.to_owned() + &align(&rows)
}

/// What is ours or a limit, and what is another transport.
fn split(results: &Results) -> (Vec<What>, Vec<What>) {
    results.measured().into_iter().partition(|what| !matches!(what, What::Peer(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers;
    use crate::settled::Taken;

    #[test]
    fn sizes_run_down_and_what_is_missing_is_a_dash() {
        let mut results = Results::default();
        for (ours, other) in [(0.1, 0.2), (0.12, 0.2)] {
            results.begin_round();
            results.add_time(8, What::Handover, Ok(0.05));
            results.add_time(8, What::Taffrail, Ok(ours));
            results.add_time(8, What::Peer("Open MPI"), Ok(other));
            results.add_time(4096, What::Taffrail, Ok(25.0));
        }
        let text = times_table(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                " size          handover us          Taffrail us",
                "  8 B  0.050 (0.050-0.050)  0.110 (0.100-0.120)",
                "4 KiB                    -     25.0 (25.0-25.0)",
            ]
        );
        let text = ratios_table(&results);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                " size  Open MPI             ratio",
                "  8 B     0.200  0.55 (0.50-0.60)",
                "4 KiB         -                 -",
            ]
        );
    }

    #[test]
    fn what_is_of_processors_that_moved_has_a_mark() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(8, What::Taffrail, Taken { figure: Ok(0.1), stayed: false });
        results.add_time(8, What::Peer("Open MPI"), Ok(0.2));
        assert!(times_table(&results).contains("*0.100 (0.100-0.100)"));
        assert!(ratios_table(&results).contains("*0.50 (0.50-0.50)"));
    }

    #[test]
    fn both_tables_fit_a_terminal_of_120_columns() {
        let ours = [What::Handover, What::FreshCopy, What::Taffrail, What::Allocated, What::Loaned];
        let all: Vec<What> = peers::ALL.iter().map(|peer| What::Peer(peer.name)).collect();
        let mut results = Results::default();
        for factor in [1.0, 1.9] {
            results.begin_round();
            for (size, us) in [(8, 5.0), (65536, 50.0), (4 << 20, 5000.0)] {
                for &what in ours.iter().chain(&all) {
                    results.add_time(size, what, Ok(us * factor));
                }
            }
        }
        for table in [times_table(&results), ratios_table(&results)] {
            let widest = table.lines().map(str::len).max().unwrap();
            assert!((80..=120).contains(&widest), "{widest}:\n{table}");
        }
    }
}
