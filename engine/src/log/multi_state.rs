//! A multi-receive that is replayed.

use crate::Pattern;
use std::collections::VecDeque;
use taffrail_logging::MsgId;

/// A multi-receive that is replayed.
pub(crate) struct MultiReplay {
    /// The messages that it is still to get.
    pub(crate) messages: VecDeque<MsgId>,
    /// What it takes when it has them.
    pub(crate) from: Pattern,
    /// It was cancelled then.
    pub(crate) cancelled: bool,
}
