//! The comparison on the terminal.

use super::results::{Results, What};
use super::targets::bytes;
use crate::stats::Spread;

/// One line a size: the limits, Taffrail, and each other transport with Taffrail's time relative
/// to it. Every figure is a median over the rounds with its 1st and 99th percentile.
pub fn table(results: &Results) -> String {
    let whats = results.measured();
    let mut rows = vec![headings(&whats)];
    for size in results.sizes() {
        let mut row = vec![bytes(size)];
        for &what in &whats {
            row.push(results.time_us(size, what).map_or("-".into(), microseconds));
            if let What::Peer(_) = what {
                let ratio = results.ratio((size, What::Taffrail), (size, what));
                row.push(ratio.map_or("-".into(), times));
            }
        }
        rows.push(row);
    }
    align(&rows)
}

fn headings(whats: &[What]) -> Vec<String> {
    let mut headings = vec!["size".to_owned()];
    for what in whats {
        headings.push(format!("{} us", what.name()));
        if let What::Peer(_) = what {
            headings.push("ratio".to_owned());
        }
    }
    headings
}

fn microseconds(Spread { median, p1, p99, .. }: Spread) -> String {
    let digits = if median < 10.0 { 3 } else { 1 };
    format!("{median:.digits$} ({p1:.digits$}-{p99:.digits$})")
}

fn times(Spread { median, p1, p99, .. }: Spread) -> String {
    format!("{median:.2} ({p1:.2}-{p99:.2})")
}

/// Columns side by side, to the right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = table(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                " size          handover us          Taffrail us          Open MPI us             ratio",
                "  8 B  0.050 (0.050-0.050)  0.110 (0.100-0.120)  0.200 (0.200-0.200)  0.55 (0.50-0.60)",
                "4 KiB                    -     25.0 (25.0-25.0)                    -                 -",
            ]
        );
    }
}
