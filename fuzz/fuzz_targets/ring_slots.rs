//! Whatever a hostile process writes into the memory that it shares with another: its ring, its
//! mailbox, its credit words, its cell, its socket. The other one gets messages or a typed failure,
//! and what an honest third one sends arrives.

#![no_main]

#[path = "../ring_slots/hostile.rs"]
mod hostile;
#[path = "../ring_slots/sink.rs"]
mod sink;

use arbitrary::Arbitrary;
use hostile::{Hostile, Write};
use libfuzzer_sys::fuzz_target;
use sink::{Deaf, Ear, pattern};
use taffrail_fabric::{
    Arming, Fabric, Head, PeerId, Refused, RemoteKey, Sent, Source, Token, UserBuf, Wait,
};
use taffrail_fuzz::memory::{Address, Length};
use taffrail_fuzz::mesh;
use taffrail_fuzz::steps::Steps;
use taffrail_shm::ShmFabric;

#[derive(Arbitrary, Debug)]
struct Input {
    /// The hostile process has the lower rank, and so the mailbox is in its inbox.
    lower: bool,
    /// Honest messages sent first, so that the ring is entered at any place.
    before: u8,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// The hostile process writes.
    Write(Write),
    /// It looks at what came for it, which tells the victim that it did.
    HostilePolls,
    /// The honest one sends to the victim.
    HonestSends(u16),
    /// The victim does something.
    Poll,
    /// It sends until the ring is full.
    Fill,
    Check,
    Arm,
    Send {
        honest: bool,
        len: u16,
    },
    Get {
        addr: Address,
        region: u8,
        offset: Length,
        len: u32,
    },
    Map {
        region: u8,
        offset: Length,
        len: Length,
    },
}

const VICTIM: usize = 1;

/// The longest get: longer than those that both sides move begin.
const MOST: u32 = 400 * 1024;

fuzz_target!(|input: Input| {
    let (hostile, honest) = if input.lower { (0, 2) } else { (2, 0) };
    // What the victim gets is written as long as there is any line.
    let mut got: Vec<Box<[u8]>> = Vec::new();
    let mut lines = mesh::lines(3);
    let mut ear = Ear::new(hostile, honest);
    let mut bystander = Ear::new(hostile, VICTIM as u32);
    for _ in 0..input.before {
        let (to, hello) = (PeerId(VICTIM as u32), Source::Bytes(b"hello"));
        assert_eq!(lines[hostile as usize].send(to, Head::default(), hello), Ok(Sent::Now));
        lines[VICTIM].poll(&mut ear);
    }
    ear.begin();
    let mut enemy = Hostile::new(hostile, VICTIM as u32, u64::from(input.before) + 1);
    let (mut sent, mut told) = (0, 0);
    for step in &input.steps.0 {
        let [to_hostile, to_honest] = [PeerId(hostile), PeerId(honest)];
        match *step {
            Step::Write(ref write) => enemy.write(&lines[hostile as usize], write, &mut ear),
            Step::HostilePolls => {
                lines[hostile as usize].poll(&mut Deaf);
            }
            Step::HonestSends(len) => {
                let line = &mut lines[honest as usize];
                sent += u32::from(say(line, PeerId(VICTIM as u32), sent, len));
            }
            Step::Poll => {
                lines[VICTIM].poll(&mut ear);
            }
            Step::Fill => fill(&mut lines[VICTIM], to_hostile),
            Step::Check => {
                lines[VICTIM].check(&mut ear);
            }
            Step::Arm => {
                if lines[VICTIM].arm() == Arming::Armed {
                    lines[VICTIM].disarm();
                }
            }
            Step::Send { honest: true, len } => {
                told += u32::from(say(&mut lines[VICTIM], to_honest, told, len));
            }
            Step::Send { honest: false, len } => {
                say(&mut lines[VICTIM], to_hostile, 0, len);
            }
            Step::Get { addr, region, offset, len } => {
                let key = key(addr.get(), region, 0);
                let mut into = vec![0; (len % MOST) as usize].into_boxed_slice();
                let (at, len) = (into.as_mut_ptr(), into.len());
                got.push(into);
                // SAFETY: the memory stays until all lines are gone.
                let into = unsafe { UserBuf::new(at, len) };
                let _ = lines[VICTIM].get(to_hostile, &key, offset.get(), into, Token(1));
            }
            Step::Map { region, offset, len } => {
                let key = key(0, region, offset.get());
                if let Ok((at, _keep)) = lines[VICTIM].map(to_hostile, &key, len.get() as usize) {
                    // SAFETY: it says that it is mapped.
                    unsafe { at.add(len.get().saturating_sub(1) as usize).read_volatile() };
                }
            }
        }
    }
    if ear.is_trusting() {
        finish(&mut lines, &mut ear, &mut bystander, (sent, told), honest);
    } else {
        lines[VICTIM].poll(&mut ear);
        lines[VICTIM].check(&mut ear);
    }
});

/// Everything that honest processes said arrives, whatever the hostile one has done.
fn finish(
    lines: &mut [ShmFabric],
    ear: &mut Ear,
    bystander: &mut Ear,
    (sent, told): (u32, u32),
    honest: u32,
) {
    for _ in 0..2000 {
        lines[VICTIM].poll(ear);
        lines[VICTIM].check(ear);
        lines[honest as usize].poll(bystander);
        if ear.heard == sent && bystander.heard == told && ear.has_all() {
            return;
        }
    }
    panic!(
        "the victim heard {} of {sent}, the honest peer {} of {told}; {ear:?}",
        ear.heard, bystander.heard
    );
}

/// Sends until there is no room: no more than a ring holds.
fn fill(line: &mut ShmFabric, to: PeerId) {
    let sent = (0..).take_while(|_| say(line, to, 0, 8)).take(1000).count();
    assert!(sent < 600, "{sent} messages without end");
}

/// Sends message `number` to a peer. Whether it left.
fn say(line: &mut ShmFabric, to: PeerId, number: u32, len: u16) -> bool {
    let head = Head { kind: 1, seq: number, ..Head::default() };
    match line.send(to, head, Source::Bytes(&pattern(number, len as usize))) {
        Ok(_) => true,
        Err(Refused::Busy | Refused::Failed(_)) => false,
        Err(other) => panic!("{len} bytes: {other:?}"),
    }
}

/// As in `docs/wire.md`, section 4.
fn key(addr: u64, region: u8, offset: u64) -> RemoteKey {
    let words = [addr, u64::from(region % 4), offset].map(u64::to_le_bytes);
    RemoteKey::new(0, words.as_flattened())
}
