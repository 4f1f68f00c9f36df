//! Applications with causal logging, beside the same without logging and with the gate: table 1 of the
//! fast message-logging paper, and what the determinants cost.

use crate::determinants::Row;
use crate::ours;
use crate::provenance::DIVISOR;
use crate::stats::Spread;
use crate::table::{align, times};
use serde::Serialize;

/// Applications, with sizes and iterations that take some tenths of a second.
pub const APPLICATIONS: [(&str, &str, usize); 3] =
    [("wave2d", "256", 500), ("jacobi3d", "32", 400), ("irregular", "64", 100)];
/// Ranks of each, which must be able to divide the work.
const RANKS: &str = "4";

/// Each reception is an event, as in the paper; each rank is its own set.
const LOGGED: [&str; 4] = ["--sets", "rank", "--events", "all"];

/// What was measured of one application, by round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Which.
    pub application: &'static str,
    /// Seconds without logging.
    pub plain_s: Vec<f64>,
    /// Seconds with pessimistic logging, relative to that.
    pub pessimistic: Vec<f64>,
    /// Seconds with causal logging, relative to that without.
    pub causal: Vec<f64>,
    /// What went with its messages in the last round.
    pub determinants: Option<Row>,
}

/// No figures yet.
pub fn none() -> Vec<Figures> {
    APPLICATIONS.map(|(application, ..)| Figures { application, ..Figures::default() }).to_vec()
}

/// Measures an application, by its place in [`APPLICATIONS`], once in each way, in turn.
///
/// # Errors
/// Why something is missing.
pub fn measure(figures: &mut [Figures], application: usize) -> Result<(), String> {
    let (name, size, iterations) = APPLICATIONS[application];
    let iterations = (iterations / DIVISOR).to_string();
    let run = |logging: Option<&str>| -> Result<Row, String> {
        let command =
            ["determinants", name, "-n", RANKS, "--size", size, "--iterations", &iterations];
        let more = logging.map_or(Vec::new(), |how| [&["--logging", how][..], &LOGGED].concat());
        let rows: Vec<Row> = ours::measure(&command, &more)?;
        rows.into_iter().next().ok_or_else(|| "`determinants` measured nothing".into())
    };
    let plain = run(None)?;
    let (pessimistic, causal) = (run(Some("pessimistic"))?, run(Some("causal"))?);
    let figures = &mut figures[application];
    figures.plain_s.push(plain.seconds);
    figures.pessimistic.push(pessimistic.seconds / plain.seconds);
    figures.causal.push(causal.seconds / plain.seconds);
    figures.determinants = Some(causal);
    Ok(())
}

/// For each rank and iteration what was sent, and the times.
pub fn table(figures: &[Figures]) -> String {
    let headings = ["", "ms", "gate", "causal", "messages", "created", "sent", "each message"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    for Figures { application, plain_s, pessimistic, causal, determinants } in figures {
        let Some(row) = determinants else { continue };
        let each = |count: u64| {
            format!("{:.2}", count as f64 / f64::from(row.ranks) / f64::from(row.iterations))
        };
        rows.push(vec![
            (*application).to_owned(),
            format!("{:.1}", Spread::of(plain_s).median * 1e3),
            times(Spread::of(pessimistic)),
            times(Spread::of(causal)),
            each(row.messages),
            each(row.created),
            each(row.piggybacked),
            format!("{:.2}", row.per_message),
        ]);
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_rank_and_iteration() {
        let mut figures = none();
        let row = Row {
            application: "wave2d".into(),
            ranks: 4,
            size: 256,
            iterations: 500,
            seconds: 0.3,
            messages: 8000,
            created: 4000,
            piggybacked: 20_000,
            per_message: 2.5,
        };
        figures[0] = Figures {
            plain_s: vec![0.2, 0.2],
            pessimistic: vec![1.25, 1.25],
            causal: vec![1.5, 1.5],
            determinants: Some(row),
            ..figures[0].clone()
        };
        let text = table(&figures);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last[..3], ["wave2d", "200.0", "1.25"], "{text}");
        assert_eq!(last[last.len() - 4..], ["4.00", "2.00", "10.00", "2.50"], "{text}");
        assert!(!text.contains("jacobi3d"), "what is missing is left out: {text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }
}
