//! What is measured with each MPI, and the rows of it for files.

use crate::rounds::{self, Named, Times};
use crate::stats::Spread;
use crate::ways;
use serde::Serialize;

/// Bytes of the messages whose rate is measured.
pub const SHORT: usize = 8;

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// The limit of small messages: one cache line handed over.
    Handover,
    /// What the MPI uses by itself: inside a node, or over sockets.
    Own,
    /// The provider `shm` of its libfabric.
    Shm,
    /// Taffrail; nothing is logged.
    Taffrail,
    /// Taffrail, where both ranks are one set: payload is not logged.
    Elided,
    /// Taffrail, where each rank is its own set: payload is logged.
    SenderBased,
    /// The same, with memory for the log that is had at the start.
    Reserved,
    /// The same, where every reception is an event: MPICH-V2's setting.
    Every,
}

/// All transports inside a node, with every MPI in this order.
pub const TRANSPORTS: [What; 6] =
    [What::Own, What::Shm, What::Taffrail, What::Elided, What::SenderBased, What::Reserved];

/// Those between two nodes, where the event loggers of both have every event.
pub const OVER_NODES: [What; 5] =
    [What::Own, What::Taffrail, What::SenderBased, What::Reserved, What::Every];

impl Named for What {
    fn name(self) -> &'static str {
        match self {
            What::Handover => "handover",
            What::Own => "own",
            What::Shm => "libfabric shm",
            What::Taffrail => "Taffrail",
            What::Elided => "one set",
            What::SenderBased => "set per rank",
            What::Reserved => "reserved",
            What::Every => "every reception",
        }
    }
}

impl What {
    /// The options of `taffrail run`, where messages are logged.
    pub fn logging(self) -> Option<&'static [&'static str]> {
        match self {
            What::Elided => Some(ways::ONE_SET),
            What::SenderBased => Some(ways::SET_PER_RANK),
            What::Reserved => Some(ways::RESERVED),
            What::Every => Some(ways::EVERY_RECEPTION),
            _ => None,
        }
    }

    /// Whether payload is logged, which takes memory.
    pub fn takes_memory(self) -> bool {
        matches!(self, What::SenderBased | What::Reserved | What::Every)
    }

    /// What this is to be compared with: the same without logging, or the MPI's own transport.
    pub fn base(self) -> What {
        match self.logging() {
            Some(_) => What::Taffrail,
            None => What::Own,
        }
    }
}

/// The times of one MPI.
pub type Results = rounds::Results<What>;

/// What is known of one thing at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// With which MPI.
    pub mpi: String,
    /// Bytes of a message.
    pub size: usize,
    /// What was measured.
    pub what: &'static str,
    /// Microseconds of half a round trip, over the rounds.
    pub time_us: Spread,
    /// This time divided by that of what it is compared with, in the same rounds.
    pub ratio: Option<Spread>,
    /// What it is compared with.
    pub ratio_to: &'static str,
    /// The time in each round that has one.
    pub rounds_us: Vec<f64>,
    /// In how many of them the processors did not stay where they were to be.
    pub moved: usize,
}

/// Everything of one MPI, for files.
pub fn rows(mpi: &str, results: &Results) -> Vec<Row> {
    let row = |times: Times<What>| Row {
        mpi: mpi.into(),
        size: times.size,
        what: times.what.name(),
        time_us: times.spread_us,
        ratio: results.ratio((times.size, times.what), (times.size, times.what.base())),
        ratio_to: times.what.base().name(),
        rounds_us: times.rounds_us,
        moved: times.moved,
    };
    results.times().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_compared_with_the_own_one_and_logging_with_none() {
        let mut results = Results::default();
        results.begin_round();
        for (what, us) in [(What::Own, 0.5), (What::Taffrail, 0.25), (What::Elided, 0.5)] {
            results.add_time(8, what, Ok(us));
        }
        let rows = rows("an MPI", &results);
        let got: Vec<_> = rows.iter().map(|row| (row.what, row.ratio.unwrap().median)).collect();
        assert_eq!(got, [("own", 1.0), ("Taffrail", 0.5), ("one set", 2.0)]);
    }
}
