//! Messages that are longer than what the log may have in memory at once: they are logged through the file.

use super::Kept;
use super::departure::{Gather, Leaving, leaves};
use crate::{Dest, Endpoint, Error, Rank};
use taffrail_fabric::MemoryError;

impl Endpoint {
    /// As [`log_and_send`](Self::log_and_send), of a message that does not fit into the memory of the log: all
    /// of it is logged before its number is given and any of it leaves, so that nothing has happened
    /// if the disk is full.
    #[cold]
    pub(super) fn log_long(
        &mut self,
        to: &Dest,
        parts: &[&[u8]],
        len: usize,
        sync: Option<u64>,
        word: u16,
    ) -> Result<(), Error> {
        let Endpoint { line, core, .. } = self;
        let Some(log) = &mut core.log else { return Ok(()) };
        let mut kept = Kept::new(to.tag, len, true, sync.is_some(), word ^ to.context);
        let skew = taffrail_fabric::skew(parts, len);
        let mut source = Gather { parts, at: 0 };
        let at = log.tape.write_long(line, len, skew, |len, write| source.write(len, write));
        kept.at = at.map_err(|error| not_logged(to.rank, len, error))?;
        let (seq, sending) = log.outbound.number(to.rank, to.context);
        let leaves = leaves(sending, sync.is_some());
        if leaves && log.is_causal() {
            self.precede_message(to.rank);
        }
        let Some(log) = &mut self.core.log else { return Ok(()) };
        let ticket = leaves.then(|| log.events.ticket());
        let leaving = Leaving { context: to.context, seq, kept, sent: 0, again: false };
        self.is_logged(to.rank, leaving, sync, ticket);
        Ok(())
    }
}

/// The error of a message for which neither memory nor the file of the log has room.
fn not_logged(to: Rank, len: usize, error: Error) -> Error {
    let Error::Memory(MemoryError::Short { have: why, .. } | MemoryError::Refused { why, .. }) =
        error
    else {
        return error;
    };
    Error::Memory(MemoryError::Short {
        what: "room in the log of sent messages",
        need: len as u64,
        have: format!("for a message to rank {to}: {why}"),
        remedy: "give it more memory with --log-memory, or its file a folder with more room (TAFFRAIL_SPILL)",
    })
}
