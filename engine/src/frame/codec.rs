//! Frames as bytes (`docs/wire.md`, section 5). Whatever a peer sends is either a frame or a fault.

use super::Rts;
use super::front::Front;
use super::{Frame, MsgHead, Throttle, body, kind};
use crate::error::broken;
use crate::loan::Offer;
use crate::memory::{KEYED, NoMemory, TargetAddr};
use taffrail_fabric::{Fault, Head, Payload, RemoteKey};

/// The bits of an offset that the number of a head has room for, below those of its context.
const OFFSET_LOW: u32 = 32;

impl Frame {
    /// Its head, without its front.
    #[inline(always)]
    pub(crate) fn head(&self) -> Head {
        let named = |kind, name| Head { kind, tag: name, ..Head::default() };
        match *self {
            Frame::Eager { msg } => msg.head(kind::EAGER),
            Frame::EagerSync { msg, .. } => msg.head(kind::EAGER_SYNC),
            Frame::EagerData { msg, .. } => msg.head(kind::EAGER_DATA),
            Frame::EagerFirst { msg, .. } => msg.head(kind::EAGER_FIRST),
            Frame::EagerFrag { context, seq, offset } => {
                Head { kind: kind::EAGER_FRAG, context, seq, tag: offset }
            }
            Frame::Rts { msg, data: None, .. } => msg.head(kind::RTS),
            Frame::Rts { msg, data: Some(_), .. } => msg.head(kind::RTS_DATA),
            Frame::Cts { name, non_temporal, .. } => {
                Head { seq: non_temporal.into(), ..named(kind::CTS, name) }
            }
            Frame::RndvData { to, offset } => Head {
                kind: kind::RNDV_DATA,
                context: (offset >> OFFSET_LOW) as u16,
                seq: offset as u32,
                tag: to,
            },
            Frame::Ack { name } => named(kind::ACK, name),
            Frame::Active { handler, header } => {
                Head { kind: kind::ACTIVE, context: handler, seq: 0, tag: header }
            }
            Frame::Loan { msg, .. } => msg.head(kind::LOAN),
            Frame::LoanReturn { loan } => named(kind::LOAN_RETURN, loan),
            Frame::GetReq { name, place, .. } => place.head(kind::GET_REQ, name),
            Frame::PutReq { name, place, .. } => place.head(kind::PUT_REQ, name),
            Frame::Atomic { name, place, .. } => place.head(kind::ATOMIC, name),
            Frame::NakKey { name, why } => {
                Head { context: why as u16, ..named(kind::NAK_KEY, name) }
            }
            Frame::Throttle { what } => Head { seq: what as u32, ..named(kind::THROTTLE, 0) },
            Frame::Restart => named(kind::RESTART, 0),
            Frame::Finalize => named(kind::FINALIZE, 0),
            Frame::Determinants => named(kind::DETERMINANTS, 0),
            Frame::FinalizeNak { name } => named(kind::FINALIZE_NAK, name),
        }
    }

    /// Its kind.
    #[inline]
    pub(crate) fn kind(&self) -> u8 {
        self.head().kind
    }

    /// Whether it says anything in front of its body.
    #[inline(always)]
    pub(crate) fn has_front(&self) -> bool {
        matches!(
            self,
            Frame::EagerSync { .. }
                | Frame::EagerData { .. }
                | Frame::EagerFirst { .. }
                | Frame::Rts { .. }
                | Frame::Cts { .. }
                | Frame::Loan { .. }
                | Frame::GetReq { .. }
                | Frame::PutReq { .. }
                | Frame::Atomic { .. }
        )
    }

    /// What it says in front of its body.
    #[inline]
    pub(crate) fn front(&self) -> Front {
        let front = Front::empty();
        match self {
            Frame::EagerSync { name, .. } => front.word(*name),
            Frame::EagerData { data, .. } => front.word((*data).into()),
            Frame::EagerFirst { len, .. } => front.word(*len),
            Frame::Rts { data, len, rts, .. } => {
                let front = data.map_or(front, |data| Front::empty().word(data.into()));
                front.word(*len).word(rts.name).key(rts.key.as_ref())
            }
            Frame::Cts { len, to, .. } => front.word(*len).word(*to),
            Frame::Loan { len, offer, .. } => {
                front.word(*len).word(offer.loan).key(Some(&offer.key))
            }
            Frame::GetReq { place, len, .. } => {
                front.word(place.region).word(place.offset).word(*len)
            }
            Frame::PutReq { place, last, .. } => {
                front.word(place.region).word(place.offset).word((*last).into())
            }
            Frame::Atomic { place, what, .. } => {
                front.word(place.region).word(place.offset).word(*what)
            }
            _ => front,
        }
    }

    /// The frame of a message that has come, and how many bytes of the payload are its front; the others are its body.
    ///
    /// # Errors
    /// [`Fault::Protocol`] when no peer that keeps the protocol sends this.
    #[inline]
    pub(crate) fn decode(head: Head, payload: &Payload<'_>) -> Result<(Frame, usize), Fault> {
        let len = payload.len();
        let msg = MsgHead::of(head);
        let name = head.tag;
        let read = Reader { payload };
        let whole = |frame| Ok((frame, 0));
        match head.kind {
            kind::EAGER => whole(Frame::Eager { msg }),
            kind::EAGER_SYNC => Ok((Frame::EagerSync { msg, name: read.word(0)? }, 8)),
            kind::EAGER_DATA => Ok((Frame::EagerData { msg, data: read.data()? }, 8)),
            kind::EAGER_FIRST => {
                read.check(len > 8, "more than 8")?;
                Ok((Frame::EagerFirst { msg, len: read.word(0)? }, 8))
            }
            kind::EAGER_FRAG => {
                read.check(len > 0, "at least 1")?;
                whole(Frame::EagerFrag { context: head.context, seq: head.seq, offset: head.tag })
            }
            kind::RTS => read.rts(msg, None, 0),
            kind::RTS_DATA => read.rts(msg, Some(read.data()?), 8),
            kind::CTS => {
                read.check(len == 16, "16")?;
                let (len, to) = (read.word(0)?, read.word(8)?);
                Ok((Frame::Cts { name, non_temporal: head.seq != 0, len, to }, 16))
            }
            kind::RNDV_DATA => {
                read.check(len > 0, "at least 1")?;
                let (to, offset) = rndv_data(head);
                whole(Frame::RndvData { to, offset })
            }
            kind::ACTIVE => whole(Frame::Active { handler: head.context, header: head.tag }),
            kind::LOAN => {
                read.check((17..=16 + RemoteKey::MAX).contains(&len), "17 to 80")?;
                let key = read.key(16)?.ok_or_else(|| read.wrong_length("17 to 80"))?;
                let offer = Offer { loan: read.word(8)?, key };
                Ok((Frame::Loan { msg, len: read.word(0)?, offer }, len))
            }
            kind::GET_REQ => {
                read.check(len == 24, "24")?;
                Ok((Frame::GetReq { name, place: read.place(head)?, len: read.word(16)? }, 24))
            }
            kind::PUT_REQ => {
                read.check(len > 24, "more than 24")?;
                let last = read.word(16)? != 0;
                Ok((Frame::PutReq { name, place: read.place(head)?, last }, 24))
            }
            kind::ATOMIC => {
                let (place, what) = (read.place(head)?, read.word(16)?);
                Ok((Frame::Atomic { name, place, what }, 24))
            }
            kind::RESTART => {
                read.check(len >= 16, "at least 16")?;
                whole(Frame::Restart)
            }
            kind::DETERMINANTS => {
                read.check(body::holds_determinants(len), "a multiple of 40")?;
                whole(Frame::Determinants)
            }
            _ => Frame::decode_bare(head).and_then(|frame| {
                read.check(len == 0, "0")?;
                whole(frame)
            }),
        }
    }

    /// The frames that have neither front nor body.
    fn decode_bare(head: Head) -> Result<Frame, Fault> {
        let name = head.tag;
        match head.kind {
            kind::ACK => Ok(Frame::Ack { name }),
            kind::LOAN_RETURN => Ok(Frame::LoanReturn { loan: name }),
            kind::NAK_KEY => Ok(Frame::NakKey { name, why: NoMemory::of(head.context) }),
            kind::THROTTLE => Ok(Frame::Throttle { what: Throttle::of(head.seq)? }),
            kind::FINALIZE => Ok(Frame::Finalize),
            kind::FINALIZE_NAK => Ok(Frame::FinalizeNak { name }),
            other => Err(broken("kind", "1..=22", other)),
        }
    }
}

/// The operation and the offset of an RNDV_DATA.
#[inline]
pub(crate) fn rndv_data(head: Head) -> (u64, u64) {
    (head.tag, u64::from(head.context) << OFFSET_LOW | u64::from(head.seq))
}

impl Throttle {
    fn of(seq: u32) -> Result<Throttle, Fault> {
        match seq {
            0 => Ok(Throttle::Off),
            1 => Ok(Throttle::Announce),
            2 => Ok(Throttle::Stop),
            other => Err(broken("throttle", "0, 1 or 2", other)),
        }
    }
}

impl TargetAddr {
    fn head(self, kind: u8, name: u64) -> Head {
        let context = if self.keyed { KEYED } else { 0 };
        Head { kind, context, seq: 0, tag: name }
    }
}

/// Reads the front of a frame.
#[derive(Clone, Copy)]
struct Reader<'a, 'p> {
    payload: &'a Payload<'p>,
}

impl Reader<'_, '_> {
    #[inline]
    fn check(self, fits: bool, expected: &'static str) -> Result<(), Fault> {
        if fits { Ok(()) } else { Err(self.wrong_length(expected)) }
    }

    #[cold]
    fn wrong_length(self, expected: impl ToString) -> Fault {
        broken("length", expected, self.payload.len())
    }

    #[inline]
    fn word(self, at: usize) -> Result<u64, Fault> {
        if self.payload.len() < at + 8 {
            return Err(self.wrong_length(format!("at least {}", at + 8)));
        }
        let mut bytes = [0; 8];
        self.payload.read_at(at, &mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    /// The data in front of a payload.
    fn data(self) -> Result<u32, Fault> {
        let word = self.word(0)?;
        u32::try_from(word).map_err(|_| broken("data", format!("at most {}", u32::MAX), word))
    }

    /// The key at the end, from `at` on: `None` if the payload ends there.
    fn key(self, at: usize) -> Result<Option<RemoteKey>, Fault> {
        let len = self.payload.len().saturating_sub(at);
        self.check(len <= RemoteKey::MAX, "a key of at most 64 bytes")?;
        let mut key = [0; RemoteKey::MAX];
        self.payload.read_at(at, &mut key[..len]);
        Ok(RemoteKey::from_bytes(&key[..len]))
    }

    fn rts(self, msg: MsgHead, data: Option<u32>, at: usize) -> Result<(Frame, usize), Fault> {
        let most = at + 16 + RemoteKey::MAX;
        if !(at + 16..=most).contains(&self.payload.len()) {
            return Err(self.wrong_length(format!("{} to {most}", at + 16)));
        }
        let (len, name) = (self.word(at)?, self.word(at + 8)?);
        let rts = Rts { name, key: self.key(at + 16)? };
        Ok((Frame::Rts { msg, data, len, rts }, self.payload.len()))
    }

    fn place(self, head: Head) -> Result<TargetAddr, Fault> {
        let (region, offset) = (self.word(0)?, self.word(8)?);
        Ok(TargetAddr { region, keyed: head.context == KEYED, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let msg = (any::<u16>(), any::<u32>(), any::<u64>())
            .prop_map(|(context, seq, tag)| MsgHead { context, seq, tag });
        let key = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..RemoteKey::MAX))
            .prop_map(|(rail, key)| RemoteKey::new(rail, &key));
        let place = (any::<u64>(), any::<bool>(), any::<u64>())
            .prop_map(|(region, keyed, offset)| TargetAddr { region, keyed, offset });
        let data = any::<u32>();
        let word = any::<u64>;
        let name = any::<u64>();
        prop_oneof![
            msg.clone().prop_map(|msg| Frame::Eager { msg }),
            (msg.clone(), word()).prop_map(|(msg, name)| Frame::EagerSync { msg, name }),
            (msg.clone(), data).prop_map(|(msg, data)| Frame::EagerData { msg, data }),
            (msg.clone(), word()).prop_map(|(msg, len)| Frame::EagerFirst { msg, len }),
            (any::<u16>(), any::<u32>(), word())
                .prop_map(|(context, seq, offset)| Frame::EagerFrag { context, seq, offset }),
            (msg.clone(), prop::option::of(data), word(), word(), prop::option::of(key.clone()))
                .prop_map(|(msg, data, len, name, key)| {
                    Frame::Rts { msg, data, len, rts: Rts { name, key } }
                }),
            (word(), any::<bool>(), word(), word()).prop_map(|(name, non_temporal, len, to)| {
                Frame::Cts { name, non_temporal, len, to }
            }),
            (word(), 0..1u64 << 48).prop_map(|(to, offset)| Frame::RndvData { to, offset }),
            name.prop_map(|name| Frame::Ack { name }),
            (any::<u16>(), word()).prop_map(|(handler, header)| Frame::Active { handler, header }),
            (msg, word(), word(), key).prop_map(|(msg, len, loan, key)| {
                Frame::Loan { msg, len, offer: Offer { loan, key } }
            }),
            name.prop_map(|loan| Frame::LoanReturn { loan }),
            (word(), place.clone(), word()).prop_map(|(name, place, len)| Frame::GetReq {
                name,
                place,
                len
            }),
            (word(), place.clone(), any::<bool>()).prop_map(|(name, place, last)| Frame::PutReq {
                name,
                place,
                last
            }),
            (word(), any::<bool>()).prop_map(|(name, known)| {
                let why = if known { NoMemory::NoAccess } else { NoMemory::Unknown };
                Frame::NakKey { name, why }
            }),
            (0u32..3).prop_map(|seq| Frame::Throttle { what: Throttle::of(seq).unwrap() }),
            Just(Frame::Restart),
            Just(Frame::Finalize),
            Just(Frame::Determinants),
            name.prop_map(|name| Frame::FinalizeNak { name }),
            (word(), place, word()).prop_map(|(name, place, what)| Frame::Atomic {
                name,
                place,
                what
            }),
        ]
    }

    proptest! {
        /// What is encoded is decoded, front and body.
        #[test]
        fn frames_come_back(frame in frames(), body in prop::collection::vec(any::<u8>(), 1..64)) {
            let (head, front) = (frame.head(), frame.front());
            prop_assert_eq!(frame.has_front(), !front.is_empty());
            let body = match head.kind {
                kind::DETERMINANTS => vec![7; 40],
                kind::RESTART => vec![7; 16],
                kind::EAGER | kind::EAGER_SYNC | kind::EAGER_DATA | kind::EAGER_FIRST
                | kind::EAGER_FRAG | kind::RNDV_DATA | kind::ACTIVE | kind::PUT_REQ | kind::ATOMIC => body,
                _ => Vec::new(),
            };
            let bytes = [&front[..], &body].concat();
            let (got, skip) = Frame::decode(head, &Payload::of(&bytes)).unwrap();
            prop_assert_eq!(got, frame);
            prop_assert_eq!(&bytes[skip..], &body[..]);
        }

        /// Whatever comes is a frame that is sent back the same, or a fault.
        #[test]
        fn anything_is_a_frame_or_a_fault(
            kind in 0u8..32, context in any::<u16>(), seq in any::<u32>(), tag in any::<u64>(),
            payload in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let head = Head { kind, context, seq, tag };
            if let Ok((frame, skip)) = Frame::decode(head, &Payload::of(&payload)) {
                prop_assert_eq!(frame.head().kind, kind);
                prop_assert!(skip <= payload.len());
                prop_assert_eq!(frame.front().len(), skip);
            }
        }
    }
}
