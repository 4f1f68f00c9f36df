//! What the engine's messages say beside their payload (`docs/wire.md`, section 5): one type, one codec.
//!
//! The head of a message has room for three numbers; what else a frame says is its *front*, before the body. A whole
//! message has no front, and its head is read where messages come off the fabric, without a detour over [`Frame`].

pub(crate) mod body;
mod codec;
mod front;
pub mod kind;

pub(crate) use codec::rndv_data;

use crate::CONTEXTS;
use crate::loan::Offer;
use crate::memory::{NoMemory, TargetAddr};
use taffrail_fabric::{Head, RemoteKey};

/// What an RTS says beside the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// The send, as its owner names it.
    pub(crate) name: u64,
    /// Where its memory is, if it can be read.
    pub(crate) key: Option<RemoteKey>,
}

/// Which messages a receiver takes that its sender has not begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throttle {
    /// All.
    #[default]
    Off,
    /// Of those longer than a slot the RTS.
    Announce,
    /// None.
    Stop,
}

/// How a matched message is called: the fields of its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsgHead {
    /// The word of its context ([`Immediate`](crate::immediate::Immediate)).
    pub context: u16,
    /// The low half of its number in its channel.
    pub seq: u32,
    /// Its tag.
    pub tag: u64,
}

/// A message of the engine's, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Eager { msg: MsgHead },
    /// A whole message whose sender wants to know when it is matched.
    EagerSync { msg: MsgHead, name: u64 },
    /// A whole message with data that its context has no room for.
    EagerData { msg: MsgHead, data: u32 },
    /// The first fragment of a message of `len` bytes.
    EagerFirst { msg: MsgHead, len: u64 },
    /// The bytes from `offset` on of the message whose number and context are these (*no-order-leans*).
    EagerFrag { context: u16, seq: u32, offset: u64 },
    /// A message of `len` bytes waits to be fetched.
    Rts { msg: MsgHead, data: Option<u32>, len: u64, rts: Rts },
    /// Send the first `len` bytes of the announced message in fragments, to the receive `to`.
    Cts { name: u64, non_temporal: bool, len: u64, to: u64 },
    /// The bytes from `offset` on of what the operation `to` waits for (*no-order-leans*).
    RndvData { to: u64, offset: u64 },
    /// The announced message was read, or the synchronous one matched, or the put or atomic operation done.
    Ack { name: u64 },
    /// An active message.
    Active { handler: u16, header: u64 },
    /// A message of `len` bytes in memory that is lent.
    Loan { msg: MsgHead, len: u64, offer: Offer },
    /// A loan comes back.
    LoanReturn { loan: u64 },
    /// A get for which the fabric gives no way. Answered by RNDV_DATA.
    GetReq { name: u64, place: TargetAddr, len: u64 },
    /// A put for which the fabric gives no way. The last is answered by ACK.
    PutReq { name: u64, place: TargetAddr, last: bool },
    /// The memory of a get, put or atomic operation is not to be reached.
    NakKey { name: u64, why: NoMemory },
    /// Which messages the sender of this takes from now on.
    Throttle { what: Throttle },
    /// RESTART1, RESTART2 or COMMITTED (`docs/logging.md`, section 4).
    Restart,
    /// The program of the sender has ended. Its process stays until all programs have, since its log may be needed.
    Finalize,
    /// Events that what follows may depend on (`docs/logging.md`, section 13).
    Determinants,
    /// The sender finalises and has not received a message that waits for that.
    FinalizeNak { name: u64 },
    /// An atomic operation on keyed memory. Answered by ACK, or by RNDV_DATA with what was there before.
    Atomic { name: u64, place: TargetAddr, what: u64 },
}

impl Frame {
    /// Whether a receiver that takes no message stops this ([`Throttle::Stop`]): a message of the program, or FINALIZE, which
    /// comes behind all messages.
    #[inline]
    pub(crate) fn is_stoppable(&self) -> bool {
        match self {
            Frame::Eager { msg }
            | Frame::EagerSync { msg, .. }
            | Frame::EagerData { msg, .. }
            | Frame::EagerFirst { msg, .. }
            | Frame::Rts { msg, .. }
            | Frame::Loan { msg, .. } => msg.is_of_program(),
            Frame::Active { .. } | Frame::Finalize => true,
            _ => false,
        }
    }
}

impl MsgHead {
    /// Whether it is a message of the program, and not of the library.
    #[inline]
    pub(crate) fn is_of_program(self) -> bool {
        self.context < CONTEXTS
    }

    /// That of a head.
    #[inline(always)]
    pub(crate) fn of(head: Head) -> Self {
        MsgHead { context: head.context, seq: head.seq, tag: head.tag }
    }

    /// The fragment of this message from byte `sent` on.
    #[inline]
    pub(crate) fn fragment(self, sent: usize) -> Frame {
        Frame::EagerFrag { context: self.context, seq: self.seq, offset: sent as u64 }
    }

    /// As the head of a message of some kind.
    #[inline(always)]
    fn head(self, kind: u8) -> Head {
        Head { kind, context: self.context, seq: self.seq, tag: self.tag }
    }
}
