//! What is measured between two nodes, and the rows of it for files.

use crate::rounds::{self, Named};
use crate::stats::Spread;
use serde::Serialize;

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// A plain socket with TCP_NODELAY, whose readers spin.
    Socket,
    /// Taffrail; nothing is logged.
    Taffrail,
    /// libfabric's own ping-pong over its provider `tcp`.
    Libfabric,
    /// Open MPI over its btl/tcp.
    OpenMpi,
    /// MPICH over the provider `tcp` of its libfabric.
    Mpich,
    /// Named receives, which are no events: payload is logged alone.
    Named,
    /// The same, in memory that is there from the beginning.
    Reserved,
    /// Every reception is an event, of which another node has a copy before anything depends on it: MPICH-V2's setting.
    Every,
    /// Every reception is an event, which travels with what is sent next until another node has a copy.
    Causal,
    /// Receives from any source; nothing is logged.
    AnySource,
    /// The same with logging: each is an event, and what is sent next waits until another node has a copy.
    Gated,
}

/// Which figure of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Part {
    /// The median of its round trips.
    Median,
    /// Their 1st percentile, to which what disturbs a machine comes last.
    Low,
    /// The median divided by that of the plain socket which took turns with it.
    BySocket,
    /// The same of the 1st percentiles.
    LowBySocket,
}

/// A figure of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Figure(pub What, pub Part);

impl What {
    /// Its name in tables and legends.
    pub fn name(self) -> &'static str {
        match self {
            What::Socket => "plain socket",
            What::Taffrail => "Taffrail",
            What::Libfabric => "libfabric tcp",
            What::OpenMpi => "Open MPI tcp",
            What::Mpich => "MPICH ofi/tcp",
            What::Named => "named receives",
            What::Reserved => "reserved",
            What::Every => "every reception",
            What::Causal => "causal",
            What::AnySource => "any source",
            What::Gated => "any source, gated",
        }
    }

    /// What a ratio is to: the same without logging.
    pub fn base(self) -> What {
        match self {
            What::AnySource | What::Gated => What::AnySource,
            _ => What::Taffrail,
        }
    }
}

impl Named for Figure {
    fn name(self) -> &'static str {
        self.0.name()
    }
}

/// All figures.
pub type Results = rounds::Results<Figure>;

/// Adds the round trips of a round.
pub fn add(results: &mut Results, size: usize, what: What, time_us: Result<Spread, String>) {
    match time_us {
        Ok(time) => {
            results.add_time(size, Figure(what, Part::Median), Ok(time.median));
            // A mean of all has no percentile.
            if time.samples > 1 {
                results.add_time(size, Figure(what, Part::Low), Ok(time.p1));
            }
        }
        Err(reason) => results.add_time(size, Figure(what, Part::Median), Err(reason)),
    }
}

/// Adds how much longer they took than those of the socket that took turns with them.
pub fn add_by_socket(results: &mut Results, size: usize, what: What, time: Spread, socket: Spread) {
    results.add_time(size, Figure(what, Part::BySocket), Ok(time.median / socket.median));
    results.add_time(size, Figure(what, Part::LowBySocket), Ok(time.p1 / socket.p1));
}

/// What is known of one thing at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// What was measured.
    pub what: &'static str,
    /// Microseconds of half a round trip: the medians of the rounds.
    pub time_us: Spread,
    /// The same of their 1st percentiles.
    pub low_us: Option<Spread>,
    /// This time by that without logging, in the same round.
    pub ratio: Option<Spread>,
    /// This time by that of the plain socket which took turns with it.
    pub by_socket: Option<Spread>,
    /// The median of each round that has one.
    pub rounds_us: Vec<f64>,
}

/// Everything, for files.
pub fn rows(results: &Results) -> Vec<Row> {
    let medians = results.times().filter(|times| times.what.1 == Part::Median);
    let row = |times: rounds::Times<Figure>| {
        let (size, Figure(what, _)) = (times.size, times.what);
        let base = (size, Figure(what.base(), Part::Median));
        Row {
            size,
            what: what.name(),
            time_us: times.spread_us,
            low_us: results.time_us(size, Figure(what, Part::Low)),
            ratio: results.ratio((size, times.what), base),
            by_socket: results.time_us(size, Figure(what, Part::BySocket)),
            rounds_us: times.rounds_us,
        }
    };
    medians.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_ratios() {
        let mut results = Results::default();
        results.begin_round();
        let spread = |median: f64| Spread { median, p1: median / 2.0, p99: median, samples: 9 };
        add(&mut results, 8, What::Socket, Ok(spread(8.0)));
        add(&mut results, 8, What::Taffrail, Ok(spread(10.0)));
        add_by_socket(&mut results, 8, What::Taffrail, spread(10.0), spread(8.0));
        add(&mut results, 8, What::Every, Ok(spread(25.0)));
        add(&mut results, 8, What::Libfabric, Ok(Spread { samples: 1, ..spread(20.0) }));
        add(&mut results, 8, What::Mpich, Err("it is not here".into()));
        let rows = rows(&results);
        let known: Vec<_> = rows
            .iter()
            .map(|row| (row.what, row.low_us.map(|low| low.median), row.ratio.map(|r| r.median)))
            .collect();
        let expected = [
            ("plain socket", Some(4.0), Some(0.8)),
            ("Taffrail", Some(5.0), Some(1.0)),
            ("libfabric tcp", None, Some(2.0)),
            ("every reception", Some(12.5), Some(2.5)),
        ];
        assert_eq!(known, expected);
        assert_eq!(rows[1].by_socket.unwrap().median, 1.25);
        assert_eq!(results.missing[&Figure(What::Mpich, Part::Median)], "it is not here");
    }
}
