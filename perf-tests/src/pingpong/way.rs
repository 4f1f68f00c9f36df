//! Ways between two ranks.

use super::socket::Socket;
use crate::Error;
use crate::pair::{DATA, Pair};
use taffrail::{Dest, Pattern};

/// Sends messages to the other rank, and receives its own.
pub trait Way {
    /// Sends a message.
    fn send(&mut self, pair: &mut Pair<'_>, bytes: &[u8]) -> Result<(), Error>;
    /// Receives one of this length.
    fn receive(&mut self, pair: &mut Pair<'_>, bytes: &mut [u8]) -> Result<(), Error>;
}

/// Taffrail.
pub struct Endpoint {
    /// Receives name no source.
    pub any_source: bool,
}

impl Way for Endpoint {
    fn send(&mut self, pair: &mut Pair<'_>, bytes: &[u8]) -> Result<(), Error> {
        Ok(pair.endpoint.send(Dest::new(pair.peer, DATA), bytes)?)
    }

    fn receive(&mut self, pair: &mut Pair<'_>, bytes: &mut [u8]) -> Result<(), Error> {
        let pattern = match self.any_source {
            true => Pattern::any_source(DATA),
            false => Pattern::new(pair.peer, DATA),
        };
        pair.endpoint.recv(pattern, bytes)?;
        Ok(())
    }
}

/// The socket, alone.
impl Way for Socket {
    fn send(&mut self, _: &mut Pair<'_>, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes, || ())
    }

    fn receive(&mut self, _: &mut Pair<'_>, bytes: &mut [u8]) -> Result<(), Error> {
        self.read_exact(bytes, || ())
    }
}
