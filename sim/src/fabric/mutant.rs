//! Ways to get the fabric wrong, each of which the tests must find out.

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A message arrives twice.
    MessageDoubled,
    /// A message that was accepted gets lost.
    MessageLost,
    /// A message loses its last byte.
    MessageTorn,
    /// Messages of an ordered channel overtake.
    OrderIgnored,
    /// There is always room.
    NeverBusy,
    /// A message is sent although `send` returns that there is no room.
    SentWhenBusy,
    /// Room that lost messages took is not given back.
    RoomLost,
    /// The end of a send is not reported.
    SentNever,
    /// The end of a send is reported twice.
    SentTwice,
    /// The end of a send is reported before its source was read.
    SentEarly,
    /// A log segment that is in use is taken again.
    SegmentReused,
    /// No log segment is ever free again.
    SegmentKept,
    /// What was on the way arrives after the end of the link was reported.
    ArrivesAfterEnd,
    /// What was on the way arrives on the link with the next incarnation.
    OldIncarnation,
    /// The end of a link is reported before messages that had arrived whole.
    EndBeforeMessages,
    /// A link is reported as closed before its last message.
    ClosedEarly,
    /// The end of a link is reported before the end of the rest of a message.
    EndBeforeRest,
    /// A link is reported as up twice.
    UpTwice,
    /// Other messages of a peer come before the rest of a message.
    RestInterrupted,
    /// The rest of a message that was lost has no end.
    RestNever,
    /// The rest of a message is written beyond the memory for it.
    RestTooLong,
    /// A receive buffer is written while the sink keeps it.
    LeaseReused,
    /// A get or put ends twice.
    MovedTwice,
    /// A get or put ends before all bytes have moved.
    MovedEarly,
    /// Memory can be reached after it was deregistered.
    RegionLingers,
    /// Memory is called drained while operations of the peer are under way.
    DrainedEarly,
    /// A link that breaks between living processes is taken for a death.
    VerdictByLink,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 27] = [
        Mutant::MessageDoubled,
        Mutant::MessageLost,
        Mutant::MessageTorn,
        Mutant::OrderIgnored,
        Mutant::NeverBusy,
        Mutant::SentWhenBusy,
        Mutant::RoomLost,
        Mutant::SentNever,
        Mutant::SentTwice,
        Mutant::SentEarly,
        Mutant::SegmentReused,
        Mutant::SegmentKept,
        Mutant::ArrivesAfterEnd,
        Mutant::OldIncarnation,
        Mutant::EndBeforeMessages,
        Mutant::ClosedEarly,
        Mutant::EndBeforeRest,
        Mutant::UpTwice,
        Mutant::RestInterrupted,
        Mutant::RestNever,
        Mutant::RestTooLong,
        Mutant::LeaseReused,
        Mutant::MovedTwice,
        Mutant::MovedEarly,
        Mutant::RegionLingers,
        Mutant::DrainedEarly,
        Mutant::VerdictByLink,
    ];
}
