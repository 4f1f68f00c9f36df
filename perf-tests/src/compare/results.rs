//! What is compared, and the rows of it for files.

use crate::machine::Distance;
use crate::rounds::{self, Named, Times};
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

impl Named for What {
    fn name(self) -> &'static str {
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

/// The times of all that is compared, while the processors were as far from each other.
pub type Results = rounds::Results<What>;

/// The times of all that is compared, by how far the processors were from each other.
pub struct ByDistance(BTreeMap<Distance, Results>);

impl Default for ByDistance {
    fn default() -> Self {
        ByDistance(Distance::ALL.map(|distance| (distance, Results::default())).into())
    }
}

impl ByDistance {
    /// Begins a round.
    pub fn begin_round(&mut self) {
        self.0.values_mut().for_each(Results::begin_round);
    }

    /// Those of one distance.
    pub fn at(&mut self, distance: Distance) -> &mut Results {
        self.0.entry(distance).or_default()
    }

    /// Those there are, ascending.
    pub fn measured(&self) -> impl Iterator<Item = (Distance, &Results)> {
        let any = |results: &Results| !results.measured().is_empty();
        self.0.iter().filter(move |(_, results)| any(results)).map(|(&at, results)| (at, results))
    }
}

/// What is known of one thing at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How far the processors were from each other.
    pub distance: Distance,
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

/// Everything, for files.
pub fn rows(distance: Distance, results: &Results) -> Vec<Row> {
    let row = |times: Times<What>| Row {
        distance,
        size: times.size,
        what: times.what.name(),
        time_us: times.spread_us,
        taffrail_ratio: results.ratio((times.size, What::Taffrail), (times.size, times.what)),
        rounds_us: times.rounds_us,
    };
    results.times().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_relative_to_taffrail() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(64, What::Taffrail, Ok(0.1));
        results.add_time(64, What::Handover, Ok(0.05));
        let shown: Vec<_> = rows(Distance::Near, &results)
            .iter()
            .map(|row| (row.size, row.what, row.taffrail_ratio.map(|ratio| ratio.median)))
            .collect();
        assert_eq!(shown, [(64, "handover", Some(2.0)), (64, "Taffrail", Some(1.0))]);
    }
}
