//! An observer of a network, which sees each message when it is handed over to the network and to its receiver.

use taffrail_fabric::Head;

/// A message that a process hands over to the network.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its number: no other one of the network has it.
    pub number: u64,
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// Its head.
    pub head: &'a Head,
    /// Its payload.
    pub payload: &'a [u8],
}

/// An observer of a network. It changes nothing.
pub trait Watch {
    /// The network accepts a message.
    fn leaves(&mut self, frame: &Frame<'_>);

    /// A message is handed over to its receiver, or the beginning of it.
    fn arrives(&mut self, number: u64, from: usize, to: usize);
}
