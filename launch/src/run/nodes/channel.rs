//! The bytes between launcher and agent, without blocking.

use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use taffrail_agent::wire::{Decoder, Direction, Frame, Item, preamble};

/// Bytes that are read before others have their turn.
const TURN: usize = 64 * 1024;

/// One end of a channel.
pub struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    decoder: Decoder,
    /// The other end has sent its preamble.
    is_greeted: bool,
    unsent: Vec<u8>,
    /// Of `unsent`, what was sent.
    sent: usize,
}

impl Channel {
    /// The channel between these two, of which the other end sends in this direction.
    pub fn new(input: OwnedFd, output: OwnedFd, from: Direction) -> std::io::Result<Channel> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let (decoder, unsent) = (Decoder::new(from), preamble().to_vec());
        Ok(Channel { input, output, decoder, is_greeted: false, unsent, sent: 0 })
    }

    /// What is to be waited for.
    pub fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let output = (!self.is_sent()).then(|| (self.output.as_fd(), PollFlags::OUT));
        [(self.input.as_fd(), PollFlags::IN)].into_iter().chain(output)
    }

    /// Whether everything was sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.unsent.len()
    }

    /// Sends a frame, now or when the channel takes it.
    ///
    /// # Errors
    /// The format has no room for it.
    pub fn send(&mut self, frame: &Frame) -> Result<(), String> {
        let bytes = frame.encode().map_err(|e| e.to_string())?;
        if self.is_sent() {
            self.unsent.clear();
            self.sent = 0;
        }
        self.unsent.extend(bytes);
        self.flush();
        Ok(())
    }

    /// Sends what waits. If nobody reads it any more it is dropped: what the other end has said before it left is read
    /// first, and then the end of the channel.
    pub fn flush(&mut self) {
        while !self.is_sent() {
            match rustix::io::write(&self.output, &self.unsent[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.sent = self.unsent.len(),
            }
        }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// The channel has ended, or what came is not the protocol. What came before that is in `items`.
    pub fn receive(&mut self, items: &mut Vec<Item>) -> Result<(), String> {
        let mut buffer = vec![0; TURN];
        let len = match rustix::io::read(&self.input, &mut buffer) {
            Ok(0) => {
                let how = match (self.is_greeted, self.decoder.is_between_frames()) {
                    (false, _) => " before an answer",
                    (true, true) => "",
                    (true, false) => " within a frame",
                };
                return Err(format!("the connection has ended{how}"));
            }
            Ok(len) => len,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(e) => return Err(format!("the connection cannot be read: {e}")),
        };
        self.decoder.push(&buffer[..len]);
        while let Some(item) = self.decoder.next_item().map_err(|e| e.to_string())? {
            self.is_greeted = true;
            items.push(item);
        }
        Ok(())
    }
}
