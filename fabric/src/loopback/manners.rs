//! Ways to break the contract.

/// What the network does wrong, to about one event in a hundred. A suite that does not notice is
/// worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Nothing.
    Good,
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
    /// A message arrives although its sender was told that there is no room.
    SendWhenBusy,
    /// There is always room.
    NeverBusy,
    /// No room towards one peer means no room towards any.
    AllBusy,
    /// An armed sleeper is not woken.
    LoseWakeUp,
    /// Sleeping does not sleep.
    NeverSleep,
    /// A get or put ends twice.
    CompleteTwice,
    /// A get or put says that it has ended, and never began.
    CompleteOnly,
    /// A get or put moves a byte too many.
    OneByteMore,
    /// Memory can be reached after it was deregistered.
    Linger,
    /// The news of a peer's end overtakes its last message.
    FailEarly,
    /// A peer's end is told twice.
    FailTwice,
    /// A peer's end is not told.
    FailNever,
    /// Recycled memory is not zeroed.
    Dirty,
}
