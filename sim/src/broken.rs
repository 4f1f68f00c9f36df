//! Faults beside the product, each of which jobs must find: when the events of a dead rank are downloaded, and which peers are asked
//! after a death.

/// What is wrong, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// The records of a set's members are downloaded while some of them are not stable.
    DownloadsUnstable,
    /// A rank that starts again has stable events only.
    SurvivorsNotAsked,
    /// What survivors have said counts also when another rank has died since.
    SurvivorsNotAskedAgain,
    /// Survivors that have said what they hold believe what still comes from the dead.
    DeadStillBelieved,
    /// The roster shows a rank as finalizing that does not know of a restart yet.
    StaleFinalizing,
    /// A rank that was restarted sees those as finalizing that have said so before.
    FinalizingKept,
}
