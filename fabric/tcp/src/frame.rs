//! The header of a frame (`docs/spec/tcp.md`).

use taffrail_fabric::{Fault, Head};

/// Length of a header in bytes.
pub(crate) const HEADER: usize = 24;

const MARK: [u8; 2] = *b"TF";
const MESSAGE: u8 = 1;
const GOODBYE: u8 = 2;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message with a payload of `len` bytes behind the header.
    Message { head: Head, len: usize },
    /// Nothing follows.
    Goodbye,
}

impl Frame {
    pub(crate) fn encode(self) -> [u8; HEADER] {
        let (kind, head, len) = match self {
            Frame::Message { head, len } => (MESSAGE, head, len),
            Frame::Goodbye => (GOODBYE, Head::default(), 0),
        };
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&MARK);
        bytes[2] = kind;
        bytes[3] = head.kind;
        bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&head.tag.to_le_bytes());
        bytes[16..20].copy_from_slice(&head.seq.to_le_bytes());
        bytes[20..22].copy_from_slice(&head.context.to_le_bytes());
        bytes
    }

    /// Reads and checks a header. Payloads are at most `max_message` bytes long.
    pub(crate) fn decode(bytes: &[u8; HEADER], max_message: usize) -> Result<Frame, Fault> {
        let [m0, m1, frame_type, kind, l0, l1, l2, l3, t0, t1, t2, t3, t4, t5, t6, t7, ..] = *bytes;
        let [.., s0, s1, s2, s3, c0, c1, r0, r1] = *bytes;
        if [m0, m1] != MARK {
            return Err(fault("the mark of a frame", "54 46", format!("{m0:02x} {m1:02x}")));
        }
        if [r0, r1] != [0; 2] {
            let got = format!("{r0:02x} {r1:02x}");
            return Err(fault("the end of a frame's header", "00 00", got));
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
                let head = Head {
                    kind,
                    context: u16::from_le_bytes([c0, c1]),
                    seq: u32::from_le_bytes([s0, s1, s2, s3]),
                    tag: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
                };
                Ok(Frame::Message { head, len })
            }
            GOODBYE if *bytes == Frame::Goodbye.encode() => Ok(Frame::Goodbye),
            GOODBYE => Err(fault("a goodbye", "zeros behind its type", format!("{bytes:02x?}"))),
            other => Err(fault("the type of a frame", "1 or 2", other.to_string())),
        }
    }
}

fn fault(place: &'static str, expected: &str, got: String) -> Fault {
    Fault::Protocol { place, expected: expected.to_owned(), got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 65_536;

    fn place(bytes: &[u8; HEADER]) -> &'static str {
        match Frame::decode(bytes, MAX) {
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
        assert_eq!(Frame::Message { head, len: 0x1234 }.encode(), expected);
        let mut goodbye = [0; HEADER];
        goodbye[..3].copy_from_slice(&[0x54, 0x46, 2]);
        assert_eq!(Frame::Goodbye.encode(), goodbye);
    }

    #[test]
    fn each_rule_is_checked_and_named() {
        let right = Frame::Message { head: Head::default(), len: MAX }.encode();
        assert!(Frame::decode(&right, MAX).is_ok());
        let with = |at: usize, byte: u8| {
            let mut bytes = right;
            bytes[at] = byte;
            bytes
        };
        assert_eq!(place(&with(0, 0)), "the mark of a frame");
        assert_eq!(place(&with(1, 0)), "the mark of a frame");
        assert_eq!(place(&with(2, 0)), "the type of a frame");
        assert_eq!(place(&with(2, 3)), "the type of a frame");
        assert_eq!(place(&with(3, Head::KINDS)), "the kind of a message");
        assert_eq!(place(&with(4, 1)), "the length of a message");
        assert_eq!(place(&with(7, 0xff)), "the length of a message");
        assert_eq!(place(&with(22, 1)), "the end of a frame's header");
        assert_eq!(place(&with(23, 1)), "the end of a frame's header");
        for at in 3..22 {
            let mut goodbye = Frame::Goodbye.encode();
            goodbye[at] = 1;
            assert_eq!(place(&goodbye), "a goodbye", "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(kind in 0..Head::KINDS, context: u16, seq: u32, tag: u64, len in 0..=MAX) {
            let frame = Frame::Message { head: Head { kind, context, seq, tag }, len };
            prop_assert_eq!(Frame::decode(&frame.encode(), MAX), Ok(frame));
        }

        #[test]
        fn what_is_read_is_written_as_the_same_bytes(mut bytes: [u8; HEADER], repair: bool) {
            if repair {
                bytes[..2].copy_from_slice(&MARK);
                bytes[2] = 1 + bytes[2] % 2;
                bytes[22..].fill(0);
            }
            if let Ok(frame) = Frame::decode(&bytes, MAX) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
