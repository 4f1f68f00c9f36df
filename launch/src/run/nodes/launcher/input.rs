//! Standard input for rank 0 of a job over nodes. In logged jobs the launcher stores what it has sent, for the next
//! incarnation of rank 0.

use crate::run::kept_input::KeptInput;
use crate::run::keyboard::is_in_foreground;
use crate::run::rank_files::spill_folder;
use crate::run::{Args, Failure};
use rustix::io::Errno;
use rustix::termios::isatty;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use taffrail_agent::launcher::Event;

/// Bytes that may be under way.
const WINDOW: usize = 65_536;

pub struct Input {
    kept: KeptInput,
    /// Folder for input that has no room in memory.
    folder: PathBuf,
    /// Rank 0 was started.
    is_connected: bool,
    /// Sent, and not taken by rank 0 yet.
    under_way: usize,
    ended: bool,
    /// Rank 0 knows that.
    end_sent: bool,
    is_terminal: bool,
}

impl Input {
    pub fn new(args: &Args) -> Input {
        Input {
            kept: KeptInput::new(args.failures.log()),
            folder: spill_folder(args),
            is_connected: false,
            under_way: 0,
            ended: false,
            end_sent: false,
            is_terminal: isatty(rustix::stdio::stdin()),
        }
    }

    /// Standard input, if more of it is wanted; of a terminal, while we are in the foreground.
    pub fn source(&self, is_read: bool) -> Option<BorrowedFd<'static>> {
        let has_room = self.kept.is_passed() && self.under_way < WINDOW;
        let wanted = is_read && !self.ended && has_room;
        (wanted && (!self.is_terminal || is_in_foreground())).then_some(rustix::stdio::stdin())
    }

    /// More of it, or its end.
    pub fn read(&mut self) {
        let mut buffer = vec![0; WINDOW - self.under_way];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.ended = true,
            Ok(len) => self.kept.push(&buffer[..len], &self.folder),
        }
    }

    /// What is to be sent next, if there is room on the way.
    pub fn take(&mut self) -> Option<Event> {
        if !self.is_connected || self.end_sent {
            return None;
        }
        let mut buffer = vec![0; WINDOW - self.under_way];
        let len = if buffer.is_empty() { 0 } else { self.kept.next(&mut buffer).unwrap_or(0) };
        if len > 0 {
            self.kept.passed(len);
            self.under_way += len;
            buffer.truncate(len);
            return Some(Event::Input(buffer));
        }
        self.end_sent = self.ended && self.kept.is_passed();
        self.end_sent.then_some(Event::Input(Vec::new()))
    }

    /// Rank 0 has taken so much.
    pub fn taken(&mut self, bytes: u32) {
        self.under_way = self.under_way.saturating_sub(bytes as usize);
    }

    /// Rank 0 was started.
    pub fn connect(&mut self) {
        self.is_connected = true;
    }

    /// These ranks are started again.
    ///
    /// # Errors
    /// Rank 0 is one of them, and cannot have what the process before it has read.
    pub fn rewind(&mut self, ranks: &[usize]) -> Result<(), Failure> {
        if !ranks.contains(&0) {
            return Ok(());
        }
        (self.is_connected, self.under_way, self.end_sent) = (false, 0, false);
        self.kept.rewind().map_err(|why| {
            let why = format!(
                "rank 0 is not restarted, since it cannot read its standard input again: {why}"
            );
            Failure::new(why)
        })
    }
}
