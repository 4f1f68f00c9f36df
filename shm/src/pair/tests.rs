//! Mailbox and ring together, when positions come round to the same low bits.

use super::*;
use crate::ring::PayloadLocation as Where;

/// Two ends of a pair in private memory.
struct Ends {
    _memory: [Vec<u128>; 2],
    ends: [PeerLink; 2],
}

fn ends(position: u64) -> Ends {
    let layout = Layout::new(2);
    // Aligned to more than a slot.
    let mut memory = [0, 1].map(|_| vec![0u128; (layout.len() + 128) / 16]);
    let inboxes = memory.each_mut().map(|inbox| {
        let base = inbox.as_mut_ptr().cast::<u8>();
        base.wrapping_add(base.align_offset(128))
    });
    let ends = [0, 1].map(|me| {
        let place = Ours { me, inboxes };
        let mut pair = place.pair(&layout);
        pair.writer.start_at(position);
        pair.reader.start_at(position);
        (pair.mailed, pair.marked) = (0, position - 1);
        pair
    });
    Ends { _memory: memory, ends }
}

struct Ours {
    me: usize,
    inboxes: [*mut u8; 2],
}

impl Ours {
    fn pair(&self, layout: &Layout) -> PeerLink {
        let (me, peer) = (self.me, 1 - self.me);
        let location = |inbox, peer_slot| RingLocation { inbox, layout: *layout, peer_slot };
        let place = LinkLayout {
            ours: location(self.inboxes[me], peer),
            theirs: location(self.inboxes[peer], me),
            mailbox: if me < peer { Mailbox::Ours } else { Mailbox::Theirs },
            their_outbox: std::ptr::null(),
            their_outbox_len: 0,
        };
        // SAFETY: both inboxes have the length of the layout, and live as long as the pair.
        unsafe { PeerLink::new(place, crate::setup::cold(0)) }
    }
}

/// A message and its answer, each where it fits, seen once.
#[test]
fn what_lies_in_the_ring_from_a_round_ago_is_not_taken_for_a_message() {
    let start = (1u64 << 32) - 2000;
    let mut ends = ends(start);
    let [low, high] = &mut ends.ends;
    let (mut mailed, mut filled) = (0, 0);
    for n in 0..4000u64 {
        talk(low, high, n, &mut mailed, &mut filled);
        talk(high, low, n, &mut mailed, &mut filled);
    }
    assert!(low.reader.position() > 1 << 32, "it went round");
    assert!(mailed > 7000 && filled >= 2 * 256, "{mailed} by mail, {filled} in the ring");
}

fn talk(from: &mut PeerLink, to: &mut PeerLink, n: u64, mailed: &mut u32, filled: &mut u32) {
    assert!(!to.is_ready(), "nothing was sent, position {:#x}", to.reader.position());
    let head = Head { kind: 1, tag: n, ..Head::default() };
    assert!(from.writer.has_room(2));
    if from.mail(head, b"mail") {
        *mailed += 1;
    } else {
        from.writer.put_short(head, b"mail");
        *filled += 1;
    }
    assert!(to.is_ready());
    let tag = match to.mailbox() {
        Some(mail) => {
            to.writer.acknowledge(mail.ack).unwrap();
            mail.tag
        }
        None => {
            let (head, place) = to.reader.peek().unwrap().expect("it is ready");
            assert_eq!(place, Where::Slots(4));
            head.tag
        }
    };
    assert_eq!(tag, n);
    to.reader.advance(1, true, to.consumed());
    let consumed = from.credit().load(Ordering::Acquire);
    from.writer.refresh(&AtomicU64::new(consumed)).unwrap();
}
