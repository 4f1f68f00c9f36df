//! Ways to break the protocol on purpose, each of which the simulator must find. They exist in tests only.

/// Whether the product's code is broken in this way; never outside of tests.
macro_rules! mutant {
    ($mutant:ident) => {{
        #[cfg(test)]
        let broken = $crate::mutant::is($crate::mutant::Mutant::$mutant);
        #[cfg(not(test))]
        let broken = false;
        broken
    }};
}

#[cfg(test)]
pub(crate) use in_tests::*;

#[cfg(test)]
mod in_tests {
    use std::cell::Cell;

    /// What is wrong, on purpose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Mutant {
        /// An agent counts its lease from when the grant came, not from when it asked.
        LeaseFromReceipt,
        /// An agent does not look at its deadline, and its guard is not told of it.
        DeadlineIgnored,
        /// The guard is not told of the deadline: a stopped agent ends no ranks.
        GuardNotArmed,
        /// An agent that wakes handles an event before it looks at its clock.
        CheckAfterAct,
        /// The launcher waits for the length of the lease, and not for clocks and kills.
        NoMargin,
        /// The launcher takes a node as ended when its channel breaks.
        EndedWhenBroken,
        /// The launcher believes what comes late from nodes and incarnations that it has given up.
        LateBelieved,
        /// The launcher takes a node as ended when it has revoked it.
        EndedWhenRevoked,
        /// Two nodes that do not reach each other are left to wait.
        LinksAwaited,
        /// A link whose report is not repeated is down until its rank says something else.
        SilenceCounts,
        /// Ranks are started before all agents have the roster.
        AcksNotAwaited,
        /// Ranks are started when the agents that can be reached have the roster.
        AcksOfCutNotAwaited,
        /// A node that comes up late gets changes of the roster, and not the roster.
        LateNodeWithoutRoster,
        /// A node that comes up late does not get the values of the exchange.
        LateNodeWithoutValues,
        /// A node that comes up late does not hear which barriers are complete.
        LateNodeWithoutBarriers,
        /// An agent says that a rank has ended when it kills it.
        EndedAtKill,
        /// A fenced agent says goodbye when it kills its ranks.
        GoodbyeAtKill,
        /// Barriers that a dead incarnation has entered count for its successor.
        EnteredByTheDead,
        /// Ranks start while not all nodes of the job are up.
        BeginsEarly,
        /// A rank that waited for a node that has ended is not placed anew.
        NotPlacedAnew,
        /// A rank whose log is on a node that cannot be reached is started elsewhere, without it.
        RestartedWithoutLog,
        /// The reliable host is as good as any other.
        ReliablePassedOver,
        /// The launcher waits for what a lost node was asked for.
        LostAnswerAwaited,
        /// An agent says that events are copied when it is asked to copy them.
        CopiedWhenOrdered,
        /// A checkpoint is announced when it is taken, and not when it is where the copy of its events is.
        AnnouncedBeforeElsewhere,
        /// A copy counts until the next one is complete.
        FormerCopyCounts,
        /// Ranks of a set are started one by one where their logs are, as these come.
        SetInParts,
        /// Ranks that stay together start from several copies, where one of these is lost meanwhile.
        CopiesMixed,
        /// In causal logging, ranks that are recovered one after the other start from several copies.
        OtherCopyUsed,
        /// A copy counts though its node has said that it does not have it.
        LostCopyCounts,
        /// A copy is brought to a node that has another one of the same events.
        TwoOnOneNode,
        /// Of several copies only the first one is used.
        FirstCopyAlone,
        /// An event is stable when the first of several copies has it.
        FirstCopyAwaited,
        /// A checkpoint is announced when the first of several copies has it.
        AnnouncedWithFirstCopy,
        /// A copy counts as whole when ranks have come to its node that it does not have.
        ArrivalsNotCopied,
        /// A log of a rank is taken to be where it is to be brought.
        BringNotAwaited,
        /// A log that does not arrive where it is to be brought is awaited.
        BringAwaited,
        /// The copy from which a rank was started is used again, with what it has logged since missing.
        FormerLogUsed,
        /// The ranks of a correlated set are placed apart.
        SetsSpread,
        /// Ranks of a lost node are started when one of the survivors has answered.
        OneAnswerIsEnough,
        /// The launcher believes FINALIZING of a rank that does not know of all restarts.
        StaleFinalizingBelieved,
        /// Ranks stay FINALIZING in the roster when another one is restarted.
        FinalizingKept,
        /// They are LIVE again also when that one is to be started on another node, though they know of it.
        FinalizingTakenBackTwice,
    }

    thread_local! {
        static BROKEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether this is wrong.
    pub(crate) fn is(mutant: Mutant) -> bool {
        BROKEN.get() == Some(mutant)
    }

    /// Makes this wrong, and nothing else, on this thread.
    #[cfg(not(loom))]
    pub(crate) fn set(mutant: Option<Mutant>) {
        BROKEN.set(mutant);
    }
}
