//! Multi-receive: one large buffer that many messages fill, one behind the other.

use super::core::Core;
use super::request::{ANY, Stage};
use crate::{Endpoint, Error, Request, Status};
use std::collections::VecDeque;

/// The state of such a receive.
pub(crate) struct Multi {
    /// Bytes given to messages.
    used: usize,
    /// The receive ends when fewer bytes are free.
    least: usize,
    /// Messages that are under way.
    pending: u32,
    /// No more messages are taken.
    pub(crate) closed: bool,
    /// What it ends with, once nothing is under way any more.
    ending: Option<Error>,
    /// Messages that are there, to be told.
    landed: VecDeque<Result<Landed, Error>>,
}

/// A message that a multi-receive has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Where in the buffer it begins.
    pub offset: usize,
    /// What it says of itself.
    pub status: Status,
    /// The buffer is used up with it: nothing more lands.
    pub last: bool,
}

impl Multi {
    pub(crate) fn new(least: usize) -> Self {
        Multi {
            used: 0,
            least: least.max(1),
            pending: 0,
            closed: false,
            ending: None,
            landed: VecDeque::new(),
        }
    }

    /// The next message that is there.
    pub(crate) fn next(&mut self) -> Option<Result<Landed, Error>> {
        self.landed.pop_front()
    }

    /// Whether all that is there has been told.
    pub(crate) fn is_told(&self) -> bool {
        self.landed.is_empty()
    }
}

impl Endpoint {
    /// The next message that a multi-receive has got. When its result was taken and there is no
    /// more, that is the last that is heard of it.
    pub(crate) fn next_landed(&mut self, request: Request) -> Result<Option<Landed>, Error> {
        let slot = self.core.requests.look_telling(request)?;
        let Some(multi) = slot.extra().multi.as_mut() else {
            return Err(Error::StaleRequest(request));
        };
        let next = multi.next();
        if next.is_none() && slot.stage == Stage::Telling {
            let _ = self.core.requests.finish(request.index);
        }
        next.transpose()
    }
}

/// Ends the multi-receive `whole` early: with this error, when what it has matched is received, since
/// until then its buffer is written.
pub(crate) fn end(core: &mut Core, whole: u32, error: Error) {
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
pub(crate) fn carve(core: &mut Core, whole: u32) -> u32 {
    let slot = core.requests.get(whole);
    let (base, len, status) = (slot.at, slot.len, slot.status);
    let post = slot.post;
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
    if full {
        if let Some(post) = post {
            core.matcher.cancel(post);
        }
        core.requests.get(whole).post = None;
    }
    part
}

/// Tells the whole that one of its messages has landed, or failed.
pub(crate) fn part_done(core: &mut Core, part: u32) {
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
    let last = ends && ending.is_none();
    multi.landed.push_back(result.map(|_| Landed { offset, status, last }));
    if slot.serial != 0 {
        core.requests.is_to_be_told(whole);
    }
    if ends {
        match ending {
            Some(error) => core.requests.fail(whole, error),
            None => core.requests.end(whole),
        }
    }
}
