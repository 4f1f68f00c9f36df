//! What a peer process does until it is killed.

use super::memory::{Kind, Way, expose};
use super::mesh::{Deadline, Seen, limits, peer, poll};
use super::ram::Ram;
use super::stream::Stream;
use crate::{Arming, Fabric, Head, PeerId, Refused, RemoteKey, Source, Token, Wait};
use std::time::Duration;

/// The rank that tests, and the one that dies.
pub(crate) const TESTER: PeerId = PeerId(0);
pub(crate) const VICTIM: PeerId = PeerId(1);
pub(crate) const BYSTANDER: PeerId = PeerId(2);
/// Asks the bystander to leave once it knows that the victim has gone.
pub(crate) const LAST: u8 = 63;
/// How many messages a leaver sends.
pub(crate) const FAREWELL: u64 = 1000;
/// How long the memory of owner and tester is.
pub(crate) const MEMORY: usize = 1 << 20;
/// The kinds of memory that keys are sent for, in this order.
pub(crate) const KEYS: [Kind; 2] = [Kind::Allocated, Kind::Registered];

/// The part a child process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends a stream to the tester.
    Sender,
    /// Receives, and says nothing.
    Receiver,
    /// Does nothing: it does not even poll.
    Still,
    /// Sends back what it gets, asleep in between.
    Sleeper,
    /// Lets the tester reach its memory.
    Owner,
    /// Reaches for the tester's memory.
    Reader,
    /// Sends some messages, and leaves.
    Leaver,
    /// Sends back what it gets. It is not killed.
    Bystander,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::Sender,
        Role::Receiver,
        Role::Still,
        Role::Sleeper,
        Role::Owner,
        Role::Reader,
        Role::Leaver,
        Role::Bystander,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

pub(crate) fn play<F: Fabric + Wait>(role: Role, mut fabric: F, seed: u64, patience: Duration) {
    let mut seen = Seen::default();
    match role {
        Role::Sender => stream(&mut fabric, &mut seen, seed, u64::MAX, patience),
        Role::Leaver => {
            stream(&mut fabric, &mut seen, seed, FAREWELL, patience);
            flush(&mut fabric, &mut seen, patience);
        }
        Role::Receiver => loop {
            poll(&mut fabric, &mut seen);
            seen.messages.clear();
        },
        Role::Still => loop {
            std::thread::park();
        },
        Role::Sleeper => loop {
            if fabric.arm() == Arming::Armed {
                fabric.sleep(patience);
                fabric.disarm();
            }
            poll(&mut fabric, &mut seen);
            echo(&mut fabric, &mut seen, patience);
        },
        Role::Owner => own(&mut fabric, &mut seen, seed, patience),
        Role::Reader => reach(&mut fabric, &mut seen, patience),
        Role::Bystander => stand_by(fabric, patience),
    }
}

fn stream<F: Fabric + Wait>(
    fabric: &mut F,
    seen: &mut Seen,
    seed: u64,
    count: u64,
    patience: Duration,
) {
    let mut stream = Stream::new(seed, fabric.me(), TESTER, limits(fabric));
    while stream.count < count {
        let (head, payload) = stream.next();
        send(fabric, seen, TESTER, head, payload, patience);
        stream.count += 1;
    }
}

fn own<F: Fabric + Wait>(fabric: &mut F, seen: &mut Seen, seed: u64, patience: Duration) {
    // Held until the process is killed.
    let exposed = KEYS.map(|kind| expose(fabric, kind, MEMORY));
    for one in &exposed {
        one.ram.fill(seed);
        let region = one.region.expect("a region");
        let key = fabric.key(TESTER, region, 0).expect("a region has a key");
        send(fabric, seen, TESTER, Head::default(), key.as_bytes(), patience);
    }
    loop {
        poll(fabric, seen);
    }
}

fn reach<F: Fabric + Wait>(fabric: &mut F, seen: &mut Seen, patience: Duration) {
    let deadline = Deadline::after(patience);
    while seen.messages.len() < KEYS.len() {
        deadline.check("the tester's keys");
        poll(fabric, seen);
    }
    let keys: Vec<RemoteKey> = seen
        .messages
        .drain(..)
        .map(|(_, _, bytes)| RemoteKey::from_bytes(&bytes).expect("a key"))
        .collect();
    send(fabric, seen, TESTER, Head::default(), &[], patience);
    let near = Ram::new(MEMORY);
    let mut random = fastrand::Rng::new();
    for number in 0.. {
        let (way, key) = (Way::BOTH[random.usize(..2)], &keys[random.usize(..keys.len())]);
        let len = random.usize(..=MEMORY);
        // SAFETY: `near` lives until the process is killed.
        let started =
            unsafe { way.start(fabric, TESTER, (key, 0), (near.at(), len), Token(number)) };
        let deadline = Deadline::after(patience);
        while started.is_ok() && seen.completed.is_empty() {
            deadline.check("a get or put of the tester's memory");
            poll(fabric, seen);
        }
        for (token, result) in seen.completed.drain(..) {
            assert_eq!((token, result), (Token(number), Ok(())));
        }
        poll(fabric, seen);
    }
}

fn stand_by<F: Fabric + Wait>(mut fabric: F, patience: Duration) {
    let mut seen = Seen::default();
    let mut last = None;
    // It leaves when it was asked to, and knows about the victim.
    while last.is_none() || seen.failed.is_empty() {
        poll(&mut fabric, &mut seen);
        if let Some(at) = seen.messages.iter().position(|(_, head, _)| head.kind == LAST) {
            last = Some(seen.messages.remove(at));
        }
        echo(&mut fabric, &mut seen, patience);
        std::thread::yield_now();
    }
    // News that is reported twice would come now.
    for _ in 0..1000 {
        poll(&mut fabric, &mut seen);
    }
    assert_eq!(seen.failed.len(), 1, "failed: {:?}", seen.failed);
    assert_eq!(seen.failed[0].0, VICTIM);
    if let Some((to, head, _)) = last {
        send(&mut fabric, &mut seen, to, head, &[], patience);
    }
    flush(&mut fabric, &mut seen, patience);
}

/// What was sent is not lost by leaving.
fn flush<F: Fabric>(fabric: &mut F, seen: &mut Seen, patience: Duration) {
    let deadline = Deadline::after(patience);
    while ![TESTER, VICTIM, BYSTANDER].into_iter().all(|to| fabric.flushed(to)) {
        deadline.check("everything sent to be out of a leaver's hands");
        poll(fabric, seen);
    }
}

fn echo<F: Fabric + Wait>(fabric: &mut F, seen: &mut Seen, patience: Duration) {
    for (from, head, bytes) in std::mem::take(&mut seen.messages) {
        send(fabric, seen, from, head, &bytes, patience);
    }
}

fn send<F: Fabric + Wait>(
    fabric: &mut F,
    seen: &mut Seen,
    to: PeerId,
    head: Head,
    payload: &[u8],
    patience: Duration,
) {
    let deadline = Deadline::after(patience);
    loop {
        match fabric.send(to, head, Source::Bytes(payload)) {
            Ok(_) => return,
            Err(Refused::Busy) => poll(fabric, seen),
            Err(refused) => panic!("{} to {to}: {refused}", fabric.me()),
        };
        deadline.check(format_args!("room from {} to {to}", fabric.me()));
    }
}

/// The peers of a test: the one that dies, and the one that does not.
pub(crate) fn cast(victim: Role) -> [Role; 2] {
    debug_assert_eq!((VICTIM, BYSTANDER), (peer(1), peer(2)));
    [victim, Role::Bystander]
}
