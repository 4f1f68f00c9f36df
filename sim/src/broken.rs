//! Faults beside the product, each of which jobs must find: in the event logger, and in the choice of the peers that are
//! asked after a death.

/// What is wrong, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// The event logger makes the events of each rank stable by themselves, instead of the events of a set
    /// together.
    LoggerCutsEachRank,
    /// The event logger resumes after a crash before all ranks of a set are there again.
    LoggerDoesNotWait,
    /// The event logger says that events are stable before they are.
    LoggerPromises,
    /// The event logger believes the whole records of a torn cut.
    LoggerBelievesTornCut,
    /// The event logger writes that a cut is valid before it writes what is in it.
    LoggerSealsFirst,
    /// The records of a set's members are downloaded while some of them are not stable.
    DownloadsUnstable,
    /// A rank that starts again has stable events only.
    SurvivorsNotAsked,
    /// What survivors have said counts also when another rank has died since.
    SurvivorsNotAskedAgain,
    /// Survivors that have said what they hold believe what still comes from the dead.
    DeadStillBelieved,
}
