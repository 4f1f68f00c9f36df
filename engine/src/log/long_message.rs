//! Messages that are longer than what the log may have in memory at once: they are logged through the file.

use super::host::Host;
use super::send::Gather;
use super::{LogEntry, Logging};
use crate::{Error, Rank};
use taffrail_fabric::{MemoryError, SendMemory};

impl<H: Host> Logging<H> {
    /// Logs a message that does not fit into the memory of the log.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file has no room for it.
    #[cold]
    pub(crate) fn write_long(
        &mut self,
        fabric: &mut impl SendMemory,
        to: Rank,
        kept: &mut LogEntry,
        parts: &[&[u8]],
    ) -> Result<(), Error> {
        let len = kept.len();
        let skew = taffrail_fabric::skew(parts, len);
        let mut source = Gather { parts, at: 0 };
        let at =
            self.payload_log.write_long(fabric, len, skew, |len, write| source.write(len, write));
        kept.at = at.map_err(|error| not_logged(to, len, error))?;
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
