//! How a process sleeps until a fabric has something for it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Whether a wait may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// Something is there already: poll instead.
    Ready,
    /// Nothing is there; whatever arrives from now on ends the wait.
    Armed,
}

/// Waiting apart from moving bytes: what only the interface on top of the engine calls.
pub trait Wait {
    /// Prepares a wait: after [`Arming::Armed`], anything that arrives makes
    /// [`fd`](Self::fd) readable and ends [`sleep`](Self::sleep).
    fn arm(&mut self) -> Arming;

    /// Ends a wait's preparation. Polling does not need it.
    fn disarm(&mut self);

    /// Sleeps until something arrives or `limit` is over. To be called armed.
    fn sleep(&mut self, limit: Duration);

    /// A descriptor that polls readable while armed and something has arrived, or
    /// [`check`](crate::Fabric::check) has something to report.
    fn fd(&self) -> BorrowedFd<'_>;
}
