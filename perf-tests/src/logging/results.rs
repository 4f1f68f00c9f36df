//! What is measured, and the rows of it for files.

use crate::rounds::{self, Named, Times};
use crate::stats::Spread;
use serde::Serialize;

/// What a time is of. Another policy is another name, and its arguments in `command.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// The limit of small messages: one cache line handed over.
    Handover,
    /// The limit of a log in memory that is there: its bytes stored once.
    Stored,
    /// The limit of a log that grows: its bytes stored once, in fresh memory.
    StoredFresh,
    /// Open MPI, which logs nothing.
    OpenMpi,
    /// Nothing is logged.
    Plain,
    /// Both ranks are one set: events are logged, payload is not.
    Elided,
    /// Each rank is its own set: payload is logged, in memory that grows.
    SenderBased,
    /// The same, in memory that is there from the beginning.
    Reserved,
    /// The same, where checkpoints let each rank drop what it has logged for the other.
    Collected,
    /// Receives from any source; nothing is logged.
    AnySource,
    /// The same, where both ranks are one set and events survive killed processes: events alone.
    AnySourceEvents,
    /// The same, where each rank is its own set, so that payload is logged as well.
    AnySourceProcess,
    /// The same, where two event loggers have a copy of an event before anything depends on it.
    AnySourceNode,
    /// The same, where events are on disk before anything depends on them.
    AnySourceDisk,
    /// The same, where events go with the messages that depend on them.
    AnySourceCausal,
}

impl Named for What {
    fn name(self) -> &'static str {
        match self {
            What::Handover => "handover",
            What::Stored => "stored",
            What::StoredFresh => "stored fresh",
            What::OpenMpi => "Open MPI",
            What::Plain => "no logging",
            What::Elided => "elided",
            What::SenderBased => "sender-based",
            What::Reserved => "reserved",
            What::Collected => "collected",
            What::AnySource => "any source, no logging",
            What::AnySourceEvents => "any source, events alone",
            What::AnySourceProcess => "any source, durability process",
            What::AnySourceNode => "any source, durability node",
            What::AnySourceDisk => "any source, durability disk",
            What::AnySourceCausal => "any source, causal",
        }
    }
}

impl What {
    /// What this is to be compared with: the same without logging.
    pub fn base(self) -> What {
        match self {
            What::AnySource
            | What::AnySourceEvents
            | What::AnySourceProcess
            | What::AnySourceNode
            | What::AnySourceDisk
            | What::AnySourceCausal => What::AnySource,
            _ => What::Plain,
        }
    }

    /// Whether payload is logged, which takes memory.
    pub fn takes_memory(self) -> bool {
        matches!(self, What::SenderBased | What::Reserved | What::Collected)
    }

    /// Whether it is of receives from any source, which are measured with one size only.
    pub fn is_from_any_source(self) -> bool {
        self.base() == What::AnySource
    }
}

/// The times of all that is measured.
pub type Results = rounds::Results<What>;

/// What is known of one thing at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// What was measured.
    pub what: &'static str,
    /// Microseconds of half a round trip, or of storing, over the rounds.
    pub time_us: Spread,
    /// This time divided by that of the same without logging, in the same rounds.
    pub ratio: Option<Spread>,
    /// The time in each round that has one.
    pub rounds_us: Vec<f64>,
}

/// Everything, for files.
pub fn rows(results: &Results) -> Vec<Row> {
    let row = |times: Times<What>| Row {
        size: times.size,
        what: times.what.name(),
        time_us: times.spread_us,
        ratio: results.ratio((times.size, times.what), (times.size, times.what.base())),
        rounds_us: times.rounds_us,
    };
    results.times().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_compared_with_the_same_without_logging() {
        let mut results = Results::default();
        results.begin_round();
        for (what, us) in [
            (What::Plain, 1.0),
            (What::SenderBased, 1.5),
            (What::AnySource, 2.0),
            (What::AnySourceNode, 20.0),
            (What::AnySourceDisk, 200.0),
        ] {
            results.add_time(8, what, Ok(us));
        }
        let ratios: Vec<_> =
            rows(&results).iter().map(|row| row.ratio.map(|ratio| ratio.median)).collect();
        assert_eq!(ratios, [1.0, 1.5, 1.0, 10.0, 100.0].map(Some));
    }
}
