//! A connection over which events are copied to another node: every frame is read or refused, and what is read is written
//! as the same bytes. A frame that was announced as longer than the limit takes no memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::ErrorKind;
use taffrail_launch::eventlog::CopyFrame;

fuzz_target!(|bytes: &[u8]| {
    let mut left = bytes;
    loop {
        let before = left;
        match CopyFrame::read(&mut left) {
            Ok(frame) => {
                let mut again = Vec::new();
                frame.encode(&mut again);
                assert_eq!(again, before[..before.len() - left.len()], "{frame:?}");
                if let CopyFrame::Begin { ranks, .. } = &frame {
                    assert!(!ranks.is_empty());
                }
            }
            Err(error) => {
                let kinds = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
                assert!(kinds.contains(&error.kind()), "{error}");
                break;
            }
        }
    }
});
