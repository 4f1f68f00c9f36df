//! What a message-logging policy decides, as far as it stands behind traits: [`rx`] of messages that arrive, [`tx`] of
//! messages that leave, [`calls`] of calls whose outcome the program does not determine.

pub(crate) mod calls;
pub(crate) mod rx;
pub(crate) mod tx;

use super::log::Log;

/// The policy of a job that is not logged.
#[derive(Default)]
pub(crate) struct NoLogging;

/// What a message-logging protocol decides.
pub(crate) trait Policy: Send {
    /// The log, if messages are logged.
    fn log(&self) -> Option<&Log>;

    /// The same, to be changed.
    fn log_mut(&mut self) -> Option<&mut Log>;

    /// Whether messages are logged.
    #[inline(always)]
    fn logs(&self) -> bool {
        self.log().is_some()
    }
}

impl Policy for NoLogging {
    #[inline(always)]
    fn log(&self) -> Option<&Log> {
        None
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Log> {
        None
    }
}

/// Whether messages are logged is known when a job starts.
impl Policy for Option<Box<Log>> {
    #[inline(always)]
    fn log(&self) -> Option<&Log> {
        self.as_deref()
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Log> {
        self.as_deref_mut()
    }
}

impl Policy for Log {
    #[inline(always)]
    fn log(&self) -> Option<&Log> {
        Some(self)
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Log> {
        Some(self)
    }
}
