//! The two ranks of a measurement, each seeing the other.

use crate::Error;
use taffrail::{Dest, Endpoint, Pattern, Rank};

/// Tag of the messages that are measured.
pub const DATA: u64 = 1;
/// Tag of figures told to the other side.
const FIGURES: u64 = 2;
/// Tag of the empty messages of [`Pair::meet`].
const MEETING: u64 = 3;

/// Who starts a ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends first, and holds the clock.
    Transmitter,
    /// Answers.
    Receiver,
}

impl Role {
    /// The other side's.
    pub fn other(self) -> Role {
        match self {
            Role::Transmitter => Role::Receiver,
            Role::Receiver => Role::Transmitter,
        }
    }
}

/// An endpoint and the one rank it talks to.
pub struct Pair<'e> {
    /// This side's endpoint.
    pub endpoint: &'e mut Endpoint,
    /// The other side.
    pub peer: Rank,
    /// This side's part.
    pub role: Role,
}

impl<'e> Pair<'e> {
    /// This rank's place between `first` and `second`; `None` if it is neither of them.
    pub fn of(endpoint: &'e mut Endpoint, first: Rank, second: Rank) -> Option<Pair<'e>> {
        let (peer, role) = match endpoint.rank() {
            rank if rank == first => (second, Role::Transmitter),
            rank if rank == second => (first, Role::Receiver),
            _ => return None,
        };
        Some(Pair { endpoint, peer, role })
    }

    /// Whether this side starts and reports.
    pub fn transmits(&self) -> bool {
        self.role == Role::Transmitter
    }

    /// Waits until the other side is here too.
    pub fn meet(&mut self) -> Result<(), Error> {
        let (dest, pattern) = (Dest::new(self.peer, MEETING), Pattern::new(self.peer, MEETING));
        match self.role {
            Role::Transmitter => {
                self.endpoint.send(dest, &[])?;
                self.endpoint.recv(pattern, &mut [])?;
            }
            Role::Receiver => {
                self.endpoint.recv(pattern, &mut [])?;
                self.endpoint.send(dest, &[])?;
            }
        }
        Ok(())
    }

    /// Tells the other side some figures.
    pub fn tell(&mut self, figures: &[f64]) -> Result<(), Error> {
        let bytes: Vec<u8> = figures.iter().flat_map(|f| f.to_le_bytes()).collect();
        Ok(self.endpoint.send(Dest::new(self.peer, FIGURES), &bytes)?)
    }

    /// Hears `count` figures from the other side.
    pub fn hear(&mut self, count: usize) -> Result<Vec<f64>, Error> {
        let mut bytes = vec![0; count * size_of::<f64>()];
        self.endpoint.recv(Pattern::new(self.peer, FIGURES), &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
    }

    /// A figure of the transmitter's that both sides go by.
    pub fn agree(&mut self, figure: f64) -> Result<f64, Error> {
        match self.role {
            Role::Transmitter => self.tell(&[figure]).map(|()| figure),
            Role::Receiver => Ok(self.hear(1)?[0]),
        }
    }
}
