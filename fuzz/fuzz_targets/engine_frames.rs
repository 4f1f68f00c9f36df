//! What a peer sends to an engine: a frame that is encoded as it came, or a fault of the protocol.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taffrail_engine::{ParsedFrame, kind};
use taffrail_fabric::{Fault, Head};

fuzz_target!(|input: (u8, u16, u32, u64, &[u8])| {
    let (kind, context, seq, tag, payload) = input;
    let head = Head { kind, context, seq, tag };
    match ParsedFrame::decode(head, payload) {
        Ok(frame) => {
            let (encoded, front) = frame.encode();
            assert_eq!(encoded.kind, kind);
            assert!(frame.front_len() <= payload.len());
            // Of a word that is true or false every value but 0 is true.
            let is_flag = [kind::CTS, kind::PUT_REQ].contains(&kind);
            if !is_flag {
                assert_eq!(front[..], payload[..front.len()]);
            }
            let again =
                ParsedFrame::decode(encoded, &[&front[..], &payload[front.len()..]].concat());
            let again = again.expect("what was encoded is a frame");
            let (twice, twice_front) = again.encode();
            assert_eq!((twice, &twice_front[..]), (encoded, &front[..]));
        }
        Err(Fault::Protocol { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
});
