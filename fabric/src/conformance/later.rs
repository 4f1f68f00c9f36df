//! Sends of user memory that end later.

use super::mesh::{Mesh, accepted, limits, peer};
use super::ram::Ram;
use super::seed::Seeded;
use super::{Bench, pattern};
use crate::{Fabric, Fault, Head, Refused, Sent, Source, Token, UserBytes};

/// Sends under way at a time.
const WINDOW: usize = 6;

/// User memory, and the send that reads it.
struct Send {
    ram: Ram,
    token: Token,
    /// It ends later.
    later: bool,
}

/// The receiver gets what was in the source when it was sent, whatever happens to the source when its send has ended.
/// Messages of other sources keep their place among these.
pub fn unchanged<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let longest = limits(mesh.at(0)).max_message;
    for round in 0..300u64 {
        let to = usize::from(round % 8 != 0);
        let shift = random.u32(0..12);
        let len = random.usize(0..=longest >> shift);
        let send = start(&mut mesh, 0, to, numbered(2 * round), pattern::bytes(round, len));
        let send = send.unwrap_or_else(|refused| panic!("send of {len} bytes: {refused}"));
        let ordered = B::Fabric::ORDERED && random.bool();
        if ordered {
            mesh.send(0, to, numbered(2 * round + 1), &pattern::bytes(!round, 9));
        }
        ended(&mut mesh, 0, &send).expect("the link is up");
        send.ram.fill(!round);
        let (from, head, bytes) = mesh.receive(to);
        assert_eq!((from, head), (peer(0), numbered(2 * round)));
        let what = format_args!("{len} bytes of a source that was written after its send");
        pattern::assert_same(&bytes, &pattern::bytes(round, len), what);
        if ordered {
            assert_eq!(mesh.receive(to).1, numbered(2 * round + 1), "behind user memory");
        }
    }
    mesh.assert_nothing_more();
}

/// Many at a time to several peers: each send that ends later ends once, all others never.
pub fn each_ends_once<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 3);
    let (mut open, mut counts): (Vec<Send>, [u64; 3]) = (Vec::new(), [0; 3]);
    let mut received = [0; 3];
    for round in 0..1500 {
        let to = random.usize(..3);
        let bytes = pattern::bytes(counts[to], random.usize(0..200));
        open.extend(start(&mut mesh, 0, to, numbered(counts[to]), bytes));
        counts[to] += 1;
        if open.len() >= WINDOW || round % 16 == 0 {
            for send in open.drain(..) {
                ended(&mut mesh, 0, &send).expect("the link is up");
                send.ram.fill(1);
            }
        }
        for (rank, received) in received.iter_mut().enumerate() {
            for (_, head, bytes) in std::mem::take(&mut mesh.seen[rank].messages) {
                let number = head.tag;
                let expected = pattern::bytes(number, bytes.len());
                pattern::assert_same(&bytes, &expected, format_args!("message {number}"));
                *received += 1;
            }
        }
    }
    for send in open.drain(..) {
        ended(&mut mesh, 0, &send).expect("the link is up");
    }
    mesh.until("all messages", |mesh| {
        let waiting = |rank: usize| mesh.seen[rank].messages.len() as u64;
        (0..3).all(|rank| received[rank] + waiting(rank) >= counts[rank])
    });
    mesh.seen.iter_mut().for_each(|seen| seen.messages.clear());
    mesh.assert_nothing_more();
}

/// A peer that leaves, or is disconnected, with sends to it under way: each of them ends once.
pub fn a_peer_goes<B: Bench>(bench: &B) {
    for (round, leaves) in [(0, true), (1, false), (2, true), (3, false)] {
        let mut mesh = Mesh::new(bench, 3);
        let mut open = Vec::new();
        for number in 0..WINDOW as u64 {
            let ram = Ram::new(500);
            ram.fill(number);
            let token = mesh.token();
            // SAFETY: the memory stays until the send has ended.
            let source = unsafe { UserBytes::new(ram.at(), ram.len()) };
            match accepted(mesh.at(0), peer(1), numbered(number), Source::User(source, token)) {
                Ok(sent) => open.push(Send { ram, token, later: sent == Sent::Later }),
                Err(Refused::Busy) => {}
                Err(refused) => panic!("message {number}: {refused}"),
            }
            if round > 1 {
                mesh.step();
            }
        }
        if leaves {
            mesh.fabrics[1] = None;
        } else {
            mesh.at(0).disconnect(peer(1), Fault::NoAccess("a test"));
        }
        mesh.until("the end of the link", |mesh| !mesh.seen[0].failed.is_empty());
        for send in &open {
            // Whether the message has arrived is not known, and not asked for.
            let _ = ended(&mut mesh, 0, send);
            send.ram.fill(!0);
        }
        let late = start(&mut mesh, 0, 1, numbered(0), vec![1; 8]).map(|_| ());
        assert!(matches!(late, Err(Refused::Failed(_))), "a send without a link: {late:?}");
        mesh.seen[0].messages.clear();
        mesh.settle();
        for (_, head, bytes) in std::mem::take(&mut mesh.seen[1].messages) {
            let expected = pattern::bytes(head.tag, 500);
            pattern::assert_same(&bytes, &expected, format_args!("message {}", head.tag));
        }
        mesh.send(2, 0, numbered(9), b"well");
        assert_eq!(mesh.receive(0).1, numbered(9));
        mesh.assert_nothing_more();
    }
}

/// Starts a send of user memory that holds these bytes.
fn start<F: Fabric>(
    mesh: &mut Mesh<F>,
    from: usize,
    to: usize,
    head: Head,
    bytes: Vec<u8>,
) -> Result<Send, Refused> {
    let ram = Ram::new(bytes.len());
    ram.write(0, &bytes);
    let token = mesh.token();
    let sent = mesh.started("room for a message of user memory", |mesh| {
        // SAFETY: the memory stays until the send has ended, or all fabrics are gone.
        let source = unsafe { UserBytes::new(ram.at(), ram.len()) };
        mesh.at(from).send(peer(to), head, Source::User(source, token))
    })?;
    Ok(Send { ram, token, later: sent == Sent::Later })
}

/// Waits for the end of a send.
fn ended<F: Fabric>(mesh: &mut Mesh<F>, rank: usize, send: &Send) -> Result<(), Fault> {
    let is_it = |&(token, _): &(Token, _)| token == send.token;
    if !send.later {
        let again = mesh.seen[rank].sent.iter().any(is_it);
        assert!(!again, "{:?} was sent at once, and has ended later", send.token);
        return Ok(());
    }
    mesh.until("the end of a send", |mesh| mesh.seen[rank].sent.iter().any(is_it));
    let at = mesh.seen[rank].sent.iter().position(is_it).expect("the loop ends with one");
    mesh.seen[rank].sent.remove(at).1
}

fn numbered(number: u64) -> Head {
    Head { kind: 8, context: 4, seq: number as u32, tag: number }
}
