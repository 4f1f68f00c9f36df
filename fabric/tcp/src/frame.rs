//! The header of a frame (`docs/spec/tcp.md`).

use taffrail_fabric::{Fault, Head};

/// Length of a header in bytes.
pub(crate) const HEADER: usize = 24;

const MARK: [u8; 2] = *b"TF";
const MESSAGE: u8 = 1;
const GOODBYE: u8 = 2;
const ACK: u8 = 3;
/// Flag of a MESSAGE: its sender waits for an acknowledgement.
const ACK_WANTED: u8 = 1;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message with a payload of `len` bytes behind the header, and whether its sender waits for an acknowledgement.
    Message { head: Head, len: usize, ack: bool },
    /// The sender has received this many bytes of the stream.
    Ack { received: u64 },
    /// Nothing follows.
    Goodbye,
}

/// The room that a frame has while the peer acknowledges nothing.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Room {
    Message,
    Acknowledgement,
}

impl Frame {
    pub(crate) fn room(self) -> Room {
        match self {
            Frame::Message { .. } | Frame::Goodbye => Room::Message,
            Frame::Ack { .. } => Room::Acknowledgement,
        }
    }

    pub(crate) fn encode(self) -> [u8; HEADER] {
        let (kind, head, len, flags) = match self {
            Frame::Message { head, len, ack } => (MESSAGE, head, len, u8::from(ack) * ACK_WANTED),
            Frame::Ack { received } => (ACK, Head { tag: received, ..Head::default() }, 0, 0),
            Frame::Goodbye => (GOODBYE, Head::default(), 0, 0),
        };
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&MARK);
        bytes[2] = kind;
        bytes[3] = head.kind;
        bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&head.tag.to_le_bytes());
        bytes[16..20].copy_from_slice(&head.seq.to_le_bytes());
        bytes[20..22].copy_from_slice(&head.context.to_le_bytes());
        bytes[22] = flags;
        bytes
    }

    /// Reads and checks a header. Payloads are at most `max_message` bytes long; only streams that outlive their
    /// connection are `acknowledged`.
    pub(crate) fn decode(
        bytes: &[u8; HEADER],
        max_message: usize,
        acknowledged: bool,
    ) -> Result<Frame, Fault> {
        let [m0, m1, frame_type, kind, l0, l1, l2, l3, t0, t1, t2, t3, t4, t5, t6, t7, ..] = *bytes;
        let [.., s0, s1, s2, s3, c0, c1, flags, zero] = *bytes;
        let tag = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        if [m0, m1] != MARK {
            return Err(fault("the mark of a frame", "54 46", format!("{m0:02x} {m1:02x}")));
        }
        if zero != 0 || flags > if acknowledged { ACK_WANTED } else { 0 } {
            let expected = if acknowledged { "00 00 or 01 00" } else { "00 00" };
            let got = format!("{flags:02x} {zero:02x}");
            return Err(fault("the end of a frame's header", expected, got));
        }
        match frame_type {
            MESSAGE => {
                let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
                if kind >= Head::KINDS {
                    let below = format!("below {}", Head::KINDS);
                    return Err(fault("the kind of a message", &below, kind.to_string()));
                }
                if len > max_message {
                    let most = format!("at most {max_message} bytes");
                    return Err(fault("the length of a message", &most, len.to_string()));
                }
                let context = u16::from_le_bytes([c0, c1]);
                let seq = u32::from_le_bytes([s0, s1, s2, s3]);
                let head = Head { kind, context, seq, tag };
                Ok(Frame::Message { head, len, ack: flags == ACK_WANTED })
            }
            GOODBYE if *bytes == Frame::Goodbye.encode() => Ok(Frame::Goodbye),
            GOODBYE => Err(fault("a goodbye", "zeros behind its type", format!("{bytes:02x?}"))),
            ACK if acknowledged => {
                let frame = Frame::Ack { received: tag };
                let expected = "zeros but for its number";
                match *bytes == frame.encode() {
                    true => Ok(frame),
                    false => Err(fault("an acknowledgement", expected, format!("{bytes:02x?}"))),
                }
            }
            other => {
                let expected = if acknowledged { "1, 2 or 3" } else { "1 or 2" };
                Err(fault("the type of a frame", expected, other.to_string()))
            }
        }
    }
}

pub(crate) fn fault(place: &'static str, expected: &str, got: String) -> Fault {
    Fault::Protocol { place, expected: expected.to_owned(), got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 65_536;

    fn place(bytes: &[u8; HEADER]) -> &'static str {
        match Frame::decode(bytes, MAX, true) {
            Err(Fault::Protocol { place, .. }) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let head = Head { kind: 3, context: 0x0a0b, seq: 0x0c0d_0e0f, tag: 0x1011_1213_1415_1617 };
        let expected = [
            0x54, 0x46, 1, 3, 0x34, 0x12, 0, 0, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10,
            0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0,
        ];
        assert_eq!(Frame::Message { head, len: 0x1234, ack: false }.encode(), expected);
        let mut wanted = expected;
        wanted[22] = 1;
        assert_eq!(Frame::Message { head, len: 0x1234, ack: true }.encode(), wanted);
        let mut ack = [0; HEADER];
        ack[..3].copy_from_slice(&[0x54, 0x46, 3]);
        ack[8..16].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Frame::Ack { received: 0x0102_0304_0506_0708 }.encode(), ack);
        let mut goodbye = [0; HEADER];
        goodbye[..3].copy_from_slice(&[0x54, 0x46, 2]);
        assert_eq!(Frame::Goodbye.encode(), goodbye);
    }

    #[test]
    fn each_rule_is_checked_and_named() {
        let right = Frame::Message { head: Head::default(), len: MAX, ack: false }.encode();
        assert!(Frame::decode(&right, MAX, false).is_ok());
        let with = |at: usize, byte: u8| {
            let mut bytes = right;
            bytes[at] = byte;
            bytes
        };
        assert_eq!(place(&with(0, 0)), "the mark of a frame");
        assert_eq!(place(&with(1, 0)), "the mark of a frame");
        assert_eq!(place(&with(2, 0)), "the type of a frame");
        assert_eq!(place(&with(2, 4)), "the type of a frame");
        assert_eq!(place(&with(2, 3)), "an acknowledgement");
        assert_eq!(place(&with(3, Head::KINDS)), "the kind of a message");
        assert_eq!(place(&with(4, 1)), "the length of a message");
        assert_eq!(place(&with(7, 0xff)), "the length of a message");
        assert_eq!(place(&with(22, 2)), "the end of a frame's header");
        // A stream that ends with its connection is not acknowledged.
        assert!(Frame::decode(&with(22, 1), MAX, true).is_ok());
        assert!(Frame::decode(&with(22, 1), MAX, false).is_err());
        let ack = Frame::Ack { received: 1 }.encode();
        assert!(Frame::decode(&ack, MAX, true).is_ok());
        assert!(Frame::decode(&ack, MAX, false).is_err());
        assert_eq!(place(&with(23, 1)), "the end of a frame's header");
        for at in 3..23 {
            let mut goodbye = Frame::Goodbye.encode();
            goodbye[at] = 1;
            assert_eq!(place(&goodbye), "a goodbye", "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(kind in 0..Head::KINDS, context: u16, seq: u32, tag: u64, len in 0..=MAX, ack: bool) {
            let frame = Frame::Message { head: Head { kind, context, seq, tag }, len, ack };
            prop_assert_eq!(Frame::decode(&frame.encode(), MAX, true), Ok(frame));
        }

        #[test]
        fn what_is_read_is_written_as_the_same_bytes(mut bytes: [u8; HEADER], repair: bool) {
            if repair {
                bytes[..2].copy_from_slice(&MARK);
                bytes[2] = 1 + bytes[2] % 3;
                bytes[22] %= 2;
                bytes[23] = 0;
            }
            if let Ok(frame) = Frame::decode(&bytes, MAX, true) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
