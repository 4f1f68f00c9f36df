//! Messages that are longer than what the log may have in memory at once: they are logged through the file.

use super::host::Host;
use super::{LogEntry, Logging};
use crate::{Error, NotNow, Rank};
use taffrail_fabric::{MemoryError, SendMemory};

impl<H: Host> Logging<H> {
    /// Logs a message that does not fit into the memory of the log.
    ///
    /// # Errors
    /// [`NotNow::Waits`] while the file takes it, or peers read what is to make room, and [`Error::Memory`] when the file has no room for it.
    #[cold]
    pub(crate) fn write_long(
        &mut self,
        fabric: &mut impl SendMemory,
        to: Rank,
        kept: &mut LogEntry,
        parts: &[&[u8]],
    ) -> Result<(), NotNow> {
        let len = kept.len();
        kept.at =
            self.payload_log.write_long(fabric, parts, len).map_err(|not_now| match not_now {
                NotNow::Failed(error) => not_logged(to, len, error).into(),
                NotNow::Waits => NotNow::Waits,
            })?;
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
