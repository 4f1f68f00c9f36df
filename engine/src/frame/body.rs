//! The bodies that the engine reads and writes itself, of frames of message logging. All other bodies are the program's.

use super::Frame;
use crate::error::broken;
use taffrail_fabric::{Fault, Payload};
use taffrail_logging::causal::DETERMINANT;
use taffrail_logging::{Causal, Restart};

/// A RESTART, and its body.
pub(crate) fn restart(restart: &Restart) -> (Frame, Vec<u8>) {
    (Frame::Restart, restart.encode())
}

/// What the body of a RESTART says.
///
/// # Errors
/// [`Fault::Protocol`] when no peer that keeps the protocol sends this.
pub(crate) fn read_restart(body: &Payload<'_>) -> Result<Restart, Fault> {
    Restart::decode(&body.to_vec()).map_err(|error| broken("RESTART", "a restart message", error))
}

/// Whether the body of a DETERMINANTS may have this length.
pub(super) fn holds_determinants(len: usize) -> bool {
    len > 0 && len.is_multiple_of(DETERMINANT)
}

/// Takes the determinants of a body in.
///
/// # Errors
/// [`Fault::Protocol`] when no peer that keeps the protocol sends these.
pub(crate) fn read_determinants(
    causal: &mut Causal,
    from: u32,
    body: &Payload<'_>,
) -> Result<(), Fault> {
    let taken = causal.received(from, &body.to_vec());
    taken.map_err(|error| broken("DETERMINANTS", "those of a rank in their order", error))
}
