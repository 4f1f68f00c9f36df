//! The PMI-1 connection of one rank: lines in and out, without blocking.

use super::members::{names_senders, receive};
use super::speaker::Speaker;
use rustix::io::Errno;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use taffrail::pmi::{self, Message, WireError};

/// A rank's connection.
pub struct Line {
    stream: UnixStream,
    heard: Vec<u8>,
    unsaid: Vec<u8>,
    /// Who has sent what was received last.
    sender: i32,
    pub speaker: Speaker,
}

/// What became of a connection.
pub enum Heard {
    /// It goes on.
    More,
    /// The rank closed it.
    End,
}

impl Line {
    /// Takes over a connected stream.
    ///
    /// # Errors
    /// When it cannot be made not to block.
    pub fn new(stream: UnixStream) -> std::io::Result<Line> {
        stream.set_nonblocking(true)?;
        names_senders(&stream)?;
        Ok(Line {
            stream,
            heard: Vec::new(),
            unsaid: Vec::new(),
            sender: 0,
            speaker: Speaker::default(),
        })
    }

    /// The connection, and whether it waits to be written to. While it does nothing is read, so a
    /// rank that asks without listening cannot fill our memory.
    pub fn watched(&self) -> (BorrowedFd<'_>, bool) {
        (self.stream.as_fd(), !self.unsaid.is_empty())
    }

    /// Reads what is there and returns the whole lines of it.
    ///
    /// # Errors
    /// [`WireError::TooLong`] when a line does not end.
    pub fn listen(&mut self, lines: &mut Vec<Vec<u8>>) -> Result<Heard, WireError> {
        let mut buffer = [0; 4096];
        match receive(self.stream.as_fd(), &mut buffer) {
            Ok((0, _)) => return Ok(Heard::End),
            Ok((len, sender)) => {
                self.heard.extend_from_slice(&buffer[..len]);
                self.sender = sender;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Ok(Heard::End),
        }
        while let Some(end) = self.heard.iter().position(|&b| b == b'\n') {
            lines.push(self.heard.drain(..=end).collect());
        }
        match self.heard.len() {
            len if len > pmi::MAX_LINE => Err(WireError::TooLong(len)),
            _ => Ok(Heard::More),
        }
    }

    /// The process that has sent the lines that were heard last; 0 if that is not known.
    pub fn sender(&self) -> i32 {
        self.sender
    }

    /// Sends a message, now or when the connection takes it.
    pub fn say(&mut self, message: &Message) -> Result<(), WireError> {
        self.unsaid.extend_from_slice(message.to_line()?.as_bytes());
        self.flush();
        Ok(())
    }

    /// Sends what waits. That the rank is gone is noticed elsewhere.
    pub fn flush(&mut self) {
        while !self.unsaid.is_empty() {
            match self.stream.write(&self.unsaid) {
                Ok(len) => drop(self.unsaid.drain(..len)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.unsaid.clear(),
            }
        }
    }
}
