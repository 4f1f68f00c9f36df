//! Ways to break the contract.

/// What a fabric does wrong. Of messages, gets and puts it is about one in a hundred, of what happens once for each
/// peer every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A message gets lost.
    Lose,
    /// A message overtakes the one before it.
    Reorder,
    /// A message arrives twice.
    Duplicate,
    /// A byte of a long message changes.
    Corrupt,
    /// A message loses its last byte.
    Truncate,
    /// The highest bit of a head's tag is not carried.
    ForgetBit,

    /// A message arrives although its sender got the answer that there is no room.
    SendWhenBusy,
    /// There is always room.
    NeverBusy,
    /// No room towards one peer means no room towards any.
    AllBusy,

    /// What arrives between arming and sleeping does not end the sleep.
    LoseWakeUp,
    /// Sleeping does not sleep.
    NeverSleep,

    /// A get or put ends twice.
    CompleteTwice,
    /// A get or put says that it has ended, and never began.
    CompleteOnly,
    /// A get or put that fails does not end.
    FailWithoutEnd,
    /// A get or put moves a byte too many.
    OneByteMore,
    /// Memory can be reached after it was deregistered.
    Linger,
    /// After the end of a link, registered memory cannot be taken back.
    HoldRegion,
    /// Allocated memory is not zeroed.
    Dirty,

    /// The end of a link is not reported.
    EndNever,
    /// The end of a link is reported twice.
    EndTwice,
    /// The end of the link with another peer is reported.
    EndOfAnother,
    /// A broken link is reported as closed, and a closed one as broken.
    EndMisnamed,
    /// A link with a peer that has been silent for some milliseconds is reported as broken.
    EndOfSilent,
    /// The last message comes after the end of the link was reported.
    LastAfterEnd,
    /// The last message before the end of a link arrives twice.
    LastTwice,
    /// The last message before the end of a link arrives with a byte too few.
    LastTorn,
    /// The last message before the end of a link gets lost.
    LastLost,
    /// Sends without a link are accepted.
    AcceptWithoutLink,
    /// After the end of one link nothing of other peers arrives any more.
    StallAfterEnd,
    /// Memory is called drained while the link is up.
    DrainedEarly,
    /// Memory is never called drained.
    DrainedNever,

    /// The end of a send that ends later is not reported.
    SentNever,
    /// The end of a send that ends later is reported twice.
    SentTwice,
    /// The end of a send is reported before its source was read.
    SentEarly,
    /// The end of a send is reported that has ended at once.
    SentForNow,
    /// A send has ended at once, and its source is read later.
    SourceReadLate,

    /// The rest of a message never ends.
    RestNever,
    /// The rest of a message ends twice.
    RestTwice,
    /// The last byte of the rest of a message is missing when it has ended.
    RestShort,
    /// A rest that is longer than the memory for it is written beyond its end.
    RestTooLong,
    /// The next message of a peer comes before the rest of the one before.
    RestInterrupted,
    /// A receive buffer is written while the sink keeps it.
    LeaseReused,
}

impl Defect {
    /// The defect has to do with the last message before the end of a link.
    pub(super) fn is_of_last_message(self) -> bool {
        use Defect::{LastAfterEnd, LastLost, LastTorn, LastTwice};
        matches!(self, LastAfterEnd | LastTwice | LastTorn | LastLost)
    }
}
