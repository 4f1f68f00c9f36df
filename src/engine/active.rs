//! Active messages: a handler's number, eight bytes, and a payload; the handler runs at the target.

use super::core::Active;
use super::kind;
use crate::{Dest, Endpoint, Error, Rank};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use taffrail_fabric::{Fabric, Head, PeerId, Refused, Source};

/// An active message that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct AmMessage<'a> {
    /// The sender.
    pub source: Rank,
    /// The eight bytes sent with it.
    pub header: u64,
    /// The payload, a private copy.
    pub payload: &'a [u8],
}

/// What runs when an active message arrives.
pub(crate) type Handler = Box<dyn FnMut(&mut Endpoint, AmMessage<'_>) + Send>;

impl Endpoint {
    /// Sends an active message. `false` when there is no room now.
    pub(crate) fn try_send_active(
        &mut self,
        to: Rank,
        handler: u16,
        header: u64,
        payload: &[u8],
    ) -> Result<bool, Error> {
        self.check_dest(&Dest::new(to, 0))?;
        self.not_logged("an active message", "send a message")?;
        let limit = self.line.limits(PeerId(to)).max_message;
        if payload.len() > limit {
            return Err(Error::TooLong { got: payload.len(), limit });
        }
        if self.core.peers[to as usize].has_backlog() {
            return Ok(false);
        }
        let head = Head { kind: kind::ACTIVE, context: handler, seq: 0, tag: header };
        match self.line.send(PeerId(to), head, Source::Bytes(payload)) {
            Ok(_) => Ok(true),
            Err(Refused::Failed(fault)) => Err(Error::PeerFailed { rank: to, fault }),
            Err(_) => Ok(false),
        }
    }

    /// Runs the handlers of what has arrived. A handler that makes progress itself does not get
    /// into another: those messages wait until it returns.
    #[cold]
    pub(crate) fn handle_active(&mut self) -> usize {
        if std::mem::replace(&mut self.handling, true) {
            return 0;
        }
        let mut handled = 0;
        while let Some(Active { from, handler, header, entry }) = self.core.active.pop_front() {
            let payload = self.core.store.take(entry);
            self.core.peers[from as usize].held -= payload.len() + super::core::EACH;
            match self.handlers.remove(&handler) {
                Some(mut run) => {
                    let message = AmMessage { source: from, header, payload: &payload };
                    let ended = catch_unwind(AssertUnwindSafe(|| run(self, message)));
                    self.handlers.entry(handler).or_insert(run);
                    if let Err(panic) = ended {
                        self.handling = false;
                        resume_unwind(panic);
                    }
                }
                None => tracing::warn!(handler, source = from, "active message without a handler"),
            }
            handled += 1;
        }
        self.handling = false;
        handled
    }
}
