//! Times by size, by what was measured, and by round.

use crate::stats::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// The limit of small messages: one cache line handed over.
    Handover,
    /// The limit of copied messages: one copy of what the other CPU has just written.
    FreshCopy,
    /// Taffrail, with buffers in plain memory.
    Taffrail,
    /// Taffrail, with buffers in the endpoint's memory.
    Allocated,
    /// Taffrail, with messages given away.
    Loaned,
    /// Another transport.
    Peer(&'static str),
}

impl What {
    /// Its name in tables and legends.
    pub fn name(self) -> &'static str {
        match self {
            What::Handover => "handover",
            What::FreshCopy => "fresh copy",
            What::Taffrail => "Taffrail",
            What::Allocated => "allocated",
            What::Loaned => "loaned",
            What::Peer(name) => name,
        }
    }
}

/// Microseconds of half a round trip, of a round the best mean of three runs; what a round did not get is missing in it.
#[derive(Clone, Debug, Default)]
pub struct Results {
    rounds: usize,
    times: BTreeMap<(usize, What), Vec<Option<f64>>>,
    /// Messages a second, by what, by round.
    rates: BTreeMap<What, Vec<Option<f64>>>,
    /// Why something is missing, by what it is.
    pub missing: BTreeMap<What, String>,
}

/// What is known of one thing at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// What was measured.
    pub what: &'static str,
    /// Microseconds of half a round trip, over the rounds.
    pub time_us: Spread,
    /// Taffrail's time divided by this one, in the same rounds.
    pub taffrail_ratio: Option<Spread>,
    /// The time in each round that has one.
    pub rounds_us: Vec<f64>,
}

impl Results {
    /// Begins a round; what is added from now on belongs to it.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
    }

    /// Adds a time, in microseconds.
    pub fn add_time(&mut self, size: usize, what: What, time_us: Result<f64, String>) {
        let time_us = self.note_missing(what, time_us);
        put(self.times.entry((size, what)).or_default(), self.rounds, time_us);
    }

    /// Adds a rate, in messages a second.
    pub fn add_rate(&mut self, what: What, rate: Result<f64, String>) {
        let rate = self.note_missing(what, rate);
        put(self.rates.entry(what).or_default(), self.rounds, rate);
    }

    fn note_missing(&mut self, what: What, figure: Result<f64, String>) -> Option<f64> {
        figure.map_err(|reason| self.missing.entry(what).or_insert(reason)).ok()
    }

    /// The sizes there are, ascending.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.times.keys().map(|&(size, _)| size).collect();
        sizes.dedup();
        sizes
    }

    /// What there is at least one time of.
    pub fn measured(&self) -> Vec<What> {
        let with_a_time = self.times.iter().filter(|(_, times)| times.iter().any(Option::is_some));
        let mut whats: Vec<What> = with_a_time.map(|(&(_, what), _)| what).collect();
        whats.sort();
        whats.dedup();
        whats
    }

    /// The time of a size, in microseconds, over the rounds.
    pub fn time_us(&self, size: usize, what: What) -> Option<Spread> {
        spread(self.times.get(&(size, what))?.iter().flatten().copied().collect())
    }

    /// The messages a second, over the rounds.
    pub fn rate(&self, what: What) -> Option<Spread> {
        spread(self.rates.get(&what)?.iter().flatten().copied().collect())
    }

    /// The time of `above` divided by that of `below`, round by round.
    pub fn ratio(&self, above: (usize, What), below: (usize, What)) -> Option<Spread> {
        ratios(self.times.get(&above)?, self.times.get(&below)?)
    }

    /// The rate of `above` divided by that of `below`, round by round.
    pub fn rate_ratio(&self, above: What, below: What) -> Option<Spread> {
        ratios(self.rates.get(&above)?, self.rates.get(&below)?)
    }

    /// Everything, for files.
    pub fn rows(&self) -> Vec<Row> {
        let row = |(&(size, what), times): (&(usize, What), &Vec<Option<f64>>)| Row {
            size,
            what: what.name(),
            time_us: self.time_us(size, what).unwrap_or_default(),
            taffrail_ratio: self.ratio((size, What::Taffrail), (size, what)),
            rounds_us: times.iter().flatten().copied().collect(),
        };
        self.times.iter().map(row).filter(|row| !row.rounds_us.is_empty()).collect()
    }
}

/// Puts a figure in its round, after empty places for rounds that had none.
fn put(rounds: &mut Vec<Option<f64>>, round: usize, figure: Option<f64>) {
    rounds.resize(round.saturating_sub(1), None);
    rounds.push(figure);
}

fn ratios(above: &[Option<f64>], below: &[Option<f64>]) -> Option<Spread> {
    let both = above.iter().zip(below);
    spread(both.filter_map(|(above, below)| Some((*above)? / (*below)?)).collect())
}

fn spread(samples: Vec<f64>) -> Option<Spread> {
    (!samples.is_empty()).then(|| Spread::of(&samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: What = What::Peer("other");

    #[test]
    fn ratios_compare_only_what_the_same_round_has() {
        let mut results = Results::default();
        // A slow minute in round 2 slows both, and changes no ratio.
        for (ours, other) in [(1.0, Ok(2.0)), (10.0, Ok(20.0)), (1.0, Err("crashed".to_owned()))] {
            results.begin_round();
            results.add_time(8, What::Taffrail, Ok(ours));
            results.add_time(8, OTHER, other);
        }
        let ratio = results.ratio((8, What::Taffrail), (8, OTHER)).unwrap();
        assert_eq!((ratio.median, ratio.p1, ratio.p99, ratio.samples), (0.5, 0.5, 0.5, 2));
        assert_eq!(results.time_us(8, What::Taffrail).unwrap().median, 1.0);
        assert_eq!(results.missing[&OTHER], "crashed");
        assert_eq!(results.measured(), [What::Taffrail, OTHER]);
    }

    #[test]
    fn a_round_that_was_left_out_keeps_its_place() {
        let mut results = Results::default();
        results.begin_round();
        results.add_rate(What::Taffrail, Ok(30.0));
        results.begin_round();
        results.add_rate(What::Taffrail, Ok(60.0));
        results.add_rate(OTHER, Ok(10.0));
        assert_eq!(results.rate_ratio(What::Taffrail, OTHER).unwrap().median, 6.0);
        assert_eq!(results.rate(OTHER).unwrap().samples, 1);
        assert!(results.rate(What::Handover).is_none());
    }

    #[test]
    fn rows_hold_what_was_measured_and_nothing_else() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(64, What::Taffrail, Ok(0.1));
        results.add_time(8, What::Handover, Ok(0.05));
        results.add_time(8, OTHER, Err("not installed".into()));
        let rows = results.rows();
        let shown: Vec<_> = rows.iter().map(|row| (row.size, row.what)).collect();
        assert_eq!(shown, [(8, "handover"), (64, "Taffrail")]);
        assert_eq!(rows[1].taffrail_ratio.unwrap().median, 1.0);
        assert_eq!(results.sizes(), [8, 64]);
    }
}
