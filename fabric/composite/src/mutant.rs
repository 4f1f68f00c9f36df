//! Mistakes that the tests of this crate must find. Outside of them there are none.

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests make mistakes"))]
pub(crate) enum Mutant {
    /// The key of far memory names the near rail.
    KeyOfWrongRail,
    /// A far peer gets the key that the near fabric has made.
    KeyOfOtherFabric,
    /// A key is resolved by the route of the peer, whatever rail it names.
    RailUnchecked,
    /// A kept receive buffer goes back to the other fabric.
    LeaseToOther,
    /// Both fabrics' receive buffers have the same names.
    LeaseAsItIs,
    /// A segment is released while the far fabric reads it.
    ReleasedWhileUsed,
    /// The far fabric is not given the segments.
    NotAdopted,
    /// A region of the near fabric only is deregistered.
    RegionLeft,
    /// Messages of near peers have the numbers of the near fabric.
    NearNumbers,
    /// The end of a far send is reported as that of a get.
    SentAsMoved,
    /// The tokens of the far fabric are reported as others.
    TokenOfOther,
    /// The end of the link with a far peer is asked of the near fabric.
    DisconnectNear,
    /// Whether a far peer is drained is asked of nobody.
    DrainedAtOnce,
    /// Whether all is sent to a far peer is asked of nobody.
    FlushedAtOnce,
    /// A wait is not armed for the far fabric.
    FarNotArmed,
    /// The descriptor is the near fabric's.
    NearDescriptor,
    /// The far fabric is polled when the near one has nothing.
    FarStarves,
    /// The far fabric is polled every time.
    FarEveryTime,
    /// The far fabric is polled without a link.
    FarWithoutLink,
    /// What comes over the far fabric from a rank of this node is handed over.
    StrangerHeard,
    /// A rank moves while its link is up.
    MovedAtOnce,
}

#[cfg(test)]
thread_local! {
    /// The mistake that this thread makes.
    pub(crate) static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

impl Mutant {
    /// Whether this mistake is to be made.
    #[cfg(test)]
    pub(crate) fn lives(self) -> bool {
        CHOSEN.get() == Some(self)
    }

    /// Whether this mistake is to be made: never.
    #[cfg(not(test))]
    #[inline(always)]
    pub(crate) const fn lives(self) -> bool {
        false
    }
}
