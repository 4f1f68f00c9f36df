//! Every frame leaves through [`transmit`].

use crate::Rank;
use crate::frame::Frame;
use taffrail_fabric::{BeforeLog, Fabric, PeerId, Refused, Sent, Source};

/// Hands a frame with its body to the fabric. The front is written here, but for a message of the log, which has it in
/// front of its bytes.
///
/// # Errors
/// [`Refused`] when there is no room now, or the peer cannot be reached: nothing was sent.
#[inline(always)]
pub(crate) fn transmit(
    fabric: &mut impl Fabric,
    to: Rank,
    frame: &Frame,
    body: Source<'_>,
) -> Result<Sent, Refused> {
    if frame.has_front() {
        return transmit_front(fabric, to, frame, body);
    }
    fabric.send(PeerId(to), frame.head(), body)
}

/// As [`transmit`], of a frame that has a front.
#[inline(never)]
fn transmit_front(
    fabric: &mut impl Fabric,
    to: Rank,
    frame: &Frame,
    body: Source<'_>,
) -> Result<Sent, Refused> {
    let front = frame.front();
    let (two, all): ([&[u8]; 2], Vec<&[u8]>);
    let before;
    let source = match body {
        Source::Bytes([]) => Source::Bytes(&front),
        Source::Bytes(bytes) => {
            two = [&front, bytes];
            Source::Parts(&two)
        }
        Source::Parts(parts) => {
            all = behind(&front, parts);
            Source::Parts(&all)
        }
        Source::BeforeLog(&BeforeLog { parts, ranges }) => {
            all = behind(&front, parts);
            before = BeforeLog { parts: &all, ranges };
            Source::BeforeLog(&before)
        }
        Source::Log(_) | Source::User(..) => body,
    };
    fabric.send(PeerId(to), frame.head(), source)
}

/// Parts with another one in front.
fn behind<'a>(front: &'a [u8], parts: &[&'a [u8]]) -> Vec<&'a [u8]> {
    std::iter::once(front).chain(parts.iter().copied()).collect()
}
