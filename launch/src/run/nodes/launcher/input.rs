//! Standard input for rank 0 of a job over nodes.

use crate::run::keyboard::is_in_foreground;
use rustix::io::Errno;
use rustix::termios::isatty;
use std::os::fd::BorrowedFd;
use taffrail_agent::launcher::Event;

/// Bytes that may be under way.
const WINDOW: usize = 65_536;

pub struct Input {
    /// Sent, and not taken by rank 0 yet.
    under_way: usize,
    ended: bool,
    is_terminal: bool,
}

impl Input {
    pub fn new() -> Input {
        let is_terminal = isatty(rustix::stdio::stdin());
        Input { under_way: 0, ended: false, is_terminal }
    }

    /// Standard input, if more of it is wanted; of a terminal, while we are in the foreground.
    pub fn source(&self, is_read: bool) -> Option<BorrowedFd<'static>> {
        let wanted = is_read && !self.ended && self.under_way < WINDOW;
        (wanted && (!self.is_terminal || is_in_foreground())).then_some(rustix::stdio::stdin())
    }

    /// More of it, or its end.
    pub fn read(&mut self) -> Option<Event> {
        let mut buffer = vec![0; WINDOW - self.under_way];
        let len = match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => return None,
            Ok(len) => len,
            Err(_) => 0,
        };
        self.ended = len == 0;
        self.under_way += len;
        buffer.truncate(len);
        Some(Event::Input(buffer))
    }

    /// Rank 0 has taken so much.
    pub fn taken(&mut self, bytes: u32) {
        self.under_way = self.under_way.saturating_sub(bytes as usize);
    }
}
