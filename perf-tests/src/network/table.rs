//! Figures between two nodes on the terminal.

use super::results::{Figure, Part, Results, What};
use crate::stats::Spread;
use crate::table::{align, bytes, figure, times};

/// All that carries messages without logging, in the order of tables.
const OTHERS: [What; 4] = [What::Socket, What::Libfabric, What::OpenMpi, What::Mpich];

/// Half a round trip of each size over everything: median and 1st percentile.
pub fn times_table(results: &Results) -> String {
    let all = [What::Taffrail].into_iter().chain(OTHERS);
    let mut headings = vec![String::from("size")];
    for what in all.clone() {
        headings.extend([format!("{} us", what.name()), "low".into()]);
    }
    let mut rows = vec![headings];
    for size in results.sizes() {
        let mut row = vec![bytes(size)];
        for what in all.clone() {
            row.extend([Part::Median, Part::Low].map(|part| time(results, size, what, part)));
        }
        rows.push(row);
    }
    align(&rows)
}

/// Taffrail's time relative to each.
pub fn ratios_table(results: &Results) -> String {
    let mut headings = vec![String::from("size")];
    for what in OTHERS {
        headings.extend([what.name().into(), "low".into()]);
    }
    let mut rows = vec![headings];
    for size in results.sizes() {
        let mut row = vec![bytes(size)];
        for what in OTHERS {
            row.extend([Part::Median, Part::Low].map(|part| {
                let ratio = match (what, part) {
                    // They took turns.
                    (What::Socket, Part::Median) => by_socket(results, size, Part::BySocket),
                    (What::Socket, _) => by_socket(results, size, Part::LowBySocket),
                    _ => results
                        .ratio((size, Figure(What::Taffrail, part)), (size, Figure(what, part))),
                };
                let shown = |ratio: Spread| match part {
                    Part::Median => times(ratio),
                    _ => format!("{:.2}", ratio.median),
                };
                ratio.map_or("-".into(), shown)
            }));
        }
        rows.push(row);
    }
    let above = "Taffrail's time by theirs in the same round, below 1 if faster.\n";
    above.to_owned() + &align(&rows)
}

/// Half a round trip with each kind of logging, and relative to none.
pub fn levels_table(results: &Results) -> String {
    levels(results, Part::Median, Part::BySocket)
}

/// The same of 1st percentiles.
pub fn lows_table(results: &Results) -> String {
    levels(results, Part::Low, Part::LowBySocket)
}

fn levels(results: &Results, part: Part, by_socket: Part) -> String {
    let logged = [What::Named, What::Reserved, What::Every];
    let mut headings = ["size", "socket us", "Taffrail us"].map(String::from).to_vec();
    for what in logged {
        headings.extend([format!("{} us", what.name()), "ratio".into()]);
    }
    let ratios = |size, what: What| {
        let ratio = |part| {
            let base = (size, Figure(what.base(), part));
            let ratio = results.ratio((size, Figure(what, part)), base);
            ratio.map(|ratio| format!("{:.2}", ratio.median))
        };
        let both = ratio(part).zip(ratio(by_socket));
        both.map_or("-".into(), |(plain, relative)| format!("{plain} / {relative}"))
    };
    let mut rows = vec![headings];
    for size in results.sizes() {
        let plain = [What::Socket, What::Taffrail].map(|what| time(results, size, what, part));
        let mut row: Vec<String> = [bytes(size)].into_iter().chain(plain).collect();
        for what in logged {
            row.extend([time(results, size, what, part), ratios(size, what)]);
        }
        rows.push(row);
    }
    let mut text = align(&rows);
    for size in results.sizes() {
        let causal = time(results, size, What::Causal, part);
        if causal != "-" {
            let (size, ratio) = (bytes(size), ratios(size, What::Causal));
            text += &format!("{size} causal: {causal} us, ratio {ratio}\n");
        }
    }
    for size in results.sizes() {
        let [plain, gated] =
            [What::AnySource, What::Gated].map(|what| time(results, size, what, part));
        if gated != "-" {
            let (size, ratio) = (bytes(size), ratios(size, What::Gated));
            text +=
                &format!("{size} from any source: {plain} us, gated {gated} us, ratio {ratio}\n");
        }
    }
    text
}

fn by_socket(results: &Results, size: usize, part: Part) -> Option<Spread> {
    results.time_us(size, Figure(What::Taffrail, part))
}

fn time(results: &Results, size: usize, what: What, part: Part) -> String {
    let time = results.time_us(size, Figure(what, part));
    time.map_or("-".into(), |us| figure(us.median, us.median))
}

#[cfg(test)]
mod tests {
    use super::super::results::{add, add_by_socket};
    use super::*;

    fn measured() -> Results {
        let mut results = Results::default();
        let spread = |us: f64| Spread { median: us, p1: us * 0.9, p99: us * 3.0, samples: 100 };
        for factor in [1.0, 1.5] {
            results.begin_round();
            for (size, us) in [(8, 8.0), (1 << 20, 5000.0)] {
                let us = us * factor;
                add(&mut results, size, What::Socket, Ok(spread(us)));
                for (what, by) in [
                    (What::Taffrail, 1.25),
                    (What::Named, 1.5),
                    (What::Reserved, 1.3),
                    (What::Every, 2.5),
                    (What::Causal, 1.375),
                ] {
                    add(&mut results, size, what, Ok(spread(us * by)));
                    add_by_socket(&mut results, size, what, spread(us * by), spread(us));
                }
                for (what, by) in [(What::AnySource, 1.25), (What::Gated, 5.0)] {
                    add(&mut results, size, what, Ok(spread(us * by)));
                    add_by_socket(&mut results, size, what, spread(us * by), spread(us));
                }
                add(&mut results, size, What::OpenMpi, Ok(spread(us * 2.5)));
                add(&mut results, size, What::Mpich, Ok(spread(us * 5.0)));
                add(&mut results, size, What::Libfabric, Err("not here".into()));
            }
        }
        results
    }

    #[test]
    fn tables_fit_a_terminal_of_120_columns() {
        for table in [times_table, ratios_table, levels_table, lows_table].map(|of| of(&measured()))
        {
            let widest = table.lines().map(str::len).max().unwrap();
            assert!((40..=120).contains(&widest), "{widest}:\n{table}");
        }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let text = ratios_table(&measured());
        let line = text.lines().find(|line| line.trim_start().starts_with("8 B")).unwrap();
        assert!(line.contains("1.25 (1.25-1.25)") && line.contains("0.50 (0.50-0.50)"), "{text}");
        assert!(line.ends_with("0.25 (0.25-0.25)  0.25"), "{text}");
        assert_eq!(line.split_whitespace().filter(|word| *word == "-").count(), 2, "{text}");
        let text = levels_table(&measured());
        assert!(text.contains("2.00 / 2.00") && text.contains("1.20 / 1.20"), "{text}");
        assert!(
            text.contains("8 B from any source: 12.5 us, gated 50.0 us, ratio 4.00 / 4.00"),
            "{text}"
        );
    }
}
