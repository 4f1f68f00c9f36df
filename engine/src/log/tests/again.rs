//! A message that is sent again is the same message: one with another length ends its sender, wherever the first one is.

use super::*;
use crate::core::Unexpected;
use crate::frame::Rts;
use crate::peer::Destination;
use taffrail_logging::Admit;
use taffrail_matching::Envelope;

const LEN: usize = 3000;

fn envelope(len: usize) -> Envelope {
    Envelope { source: 2, context: 5, len: len as u64, ..Envelope::default() }
}

/// A message of rank 2 waits, in part or announced, and its sender is restarted: it comes again, with bytes of this length or announced with it.
/// Whether that is taken, and the memory that unreceived messages take then.
fn come_again(is_announced: bool, with_bytes: bool, len: usize) -> (bool, usize) {
    let mut engine = engine(mesh(3).remove(0));
    let rts = || Rts { name: 7, key: None };
    let core = &mut engine.core;
    let (first, again) = (envelope(LEN), envelope(len));
    let name = MsgId { source: 2, context: 5, seq: 0 };
    let destination = if is_announced {
        core.queue_unexpected(Admit::Match, &first, Unexpected::Rts(Box::new(rts())));
        Destination::Waiting(core.waiting_message(name).unwrap().0)
    } else {
        let part = [1; LEN / 2];
        let part = Payload::of(&part);
        Destination::Buffer(core.buffer_unexpected(Admit::Match, &first, &part, 0, None))
    };
    core.log().partial.insert(name, destination);
    let bytes = vec![1; len];
    let taken = match with_bytes {
        true => core.arrives_again(&again, &Payload::of(&bytes), 0, None).is_ok(),
        false => core.rts_again(Admit::Refill, &again, rts()).is_ok(),
    };
    (taken, engine.unreceived_bytes())
}

#[test]
fn what_comes_again_with_another_length_is_refused() {
    for is_announced in [false, true] {
        for with_bytes in [false, true] {
            let (taken, memory) = come_again(is_announced, with_bytes, LEN);
            assert!(taken, "announced {is_announced}, bytes {with_bytes}");
            // It is counted as if it had come like this at once.
            assert_eq!(memory, come_again(!with_bytes, with_bytes, LEN).1);
            for len in [LEN - 1000, LEN + 1000] {
                let (taken, _) = come_again(is_announced, with_bytes, len);
                assert!(!taken, "announced {is_announced}, bytes {with_bytes}: {len} bytes");
            }
        }
    }
}
