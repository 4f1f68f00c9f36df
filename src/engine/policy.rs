//! What a message-logging policy decides, as far as it stands behind traits: [`rx`] of messages that arrive, [`tx`] of
//! messages that leave, [`calls`] of calls whose outcome the program does not determine.

pub(crate) mod calls;
pub(crate) mod rx;
pub(crate) mod tx;

/// The policy of a job that is not logged.
#[derive(Default)]
pub(crate) struct NoLogging;
