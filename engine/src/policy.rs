//! What a message-logging policy decides, as far as it stands behind traits: [`rx`] of messages that arrive, [`tx`] of
//! messages that leave, [`calls`] of calls whose outcome the program does not determine.

pub mod calls;
pub(crate) mod rx;
pub(crate) mod tx;

use super::log::Logging;
use super::log::host::{Host, NoHost};

/// The policy of a job that is not logged.
#[derive(Default)]
pub struct NoLogging;

/// What a message-logging protocol decides.
pub trait Policy {
    /// The outside of the log.
    type Host: Host;

    /// The log, if messages are logged.
    fn log(&self) -> Option<&Logging<Self::Host>>;

    /// The same, to be changed.
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>>;

    /// Whether messages are logged.
    #[inline(always)]
    fn logs(&self) -> bool {
        self.log().is_some()
    }
}

impl Policy for NoLogging {
    type Host = NoHost;

    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        None
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        None
    }
}

/// Whether messages are logged is known when a job starts.
impl<H: Host> Policy for Option<Box<Logging<H>>> {
    type Host = H;

    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        self.as_deref()
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        self.as_deref_mut()
    }
}

impl<H: Host> Policy for Logging<H> {
    type Host = H;

    #[inline(always)]
    fn log(&self) -> Option<&Logging<Self::Host>> {
        Some(self)
    }

    #[inline(always)]
    fn log_mut(&mut self) -> Option<&mut Logging<Self::Host>> {
        Some(self)
    }
}
