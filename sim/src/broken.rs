//! Ways to get it wrong, each of which the simulator must find out.

/// What is wrong, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// A message that its receiver has is not logged again.
    SuppressedNotLogged,
    /// A message that its receiver has is sent, and dropped there. Harmless: for comparison.
    SuppressedIsSent,
    /// What polls have not found is not logged before a message is sent.
    NothingNotLogged,
    /// What polls have not found is not logged before the match of a receive posted since.
    PollsBeforeMatchForgotten,
    /// Messages leave the set whatever is stable.
    GateIgnored,
    /// Messages wait for the events of their sender only, not for those of its set.
    GateOfOwnEvents,
    /// Messages that are sent again do not wait for events.
    SentAgainUngated,
    /// The same, and a message that was here before is delivered again.
    DuplicatesDelivered,
    /// A message that the log gives to one receive is given to another.
    NotReserved,
    /// A receive whose message is in the log is posted as any other.
    FateIgnored,
    /// Polls are answered by what is here, not by the log.
    PollsNotReplayed,
    /// The match of a receive from any source is not logged.
    MatchNotLogged,
    /// Which of several requests was over is not logged.
    WaitAnyNotLogged,
    /// That a cancel came too late is not logged.
    LateCancelNotLogged,
    /// Frames of a dead incarnation are believed.
    OldIncarnationBelieved,
    /// What a peer has only a part of is not sent again.
    MissingNotTold,
    /// A message that comes again is put behind the part of it that was here.
    RefillAppended,
    /// What a peer says it has is dropped from the log.
    DiscardedEarly,
    /// What was held while a peer was away is not sent.
    HeldIsForgotten,
    /// Messages do not wait until a peer has said what it has.
    HeldIsSent,
    /// The event logger makes the events of each rank stable by themselves, not those of a set
    /// together.
    LoggerCutsEachRank,
    /// The event logger goes on after a crash before all ranks of a set are there again.
    LoggerDoesNotWait,
    /// The event logger says that events are stable before they are.
    LoggerPromises,
    /// The event logger believes the whole records of a torn cut.
    LoggerBelievesTornCut,
    /// The event logger writes that a cut is valid before it writes what is in it.
    LoggerSealsFirst,
    /// Determinants of others are not passed on.
    DeterminantsNotPassedOn,
    /// Determinants are dropped when one peer has been sent them.
    DeterminantsDroppedEarly,
    /// Determinants are sent behind the message that depends on them.
    DeterminantsBehind,
    /// A peer is taken to have what it was sent on a connection that was lost.
    LostForgotten,
    /// A rank that starts again has stable events only.
    SurvivorsNotAsked,
    /// A rank that starts again takes its own events from survivors, and not those of others.
    OnlyOwnAdopted,
    /// What survivors have said counts also when another rank has died since.
    SurvivorsNotAskedAgain,
    /// Survivors that have said what they hold believe what still comes from the dead.
    DeadStillBelieved,
    /// The records of a set's members are downloaded while some of them are not stable.
    DownloadsUnstable,
    /// When a peer has a checkpoint, all that was logged for it is dropped.
    CollectsAll,
    /// A checkpoint is told before it is there.
    ToldBeforeCommitted,
    /// A checkpoint covers messages that nobody had received.
    UnreceivedIsCovered,
    /// Probes of a rank that goes on from a checkpoint are answered before all is there that was there then.
    ProbesBeforeAllIsHere,
    /// A rank that goes on from a checkpoint makes no call at all before that: two may wait for each other.
    NoCallsBeforeAllIsHere,
    /// A checkpoint is taken while events before it are not stable.
    CheckpointBeforeStable,
    /// What polls have not found before a checkpoint is counted after it.
    PollsAcrossCheckpoint,
    /// A checkpoint does not keep the log.
    LogNotInCheckpoint,
    /// That a synchronous message is matched is said without waiting for events (*every-frame-that-frees*).
    AckUngated,
    /// The rest of an announced message is asked for without waiting for events (*every-frame-that-frees*).
    ClearUngated,
    /// What polls have not found is not logged before a synchronous message is answered.
    PollsBeforeAnswerNotLogged,
    /// A synchronous message that its receiver has is not sent to ask for the answer.
    SynchronousSuppressed,
    /// What may have been answered on a connection that was lost is not asked for again.
    NotAskedAgain,
    /// A checkpoint that covers a synchronous message does not answer it.
    CommitDoesNotAnswer,
}
