//! The engine's messages (`docs/wire.md`, section 5).

use taffrail_logging::mutant;

/// A whole message.
pub const EAGER: u8 = 1;
/// A whole message whose sender wants to know when it is matched: `name u64`, then the payload.
pub const EAGER_SYNC: u8 = 2;
/// The first fragment of a message: `len u64`, then the fragment.
pub const EAGER_FIRST: u8 = 3;
/// The next fragment of a message that an `EAGER_FIRST` of the same peer began: its context and number, and where in the
/// message it begins. Fragments of a message come in order.
pub const EAGER_FRAG: u8 = 4;
/// The RTS of a message: `len u64`, `name u64`, and the key of its memory, if any.
pub const RTS: u8 = 5;
/// Send me the announced message in fragments: tag = its name; payload = `len u64`, the receive's
/// `name u64`.
pub const CTS: u8 = 6;
/// A fragment: tag = the receive's name; payload = the fragment.
pub const RNDV_DATA: u8 = 7;
/// The announced message was read, or the synchronous one matched: tag = its name.
pub const ACK: u8 = 8;
/// An active message: context = handler, tag = header.
pub const ACTIVE: u8 = 9;
/// A loan: `len u64`, `loan u64`, and the key of its memory.
pub const LOAN: u8 = 10;
/// A loan comes back: tag = its number.
pub const LOAN_RETURN: u8 = 11;
/// A get that the fabric cannot do: tag = the requester's name; payload = `region u64`,
/// `offset u64`, `len u64`. Answered by fragments.
pub const GET_REQ: u8 = 12;
/// A put that the fabric cannot do: tag = the requester's name; payload = `region u64`,
/// `offset u64`, `last u64`, then bytes. The one with `last` = 1 is answered by `ACK`.
pub const PUT_REQ: u8 = 13;
/// A `GET_REQ` or `PUT_REQ` that names no memory: tag = the requester's name.
pub const NAK_KEY: u8 = 14;
/// From now on send no message that is not begun (seq = 2), announce everything longer than a slot (seq = 1), or neither
/// (seq = 0).
pub const THROTTLE: u8 = 15;
/// RESTART1 or RESTART2: what the sender has of the receiver (`docs/logging.md`, section 4).
pub const RESTART: u8 = 16;
/// The program of the sender has ended. Its process stays until all programs have, since its log may be needed.
pub const FINALIZE: u8 = 17;
/// Events that what follows may depend on (`docs/logging.md`, section 13).
pub const DETERMINANTS: u8 = 18;
/// The sender finalises and has not received a message that waits for that: tag = its name.
pub const FINALIZE_NAK: u8 = 19;

/// A whole message with data beside the payload that its context has no room for: `data u64`, then
/// the payload.
pub const EAGER_DATA: u8 = 20;
/// As [`RTS`], with data in front: `data u64`.
pub const RTS_DATA: u8 = 21;
/// An atomic operation on named memory: tag = the requester's name; payload = `name u64`, `address u64`,
/// `what u64`, then the operands. Answered by `ACK`, or by a fragment with what was there before.
pub const ATOMIC: u8 = 22;

/// Whether messages of this kind exist only where messages are logged.
pub(crate) fn is_of_the_log(kind: u8) -> bool {
    (RESTART..=DETERMINANTS).contains(&kind)
}

/// Whether a frame of this kind lets a peer's program continue: then the frame waits at the gate for the
/// events that it may depend on (*every-frame-that-frees*; `docs/logging.md`, section 2, says why each of the
/// others does not).
pub(crate) fn frees(kind: u8) -> bool {
    !matches!(kind, EAGER_FRAG | RNDV_DATA | THROTTLE | RESTART | DETERMINANTS) && !escapes(kind)
}

/// Whether a frame that [`frees`] a peer passes the gate all the same, by a mutant.
#[inline(always)]
fn escapes(kind: u8) -> bool {
    match kind {
        CTS => mutant!(ClearUngated),
        ACK => mutant!(AckUngated),
        LOAN_RETURN => mutant!(LoanReturnUngated),
        FINALIZE => mutant!(FinalizeUngated),
        FINALIZE_NAK => mutant!(FinalizeNakUngated),
        _ => false,
    }
}

/// How much a message that waits counts as an answer, which is sent because the peer has asked for it: the
/// more, the longer it is. 0 for others.
pub(crate) fn weight(kind: u8, len: usize) -> usize {
    match kind {
        RNDV_DATA | ACK | LOAN_RETURN | NAK_KEY | THROTTLE | FINALIZE_NAK => 1 + len / 1024,
        _ => 0,
    }
}
