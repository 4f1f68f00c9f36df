//! How a payload leaves: room in the ring, room in the outbox.

use super::{OWN_AHEAD, ShmFabric};
use crate::copy;
use crate::mailbox::MAIL;
use crate::outbox::SEGMENT;
use crate::ring::{INLINE, LEAD, slots_for};
use crate::sync::AtomicU64;
use taffrail_fabric::{Head, PeerId, Refused};

impl ShmFabric {
    /// Why a peer that is not open takes nothing: it has failed, or was not met yet.
    pub(crate) fn refused(&self, to: PeerId) -> Refused {
        self.pairs[to.index()].cold.fault.clone().map_or(Refused::Busy, Refused::Failed)
    }

    /// Makes sure that there is room for `slots` in the ring to `to`, and for a goodbye.
    #[inline(always)]
    pub(crate) fn room(&mut self, to: PeerId, slots: u64) -> Result<(), Refused> {
        let pair = &mut self.pairs[to.index()];
        if pair.open && pair.writer.has_room(slots + 1) {
            Ok(())
        } else {
            self.more_room(to, slots)
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn more_room(&mut self, to: PeerId, slots: u64) -> Result<(), Refused> {
        let pair = &mut self.pairs[to.index()];
        if !pair.open {
            return Err(self.refused(to));
        }
        let credit: *const AtomicU64 = pair.credit();
        // SAFETY: the word is mapped as long as the pair lives.
        if let Err(fault) = pair.writer.refresh(unsafe { &*credit }) {
            self.cut(to, fault);
            return Err(self.refused(to));
        }
        pair.retire_mail();
        if pair.writer.has_room(slots + 1) { Ok(()) } else { Err(Refused::Busy) }
    }

    /// Sends one run of bytes.
    #[inline(always)]
    pub(super) fn send_bytes(
        &mut self,
        to: PeerId,
        head: Head,
        payload: &[u8],
    ) -> Result<(), Refused> {
        if payload.len() <= LEAD {
            self.room(to, 1)?;
            let pair = &mut self.pairs[to.index()];
            if payload.len() > MAIL || !pair.mail(head, payload) {
                pair.writer.put_short(head, payload);
                pair.prefetch_write(1);
            }
            pair.notify();
            return Ok(());
        }
        self.send_longer(to, head, payload)
    }

    /// Sends several runs of bytes.
    #[inline(never)]
    pub(super) fn send_parts(
        &mut self,
        to: PeerId,
        head: Head,
        parts: &[&[u8]],
    ) -> Result<(), Refused> {
        let len = parts.iter().map(|p| p.len()).sum();
        if len > INLINE {
            return self.send_pooled(to, head, parts, len);
        }
        self.room(to, slots_for(len))?;
        let pair = &mut self.pairs[to.index()];
        pair.writer.put_parts(head, parts, len);
        pair.notify();
        Ok(())
    }

    /// Sends a payload too long for one slot.
    #[inline(never)]
    pub(super) fn send_longer(
        &mut self,
        to: PeerId,
        head: Head,
        payload: &[u8],
    ) -> Result<(), Refused> {
        if payload.len() > INLINE {
            return self.send_pooled(to, head, &[payload], payload.len());
        }
        let slots = slots_for(payload.len());
        self.room(to, slots)?;
        let pair = &mut self.pairs[to.index()];
        pair.writer.put_run(head, payload);
        pair.prefetch_write(slots);
        pair.notify();
        Ok(())
    }

    /// Sends a payload too long for slots, gathered, through the outbox.
    pub(super) fn send_pooled(
        &mut self,
        to: PeerId,
        head: Head,
        parts: &[&[u8]],
        len: usize,
    ) -> Result<(), Refused> {
        if len > SEGMENT {
            return Err(Refused::TooLong { got: len, limit: SEGMENT });
        }
        self.room(to, 1)?;
        let position = self.pairs[to.index()].writer.position();
        let skew = skew(parts, len);
        let Some(offset) = self.take(skew + len, to, position) else {
            return Err(Refused::Busy);
        };
        let offset = offset + skew as u64;
        let pair = &mut self.pairs[to.index()];
        // SAFETY: the window hands out ranges inside the outbox that nobody uses.
        let mut at = unsafe { self.outbox.as_ptr().add(offset as usize) };
        for part in parts {
            // SAFETY: the parts are `len` bytes together, and so is the range.
            unsafe {
                if pair.non_temporal && part.len() >= 2048 {
                    copy::non_temporal(at, part.as_ptr(), part.len());
                } else {
                    copy::plain(at, part.as_ptr(), part.len());
                }
                at = at.add(part.len());
            }
        }
        pair.non_temporal = false;
        pair.writer.put_pooled(head, offset, len as u32);
        pair.notify();
        if len >= OWN_AHEAD {
            return Ok(());
        }
        let (ahead, room) = self.window.ahead();
        // SAFETY: the window knows only bytes inside the outbox.
        unsafe { copy::own(self.outbox.as_ptr().add(ahead as usize), len.min(room)) };
        Ok(())
    }

    /// Takes room in the outbox, which grows when peers that do not read keep it from others.
    pub(super) fn take(&mut self, len: usize, to: PeerId, position: u64) -> Option<u64> {
        let pairs = &self.pairs;
        let released = |peer: PeerId| pairs[peer.index()].released();
        if let Some(offset) = self.window.take(len, to, position, released) {
            return Some(offset);
        }
        if !self.window.held_by_others(to, released) {
            return None;
        }
        let have = self.outbox.len();
        let want = (have * 2).min(self.outbox.limit());
        if want <= have || self.outbox.grow(want).is_err() {
            return None;
        }
        self.window.add(((self.outbox.len() - have) / SEGMENT) as u32);
        self.window.take(len, to, position, released)
    }
}

/// How far into a cache line of the outbox a payload begins.
#[inline]
fn skew(parts: &[&[u8]], len: usize) -> usize {
    let skew = taffrail_fabric::skew(parts, len);
    if skew + len > SEGMENT { 0 } else { skew }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: usize = 64;

    #[test]
    fn what_has_no_room_begins_with_a_line() {
        let bytes = vec![0u8; SEGMENT + LINE];
        for from in 0..LINE {
            assert_eq!(skew(&[&bytes[from..from + SEGMENT]], SEGMENT), 0);
            let len = SEGMENT - 20;
            assert!(skew(&[&bytes[from..from + len]], len) <= 20);
        }
    }
}
