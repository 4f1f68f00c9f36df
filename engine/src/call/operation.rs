//! What a program asks for, and what it comes to.

use crate::{Error, Pattern, Rank, Request, Status};
use std::io::IoSlice;
use taffrail_matching::{Envelope, MessageId};

/// The place in the list of an operation that has completed, and its result.
pub type Ended = (usize, Result<Status, Error>);

/// The result of a completion poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Over {
    /// None.
    Nothing,
    /// The one that ended first.
    Next,
    /// The one that ended first when this was done for the first time, in a replay.
    This(Request),
}

/// What a program asks for.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// Whether one of several operations has completed.
    Test(&'a [Request]),
    /// The first of several operations that completes.
    WaitAny(&'a [Request]),
    /// The message that a receive with this pattern would get.
    Probe(&'a Pattern),
    /// The same, and nobody else gets it.
    Claim(&'a Pattern),
    /// Cancels a receive that no message has matched.
    Cancel(Request),
    /// Polls for the next completion of a reported operation, with at most this number of progress calls.
    PollCompletion(u32),
    /// Sends an active message.
    SendActive {
        /// Its target.
        to: Rank,
        /// The handler's number there.
        handler: u16,
        /// Eight bytes that go with it.
        header: u64,
        /// Its payload.
        payload: &'a [u8],
    },
    /// Writes a checkpoint that was [begun](crate::Engine::begin_checkpoint), with this state of the program.
    Checkpoint(&'a [IoSlice<'a>]),
    /// Waits until the programs of all other ranks are over.
    Leave,
    /// Waits until nothing is under way that is worth waiting for.
    Finalize,
}

/// What an operation comes to.
pub enum Outcome {
    /// It is done.
    Done,
    /// It has found nothing.
    Nothing,
    /// The operation with this index has completed.
    Completed(Ended),
    /// The reported operation that completed first, as a completion poll has found it.
    Next(Request),
    /// The reported operation that a recorded completion poll has found.
    This(Request),
    /// This message is there.
    Seen(Envelope),
    /// This message is there, and nobody else gets it.
    Claimed(MessageId, Envelope),
    /// Whether the receive was cancelled in time.
    Cancelled(bool),
    /// No message is there, and nobody is left to send one.
    Gone(Error),
}

impl Operation<'_> {
    /// What it is called where a program does not repeat what it did.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Operation::Test([_]) => "a test of a request",
            Operation::Test(_) => "a test of several requests",
            Operation::WaitAny(_) => "a wait for one of several requests",
            Operation::Probe(_) => "a probe",
            Operation::Claim(_) => "a claim",
            Operation::Cancel(_) => "a cancellation",
            Operation::PollCompletion(_) => "a look for the end of an operation",
            Operation::SendActive { .. } => "an active message",
            Operation::Checkpoint(_) => "a checkpoint",
            Operation::Leave | Operation::Finalize => "the end of the program",
        }
    }
}
