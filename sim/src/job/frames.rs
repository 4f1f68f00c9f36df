//! Which frames of the engine schedules have reached, and which outcomes of calls.

use crate::call::{Call, Outcome};
use std::fmt;
use taffrail_engine::kind;

/// The frames that programs of the simulator must reach: their kinds and names.
const REACHED: [(u8, &str); 22] = [
    (kind::EAGER, "EAGER"),
    (kind::EAGER_SYNC, "EAGER_SYNC"),
    (kind::EAGER_DATA, "EAGER_DATA"),
    (kind::EAGER_FIRST, "EAGER_FIRST"),
    (kind::EAGER_FRAG, "EAGER_FRAG"),
    (kind::RTS, "RTS"),
    (kind::RTS_DATA, "RTS_DATA"),
    (kind::CTS, "CTS"),
    (kind::RNDV_DATA, "RNDV_DATA"),
    (kind::ACK, "ACK"),
    (kind::THROTTLE, "THROTTLE"),
    (kind::RESTART, "RESTART"),
    (kind::FINALIZE, "FINALIZE"),
    (kind::DETERMINANTS, "DETERMINANTS"),
    (kind::FINALIZE_NAK, "FINALIZE_NAK"),
    (kind::LOAN, "LOAN"),
    (kind::LOAN_RETURN, "LOAN_RETURN"),
    (kind::GET_REQ, "GET_REQ"),
    (kind::PUT_REQ, "PUT_REQ"),
    (kind::ATOMIC, "ATOMIC"),
    (kind::NAK_KEY, "NAK_KEY"),
    (kind::ACTIVE, "ACTIVE"),
];

/// What calls come to, which programs must reach.
const CALLS: [&str; 19] = [
    "a probe has seen a message",
    "a message was claimed",
    "a test has found its request over",
    "a poll has found nothing",
    "one of several has ended",
    "cancelled in time",
    "cancelled too late",
    "a synchronous send was answered",
    "a send whose message is not received",
    "an end was reported",
    "a message of a receive of many was reported",
    "a message of a receive of many was asked for",
    "a get",
    "a put",
    "an addition",
    "a get of memory that has its name no more",
    "an active message",
    "a view of a loan",
    "a view of a copy",
];
/// The place of the first one of views.
const VIEW: usize = CALLS.len() - 2;

/// How many frames of each kind were sent, and how many calls have come to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames([u64; 32], [u64; CALLS.len()]);

impl Frames {
    pub(super) fn count(&mut self, kind: u8) {
        if let Some(count) = self.0.get_mut(usize::from(kind)) {
            *count += 1;
        }
    }

    /// A call has come to this.
    pub(super) fn called(&mut self, call: &Call, outcome: &Outcome) {
        let at = match (call, outcome) {
            (_, Outcome::Seen { .. }) => 0,
            (Call::Claim(_), Outcome::Request(_)) => 1,
            (Call::Test(_), Outcome::Message(_)) => 2,
            (Call::Landed(_), Outcome::Nothing) => return,
            (_, Outcome::Nothing) => 3,
            (_, Outcome::Any(..)) => 4,
            (Call::Cancel(_), Outcome::Cancelled(in_time)) => 6 - usize::from(*in_time),
            (Call::Matched { .. }, _) => 7,
            (_, Outcome::Unreceived) => 8,
            (Call::NextEnded { .. }, Outcome::Ended(..)) => 9,
            (Call::NextEnded { .. }, Outcome::Landed(..)) => 10,
            (_, Outcome::Landed(..)) => 11,
            (_, Outcome::Refused) => 15,
            (Call::NextActive, Outcome::Message(_)) => 16,
            (Call::Get { .. }, _) => 12,
            (Call::Put { .. }, _) => 13,
            (Call::Add { .. }, _) => 14,
            _ => return,
        };
        self.1[at] += 1;
    }

    /// A message was received in place.
    pub(in crate::job) fn viewed(&mut self, is_loan: bool) {
        self.1[VIEW + usize::from(!is_loan)] += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Frames) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
        self.1.iter_mut().zip(other.1).for_each(|(sum, count)| *sum += count);
    }

    /// Names of the frames and outcomes that must be reached and were not.
    pub fn missing(&self) -> Vec<&'static str> {
        let frames = REACHED.iter().filter(|(kind, _)| self.0[usize::from(*kind)] == 0);
        let calls = CALLS.iter().zip(self.1).filter(|(_, count)| *count == 0);
        frames.map(|(_, name)| *name).chain(calls.map(|(name, _)| *name)).collect()
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        REACHED
            .iter()
            .try_for_each(|(kind, name)| writeln!(f, "{:>9} {name}", self.0[usize::from(*kind)]))?;
        CALLS.iter().zip(self.1).try_for_each(|(name, count)| writeln!(f, "{count:>9} {name}"))
    }
}
