//! A fabric on top of another one that is unfriendly within the contract ([`Trouble`]), or breaks it in one chosen way
//! ([`Defect`]).
//!
//! An engine that works over [`Faulty`] with every trouble relies on nothing but the contract of [`Fabric`]. A suite
//! that passes a fabric with any defect is worth nothing.

mod defect;
mod fabric;
mod handing;
mod intake;
mod sending;
mod state;

pub use defect::Defect;

use crate::{Fabric, PeerId};
use state::State;

/// A fabric of type `F`, with faults.
///
/// The constants of [`Fabric`] follow from the type: `IN_ORDER` is its [`ORDERED`](Fabric::ORDERED) where `F` is
/// ordered as well, `STREAMING` its [`STREAMS`](Fabric::STREAMS), `LEASING` its [`LEASES`](Fabric::LEASES). A fabric that may
/// stream, or lease, does so with messages chosen at random.
pub struct Faulty<
    F,
    const IN_ORDER: bool = true,
    const STREAMING: bool = false,
    const LEASING: bool = false,
> {
    inner: F,
    state: State,
}

/// Hands over the bodies of messages in two or more steps.
pub type Streaming<F> = Faulty<F, true, true, false>;
/// Hands over the bodies of messages in receive buffers that the sink can keep.
pub type Leasing<F> = Faulty<F, true, false, true>;
/// Hands over bodies in every way.
pub type Mixed<F> = Faulty<F, true, true, true>;
/// Hands over the messages of one peer in any order, and bodies in every way.
pub type Unordered<F> = Faulty<F, false, true, true>;

/// What is wrong, or only unfriendly, with a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The one rule that it breaks.
    pub defect: Option<Defect>,
    /// The peer that a defect concerns, if it is one of those that concern one; all peers if `None`.
    pub of: Option<PeerId>,
    /// What it does within the rules.
    pub trouble: Trouble,
}

/// What a fabric may do by the contract, and seldom does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Seed of all random choices.
    pub seed: u64,
    /// Refuses sends, gets and puts with [`Busy`](crate::Refused::Busy) at random.
    pub busy: bool,
    /// Hands over what has arrived some polls later.
    pub late: bool,
    /// Sends [user memory](crate::Source::User) some polls later, and reads it only then.
    pub later: bool,
    /// Changes the order of what comes from different peers.
    pub reorder: bool,
}

impl Faults {
    /// Breaks one rule.
    pub fn defect(defect: Defect) -> Faults {
        Faults { defect: Some(defect), ..Faults::default() }
    }

    /// Breaks no rule, and makes trouble.
    pub fn trouble(trouble: Trouble) -> Faults {
        Faults { trouble, ..Faults::default() }
    }
}

impl Trouble {
    /// All of it.
    pub fn all(seed: u64) -> Trouble {
        Trouble { seed, busy: true, late: true, later: true, reorder: true }
    }
}

impl<F: Fabric, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>
    Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    /// `inner`, with these faults.
    pub fn new(inner: F, faults: Faults) -> Self {
        let state = State::new(faults, inner.me());
        Faulty { inner, state }
    }

    /// Receive buffers that the sink keeps.
    pub fn kept_leases(&self) -> usize {
        self.state.leases.len()
    }
}
