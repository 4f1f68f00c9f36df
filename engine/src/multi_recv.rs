//! Multi-receives: how messages share the buffer of one, and how it ends.

use super::core::Core;
use super::multi::Landed;
use super::request::{ANY, Stage};
use crate::Engine;
use crate::policy::Policy;
use crate::{Error, Request};
use taffrail_fabric::{Fabric, SendMemory};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// The next message that a multi-receive has got. When its result was taken and there is no
    /// more, that is the last that is heard of it.
    pub fn next_landed(&mut self, request: Request) -> Result<Option<Landed>, Error> {
        let slot = self.core.requests.look_reporting(request)?;
        let Some(multi) = slot.extra().multi.as_mut() else {
            return Err(Error::StaleRequest(request));
        };
        let next = multi.next();
        if next.is_none() && slot.stage == Stage::Reporting {
            let _ = self.core.requests.finish(request.index);
        }
        next.transpose()
    }
}

/// Ends the multi-receive `whole` early: with this error, when what it has matched is received, since
/// until then its buffer is written.
#[expect(clippy::expect_used, reason = "the request is a multi-receive")]
pub(crate) fn end(core: &mut Core<impl Policy>, whole: u32, error: Error) {
    let slot = core.requests.get(whole);
    slot.post = None;
    let multi = slot.extra().multi.as_mut().expect("a multi-receive");
    multi.closed = true;
    if multi.pending == 0 {
        core.requests.fail(whole, error);
    } else {
        multi.ending = Some(error);
    }
}

/// Cuts the memory for a message that has matched the multi-receive `whole`. Returns the request
/// that receives its bytes.
#[expect(clippy::expect_used, reason = "the request is a multi-receive")]
pub(crate) fn allocate_part(core: &mut Core<impl Policy>, whole: u32) -> u32 {
    let slot = core.requests.get(whole);
    let (base, len, status) = (slot.at, slot.len, slot.status);
    let (post, record) = (slot.post, slot.record.of_part());
    let multi = slot.extra().multi.as_mut().expect("a multi-receive");
    let offset = multi.used;
    let room = status.len.min(len - offset);
    // Messages start at whole words, as far as there is room.
    multi.used = (offset + room).next_multiple_of(8).min(len);
    multi.pending += 1;
    let full = len - multi.used < multi.least;
    multi.closed |= full;
    // SAFETY: the offset lies inside the buffer that the receive was posted with.
    let at = unsafe { base.add(offset) };
    let part = core.requests.start(Stage::Reading, ANY, at, room);
    let slot = core.requests.get(part);
    slot.status = status;
    slot.extra().part_of = Some(whole);
    slot.record = record;
    if let Some(order) = &mut core.requests.get(whole).extra().multi.as_mut().expect("it").in_order
    {
        order.push_back((part, None));
    }
    if full {
        if let Some(post) = post {
            core.matcher.cancel(post);
        }
        core.requests.get(whole).post = None;
    }
    part
}

/// Reports to the whole that one of its messages has landed, or failed.
#[expect(clippy::expect_used, reason = "parts belong to a multi-receive")]
pub(crate) fn part_completed(core: &mut Core<impl Policy>, part: u32) {
    let slot = core.requests.get(part);
    let (at, status) = (slot.at, slot.status);
    let Some(whole) = slot.extra.as_ref().and_then(|e| e.part_of) else { return };
    let result = core.requests.finish(part);
    let slot = core.requests.get(whole);
    let offset = at.addr() - slot.at.addr();
    let multi = slot.extra().multi.as_mut().expect("a multi-receive");
    multi.pending -= 1;
    let ends = multi.closed && multi.pending == 0;
    let ending = multi.ending.take_if(|_| ends);
    let more = multi.has(part, result.map(|_| Landed { offset, status, last: false }));
    if let (true, None, Some(Ok(landed))) = (ends, &ending, multi.landed.back_mut()) {
        landed.last = true;
    }
    if slot.serial != 0 {
        (0..more).for_each(|_| core.requests.push_completion(whole));
    }
    if ends {
        match ending {
            Some(error) => core.requests.fail(whole, error),
            None => core.requests.end(whole),
        }
    }
}
