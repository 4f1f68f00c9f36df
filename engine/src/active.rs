//! Active messages: a handler's number, eight bytes, and a payload; the handler runs at the target.

use super::core::Active;
use super::frame::Frame;
use crate::Engine;
use crate::policy::Policy;
use crate::tx::transmit;
use crate::{Dest, Error, Rank};
use taffrail_fabric::{Fabric, PeerId, Refused, SendMemory, Source};

/// The longest payload of an active message.
const ACTIVE_MAX: usize = 64 << 10;

/// Room for active messages that stays when there are fewer.
const ROOM_KEPT: usize = 1 << 12;

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

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Sends an active message. `false` when there is no room now.
    pub(crate) fn try_send_active(
        &mut self,
        to: Rank,
        handler: u16,
        header: u64,
        payload: &[u8],
    ) -> Result<bool, Error> {
        self.check_dest(&Dest::new(to, 0))?;
        self.core.policy.check_repeatable("an active message", "send a message")?;
        // The same for all peers, whatever their fabrics take.
        let limit = self.fabric.limits(PeerId(to)).max_message.min(ACTIVE_MAX);
        if payload.len() > limit {
            return Err(Error::TooLong { got: payload.len(), limit });
        }
        let peer = &self.core.peers[to as usize];
        if peer.has_backlog() || peer.is_stopped() {
            return Ok(false);
        }
        let frame = Frame::Active { handler, header };
        match transmit(&mut self.fabric, to, &frame, Source::Bytes(payload)) {
            Ok(_) => Ok(true),
            Err(Refused::Failed(fault)) => Err(Error::PeerFailed { rank: to, fault }),
            Err(_) => Ok(false),
        }
    }

    /// The next active message whose handler is to run, and its handler's number. Its payload is in the list.
    #[cold]
    pub fn next_active(&mut self) -> Option<(Rank, u16, u64, Vec<u8>)> {
        let Active { from, handler, header, entry } = self.core.active.pop_front()?;
        let memory = Active::MEMORY + self.core.unexpected.memory(entry);
        let payload = self.core.unexpected.take(entry);
        self.core.shrink_unreceived(from, 0, memory);
        let (len, room) = (self.core.active.len(), self.core.active.capacity());
        if room > ROOM_KEPT && len < room / 4 {
            self.core.active.shrink_to(room / 2);
        }
        Some((from, handler, header, payload))
    }
}
