//! Mistakes made on purpose, each of which the simulator must find: mutants of the product.
//!
//! A mutant is a condition at the place where a rule is: `if !mutant!(GateIgnored) && ..`. It is the constant `false` but in a
//! build with `--cfg mutants`, which only the simulator has (`docs/decisions/mutants.md`), and then only in a thread that has
//! [selected](select) it.

use std::str::FromStr;

/// Whether the thread has selected this mutant. The constant `false` without `--cfg mutants`.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        (cfg!(mutants) && $crate::mutants::selected() == Some($crate::mutants::Mutant::$name))
    };
}

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// What is wrong on purpose. *Italics* are the names of conditions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Mutant] = &[$(Mutant::$name),+];

            /// Its name on a command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mutant::$name => $text,)+
                }
            }
        }
    };
}

mutants! {
    // Sending.
    /// A message that its receiver has is not logged again (*replay-saves*).
    SuppressedNotLogged = "suppressed-not-logged",
    /// A synchronous message that its receiver has is not sent to ask for the answer.
    SynchronousSuppressed = "synchronous-suppressed",
    /// Messages do not wait until a peer has reported what it has (*lowered-and-held*).
    HeldIsSent = "held-is-sent",
    /// What was held while a peer was away is not sent.
    HeldIsForgotten = "held-is-forgotten",
    /// Messages to a peer that has died are not held (*lowered-and-held*).
    HoldDropped = "hold-dropped",
    /// What a peer had before it died counts as what it has now (*lowered-and-held*).
    NotLowered = "not-lowered",
    /// What a peer reports to have is dropped from the log.
    DiscardedEarly = "discarded-early",
    /// Answers that a peer may have sent on a lost connection are not asked for again.
    NotAskedAgain = "not-asked-again",
    /// When messages are sent again, the first page of the log is skipped.
    PageSkipped = "page-skipped",
    /// A spilled segment is read from the place of the one before it.
    SpillReadElsewhere = "spill-read-elsewhere",
    /// A segment of the log is reused while one of its messages may still be asked for.
    SegmentReusedEarly = "segment-reused-early",
    /// A segment that comes back from the spill store is sent before it is read.
    SegmentUsedUnread = "segment-used-unread",
    /// A message passes one that is sent again before it and waits for the disk (*in-order*).
    DiskOvertaken = "disk-overtaken",
    /// A segment of the log is reused while it is being written to the spill store (*kept-buffers*).
    SegmentReusedInWrite = "segment-reused-in-write",
    /// Of a message that leaves before it is logged, the length in front does not count as sent.
    SentMiscounted = "sent-miscounted",
    /// The rest of a message that has left in part before it was logged begins with its first byte.
    RestBegunAgain = "rest-begun-again",
    /// A message that leaves before it is logged is written without making room for it.
    WrittenWithoutRoom = "written-without-room",
    /// A frame that the fabric has accepted is sent a second time.
    FrameSentTwice = "frame-sent-twice",

    // The gate.
    /// Frames leave the set whatever is stable.
    GateIgnored = "gate-ignored",
    /// Frames wait for the events of their sender only, not for those of its set.
    GateOfOwnEvents = "gate-of-own-events",
    /// The gate opens one event early.
    GateOpensEarly = "gate-opens-early",
    /// A frame waits for the events that its sender knew of when it last looked, not for all that are written.
    TicketOutdated = "ticket-outdated",
    /// Messages that are sent again do not wait for events.
    SentAgainUngated = "sent-again-ungated",
    /// An RTS does not wait for events (*every-frame-that-frees*).
    RtsUngated = "rts-ungated",
    /// A CTS does not wait for events (*every-frame-that-frees*).
    ClearUngated = "clear-ungated",
    /// An ACK does not wait for events (*every-frame-that-frees*).
    AckUngated = "ack-ungated",
    /// A FINALIZE_NAK does not wait for events (*every-frame-that-frees*).
    FinalizeNakUngated = "finalize-nak-ungated",
    /// A LOAN_RETURN does not wait for events. Loans stay within a set: in causal logging it goes without determinants.
    LoanReturnUngated = "loan-return-ungated",
    /// A FINALIZE does not wait for events (*every-frame-that-frees*).
    FinalizeUngated = "finalize-ungated",
    /// Polls that have found nothing are not logged before a message is sent.
    NothingNotLogged = "nothing-not-logged",
    /// Polls that have found nothing are not logged before a control frame is sent.
    PollsBeforeAnswerNotLogged = "polls-before-answer-not-logged",

    // Receiving.
    /// A message that was here before is delivered again, and senders do not suppress it.
    DuplicatesDelivered = "duplicates-delivered",
    /// A message that the log gives to one receive is given to another.
    NotReserved = "not-reserved",
    /// A replayed reception does not move the number that is expected next (*replay-saves*).
    ReplayedNotCounted = "replayed-not-counted",
    /// Messages of which a part is here are not reported as missing.
    MissingUnreported = "missing-unreported",
    /// A rank says that its program is over before what it has sent has left.
    FinalizingEarly = "finalizing-early",
    /// It says so before the events of its set are stable.
    FinalizingUngated = "finalizing-ungated",
    /// What the roster says of a program that is over is believed of a peer whose messages may be on their way.
    FinalizingBelievedOfLinked = "finalizing-believed-of-linked",
    /// A rank that was restarted does not hear of it from ranks that have published it before.
    FinalizingOnce = "finalizing-once",
    /// A rank does not connect with a neighbour that was restarted.
    RestartedNotCalled = "restarted-not-called",
    /// Nor with the rank that a message is held for.
    HeldCallsNobody = "held-calls-nobody",
    /// A rank that resumes from a checkpoint does not connect with those of which that has something.
    CheckpointedNotCalled = "checkpointed-not-called",
    /// Nor does a rank whose end depends on events out of its sight with those that it sends FINALIZE.
    EndCallsNobody = "end-calls-nobody",
    /// What is sent to a rank that was restarted, and calls before its death was heard of, does not wait for the exchange.
    CallerNotSuspended = "caller-not-suspended",
    /// A rank that needs no link with one that was restarted does not count it.
    RestartUncounted = "restart-uncounted",
    /// A rank leaves without a last look for peers that have died or were restarted.
    LastLookOmitted = "last-look-omitted",
    /// FINALIZE does not go to a peer that has connected since the program was over.
    LateCallerNotAnswered = "late-caller-not-answered",
    /// The first piece of a message of the restart exchange is taken for all of it.
    PieceTakenForAll = "piece-taken-for-all",
    /// A message that comes again is put behind the part of it that was here.
    RefillAppended = "refill-appended",
    /// A message that waits for its body when its sender dies is not known to be incomplete.
    PartialForgotten = "partial-forgotten",
    /// The same, of the message whose pieces were just arriving.
    InflowForgotten = "inflow-forgotten",
    /// Frames leave and calls are decided while events wait for room in the ring.
    EventPassed = "event-passed",
    /// The announcement of a dead peer is taken for one of its next incarnation.
    AnnouncementOfDeadKept = "announcement-of-dead-kept",
    /// A message whose rest was lost with its link is delivered.
    LostRestDelivered = "lost-rest-delivered",
    /// The receive buffer of an unexpected message is returned before the message is copied.
    LeaseReturnedEarly = "lease-returned-early",
    /// The receive buffer of an unexpected message is returned twice.
    LeaseReturnedTwice = "lease-returned-twice",
    /// The receive buffer of an unexpected message is not returned. Costs receive buffers only.
    LeaseNotReturned = "lease-not-returned",

    // Peers that die and return.
    /// What a dead incarnation has reported to have is believed after its death.
    OldIncarnationBelieved = "old-incarnation-believed",
    /// An earlier incarnation that connects is believed (*old-incarnations-die*).
    OldIncarnationMet = "old-incarnation-met",
    /// A peer that may have missed COMMITTED does not get another (*commit-then-announce*).
    CommittedNotRepeated = "committed-not-repeated",
    /// Frames that waited for a dead peer are sent to its next incarnation.
    BacklogKept = "backlog-kept",
    /// Answers to a dead peer are sent to its next incarnation.
    StaleAnswersKept = "stale-answers-kept",
    /// An answer that waits for the gate when its peer is dead is sent to the next incarnation.
    AnswerToDeadGated = "answer-to-dead-gated",
    /// The names that a dead incarnation gave to its sends are answered.
    StaleNamesKept = "stale-names-kept",
    /// Peers are believed to mean an operation that is over by its name.
    FormerNameBelieved = "former-name-believed",
    /// The end of a former get or put ends the one that has its place.
    FormerTokenBelieved = "former-token-believed",
    /// A send that its receiver was fetching when it died does not begin again.
    SendNotBegunAgain = "send-not-begun-again",
    /// A peer that was throttled when it died counts as throttled when it is back.
    ThrottleKept = "throttle-kept",
    /// A rank that was started again stops peers, which send again more than it needs now.
    ReplayStops = "replay-stops",
    /// Peers that were stopped are not let go.
    StopNotLifted = "stop-not-lifted",
    /// A sender does not stop.
    StopIgnored = "stop-ignored",
    /// Answers wait behind messages that their receiver has stopped (*control-passes-bodies*).
    AnswersWithheld = "answers-withheld",
    /// A peer that had finalised before it died counts as finalised when it is back.
    SilenceKept = "silence-kept",
    /// FINALIZE leaves before messages that are held (*nothing-after-farewell*).
    FinalizeBeforeHeld = "finalize-before-held",
    /// A peer that has missed FINALIZE by its death does not get another.
    FinalizeNotRepeated = "finalize-not-repeated",
    /// A peer that has broken the protocol is an error of the program, which a replay does not have.
    GarbageSurvived = "garbage-survived",
    /// A peer starts before its last checkpoint, and lacks messages that were dropped for that (*oldest-usable*).
    DroppedNotMissed = "dropped-not-missed",
    /// A broken link is taken for a death (*one-verdict*).
    LinkTakenForVerdict = "link-taken-for-verdict",
    /// What was on a link that broke between two that live is not sent again.
    LostLinkNotSettled = "lost-link-not-settled",
    /// A loan is taken back while its borrower may still look at it (*drained-before-reuse*).
    LoanTakenBackEarly = "loan-taken-back-early",
    /// A send to a peer that is gone ends while the fabric still reads its memory.
    EndsWhileLent = "ends-while-lent",
    /// A verdict on an incarnation counts as one on its successor, which has connected already (*one-verdict*).
    OldVerdictBelieved = "old-verdict-believed",
    /// What comes over the link with a process that is dead is taken in (*old-incarnations-die*).
    DeadStillHeard = "dead-still-heard",
    /// The fabric does not learn that a peer has finished, whose lost link it makes anew (*one-verdict*).
    FinishedUnknown = "finished-unknown",
    /// A receive ends although a get over a former link still writes its memory.
    EndsWhileWritten = "ends-while-written",
    /// Fragments that a link had taken which has ended count as those that its next link takes.
    FormerFragmentBelieved = "former-fragment-believed",
    /// The end of a message that came over a link which has ended is taken in.
    FormerRestBelieved = "former-rest-believed",

    // Peers that die and do not return: messages are not logged.
    /// A send that waits for its receiver is not ended when the receiver has died.
    RtsAwaitsDead = "rts-awaits-dead",
    /// A receive that is posted when its sender is gone is not ended.
    ReceiveAwaitsDead = "receive-awaits-dead",
    /// A message that is here whole is dropped when its sender dies.
    WholeMessageDropped = "whole-message-dropped",
    /// A receive from any source ends with the first sender that dies.
    AnySourceEndsEarly = "any-source-ends-early",

    // The event logger.
    /// The event logger makes the events of each rank stable by themselves, instead of those of a set together.
    LoggerCutsEachRank = "logger-cuts-each-rank",
    /// The event logger makes cuts of a set before it serves all of its members.
    LoggerDoesNotWait = "logger-does-not-wait",
    /// The event logger says that events are stable before they are.
    LoggerPromises = "logger-promises",
    /// The event logger believes the whole records of a torn cut.
    LoggerBelievesTornCut = "logger-believes-torn-cut",
    /// The event logger writes that a cut is valid before it writes what is in it.
    LoggerSealsFirst = "logger-seals-first",

    // Event loggers that each keep a copy.
    /// An event is stable when one of several copies has it (*every-copy*).
    OneCopyIsEnough = "one-copy-is-enough",
    /// An event is written over when one of several copies has it (*every-copy*).
    RoomOfOneCopy = "room-of-one-copy",
    /// A copy that replaces another begins with saying that it has all that is in the ring (*every-copy*).
    CopyCountsUnfilled = "copy-counts-unfilled",
    /// A copy that was given the events of some ranks counts as one that has all.
    FillingCopyCounts = "filling-copy-counts",
    /// An event logger that is gone counts as one that is there.
    GoneCopyCounts = "gone-copy-counts",

    // Calls.
    /// A receive whose message is in the log is posted as any other.
    FateIgnored = "fate-ignored",
    /// Polls are answered by what is here, not by the log.
    PollsNotReplayed = "polls-not-replayed",
    /// Polls that have found nothing are not logged before the match of a receive that was posted later.
    PollsBeforeMatchForgotten = "polls-before-match-forgotten",
    /// The match of a receive from any source is not logged.
    MatchNotLogged = "match-not-logged",
    /// The one of several requests that has completed is not logged.
    WaitAnyNotLogged = "wait-any-not-logged",
    /// The operation that a completion poll has found is not logged.
    CompletionNotLogged = "completion-not-logged",
    /// The message that a probe has found is not logged.
    ProbeNotLogged = "probe-not-logged",
    /// The message that a claim has taken is not logged.
    ClaimNotLogged = "claim-not-logged",
    /// A cancellation that came too late is not logged.
    LateCancelNotLogged = "late-cancel-not-logged",

    // Causal logging.
    /// Determinants of others are not passed on.
    DeterminantsNotPassedOn = "determinants-not-passed-on",
    /// Determinants are dropped when one peer has been sent them.
    DeterminantsDroppedEarly = "determinants-dropped-early",
    /// Determinants are sent behind the message that depends on them.
    DeterminantsBehind = "determinants-behind",
    /// A peer is taken to have what it was sent on a connection that was lost.
    LostForgotten = "lost-forgotten",
    /// A rank that starts again takes its own events from survivors, and not those of others.
    OnlyOwnAdopted = "only-own-adopted",
    /// Determinants of others are not noted in the held table (*determinant-before-effect*).
    HeldNotNoted = "held-not-noted",
    /// Messages of the dead are taken in though the roster says that they are (*closed-door*).
    DoorOpen = "door-open",

    // Checkpoints.
    /// When a peer has a checkpoint, all that was logged for it is dropped.
    CollectsAll = "collects-all",
    /// What a peer's checkpoint names as missing is dropped from the log with the messages around it.
    MissingCollected = "missing-collected",
    /// A page of the log is dropped when a checkpoint covers one of its runs.
    PageDroppedEarly = "page-dropped-early",
    /// A checkpoint is announced before it is stored (*commit-then-announce*).
    AnnouncedBeforeCommit = "announced-before-commit",
    /// A checkpoint is announced when it is committed, and not when it is on another node.
    AnnouncedBeforeElsewhere = "announced-before-elsewhere",
    /// A checkpoint covers messages that nobody had received.
    UnreceivedIsCovered = "unreceived-is-covered",
    /// Probes of a rank that resumes from a checkpoint are answered before all is here that was here then.
    ProbesBeforeAllIsHere = "probes-before-all-is-here",
    /// A rank that resumes from a checkpoint lets every call that can wait do so until then: two may wait for each other.
    NoCallsBeforeAllIsHere = "no-calls-before-all-is-here",
    /// A checkpoint is taken while events before it are not stable.
    CheckpointBeforeStable = "checkpoint-before-stable",
    /// A checkpoint is taken in the middle of a replay.
    CheckpointInReplay = "checkpoint-in-replay",
    /// Polls that have found nothing before a checkpoint are counted after it.
    PollsAcrossCheckpoint = "polls-across-checkpoint",
    /// A completion queue that was drained before a checkpoint counts as drained after it.
    DrainedAcrossCheckpoint = "drained-across-checkpoint",
    /// A checkpoint does not keep the log (*log-by-value-off-node*).
    LogNotInCheckpoint = "log-not-in-checkpoint",
    /// A checkpoint keeps only the end of the log, without its pages (*log-by-value-off-node*).
    PagesNotInCheckpoint = "pages-not-in-checkpoint",
    /// A checkpoint that covers a synchronous message does not answer it.
    CommitDoesNotAnswer = "commit-does-not-answer",
    /// The numbers of what is sent are not restored from a checkpoint.
    SentNotRestored = "sent-not-restored",
    /// The numbers of what was received are not restored from a checkpoint.
    ReceivedNotRestored = "received-not-restored",
    /// Messages that nobody had received before a checkpoint are taken for received after it.
    UnreceivedNotRestored = "unreceived-not-restored",
    /// The number of receives posted is not restored from a checkpoint.
    PostsNotRestored = "posts-not-restored",
    /// The number of operations whose ends are reported is not restored from a checkpoint.
    SerialNotRestored = "serial-not-restored",
}

/// There is no mutant of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no mutant {name:?}")]
pub struct UnknownMutant {
    /// The name.
    pub name: String,
}

impl FromStr for Mutant {
    type Err = UnknownMutant;

    fn from_str(name: &str) -> Result<Self, UnknownMutant> {
        let found = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
        found.copied().ok_or_else(|| UnknownMutant { name: name.to_owned() })
    }
}

/// This build has no mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this build has no mutants: build with RUSTFLAGS='--cfg mutants'")]
pub struct NoMutants;

#[cfg(mutants)]
thread_local! {
    static SELECTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Selects a mutant, or none, in this thread, until another is selected.
///
/// # Errors
/// [`NoMutants`] when one is to be selected in a build without them.
pub fn select(mutant: Option<Mutant>) -> Result<(), NoMutants> {
    #[cfg(mutants)]
    SELECTED.set(mutant);
    if cfg!(mutants) || mutant.is_none() { Ok(()) } else { Err(NoMutants) }
}

/// Runs something with a mutant.
///
/// # Panics
/// In a build without mutants.
#[expect(clippy::expect_used, reason = "for tests: a build without mutants is their mistake")]
pub fn with<T>(mutant: Mutant, run: impl FnOnce() -> T) -> T {
    select(Some(mutant)).expect("a build with mutants");
    let result = run();
    select(None).expect("none can always be selected");
    result
}

/// The mutant that this thread has selected.
#[inline]
pub fn selected() -> Option<Mutant> {
    #[cfg(mutants)]
    return SELECTED.get();
    #[cfg(not(mutants))]
    None
}

#[cfg(test)]
mod tests;
