//! Situations that schedules must reach.

use std::fmt;

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A situation that schedules must reach, or they test less than they seem to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Situation {
            $($(#[$doc])* $name,)*
        }

        impl Situation {
            /// All of them.
            pub const ALL: &'static [Situation] = &[$(Situation::$name,)*];

            /// Its name in lists.
            pub fn name(self) -> &'static str {
                match self {
                    $(Situation::$name => $text,)*
                }
            }
        }
    };
}

situations! {
    /// There was no room for a message.
    Busy = "busy",
    /// A send of user memory was to end later, and has.
    LaterCompletion = "later-completion",
    /// The same, and it has ended in an error.
    LaterFailed = "later-failed",
    /// A send ended in an error, and its message arrived.
    FailedYetArrived = "failed-yet-arrived",
    /// A message was handed over with its head alone.
    StreamHead = "stream-head",
    /// The beginning of a message was handed over before the rest.
    StreamSplit = "stream-split",
    /// The sink did not want the rest.
    StreamDropped = "stream-dropped",
    /// The sink had less memory than the rest.
    RestCut = "rest-cut",
    /// The sink kept a receive buffer.
    LeaseKept = "lease-kept",
    /// There was no receive buffer left to be kept.
    LeasesUsedUp = "leases-used-up",
    /// A message has overtaken another of its channel.
    Overtaken = "overtaken",
    /// Messages of two senders arrived in another order than they were sent.
    ChannelsCrossed = "channels-crossed",
    /// A segment was released while a message from it was on the way.
    ReleasedInFlight = "released-in-flight",
    /// A segment was taken again.
    SegmentAgain = "segment-again",
    /// All segments were in use.
    SegmentsUsedUp = "segments-used-up",
    /// A get or put has moved in parts.
    TransferSplit = "transfer-split",
    /// There was no room for one more get or put.
    TransferBusy = "transfer-busy",
    /// A get or put was refused, since it is not offered or there is no link.
    GetRefused = "get-refused",
    /// A get or put found no memory behind its key.
    TransferNowhere = "transfer-nowhere",
    /// Memory was deregistered with a get or put under way.
    DeregisteredUnderWay = "deregistered-under-way",
    /// A device has moved bytes for a process that was dead.
    DeadMoved = "dead-moved",
    /// A get has read memory of a process that was dead.
    DeadRead = "dead-read",
    /// Memory was not drained yet when the end of the link was known.
    NotDrained = "not-drained",
    /// A view of a peer's memory.
    Mapped = "mapped",
    /// A link between two living processes broke.
    LinkBroken = "link-broken",
    /// A link between two living processes was made anew.
    LinkHealed = "link-healed",
    /// Messages got lost with a link.
    LostWithLink = "lost-with-link",
    /// A message was sent on a link that had broken, and the sender did not know.
    SentOnBroken = "sent-on-broken",
    /// A message arrived on a link that its sender already knew to be broken.
    ArrivedOnBroken = "arrived-on-broken",
    /// A process ended its link with a peer.
    Disconnected = "disconnected",
    /// A process has closed in good order.
    Closed = "closed",
    /// The same, with messages of it still on the way.
    ClosedWithMessages = "closed-with-messages",
    /// A process has died.
    Died = "died",
    /// The same, in the middle of a message.
    DiedMidStream = "died-mid-stream",
    /// The same, with a get or put of it or from it under way.
    DiedMidTransfer = "died-mid-transfer",
    /// A message of a dead process has arrived.
    DeadArrived = "dead-arrived",
    /// A link with a new incarnation came up.
    NewIncarnation = "new-incarnation",
    /// A process heard of a death before its link broke.
    VerdictFirst = "verdict-first",
    /// A link was up with a new incarnation before the verdict on the old one.
    VerdictLate = "verdict-late",
    /// A process has heard of a restart alone, not of the death.
    VerdictSkipped = "verdict-skipped",
}

/// How often each situation was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage([u64; Situation::ALL.len()]);

impl Default for Coverage {
    fn default() -> Self {
        Coverage([0; Situation::ALL.len()])
    }
}

impl Coverage {
    /// Counts one.
    pub fn reach(&mut self, situation: Situation) {
        self.0[situation as usize] += 1;
    }

    /// How often it was reached.
    pub fn of(&self, situation: Situation) -> u64 {
        self.0[situation as usize]
    }

    /// Adds what was reached elsewhere.
    pub fn add(&mut self, other: &Coverage) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Names of the situations that were never reached.
    pub fn missing(&self) -> Vec<&'static str> {
        let missed = Situation::ALL.iter().filter(|&&one| self.of(one) == 0);
        missed.map(|one| one.name()).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Situation::ALL.iter().try_for_each(|&one| writeln!(f, "{:>9} {}", self.of(one), one.name()))
    }
}
