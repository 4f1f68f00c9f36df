//! Memory that is taken back: nothing reaches it from then on.

use super::memory::{self, Exposed, Kind, Way, assert_fails, expose};
use super::mesh::{Deadline, Mesh, Seen, limits, peer, poll};
use super::ram::Ram;
use super::seed::Seeded;
use super::{Bench, pattern};
use crate::{Fabric, Head, PeerId, Refused, RemoteKey, Source, Token};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const REGIONS: [Kind; 2] = [Kind::Registered, Kind::Allocated];

/// A key from before leads nowhere, also when other memory is registered afterwards.
pub fn stale_keys<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    if !limits(mesh.at(0)).guards {
        return;
    }
    for kind in REGIONS {
        for way in Way::BOTH {
            let far = expose(mesh.at(0), kind, 8192);
            let key = memory::key(mesh.at(0), peer(1), &far, 0).expect("a region has a key");
            let key = mesh.hand_over(0, 1, key);
            let near = Ram::new(4096);
            if way.offered(mesh.at(1), peer(0), &key, 4096).is_ok() {
                // Once while it is there, so that a fabric that remembers regions remembers it.
                let token = mesh.token();
                mesh.started("a get or put", |mesh| {
                    // SAFETY: `near` lives until the end is seen.
                    unsafe { way.start(mesh.at(1), peer(0), (&key, 0), (near.at(), 4096), token) }
                })
                .expect("it is offered");
                assert_eq!(mesh.completion(1, token), Ok(()));
            }
            mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
            assert_fails(&mut mesh, way, (&key, 0), &near, "its region was deregistered");
            let next = expose(mesh.at(0), kind, 8192);
            next.ram.fill(3);
            assert_fails(&mut mesh, way, (&key, 0), &near, "its region was deregistered");
            pattern::assert_same(
                &next.ram.read(),
                &pattern::bytes(3, 8192),
                format_args!("memory registered later"),
            );
            mesh.at(0).deregister(next.region.expect("a region")).expect("it is there");
        }
    }
    mesh.assert_nothing_more();
}

/// Gets under way while the owner deregisters: each ends once; a success brought the right bytes.
pub fn get_under_way<B: Bench>(bench: &B) {
    race(bench, Way::Get);
}

/// Puts under way while the owner deregisters: none writes after that.
pub fn put_under_way<B: Bench>(bench: &B) {
    race(bench, Way::Put);
}

const LEN: usize = 256 << 10;
const ROUNDS: usize = 20;
/// The kind of message after which the next round may begin.
const NEXT: u8 = 9;

fn race<B: Bench>(bench: &B, way: Way) {
    let mut random = Seeded::new();
    let patience = bench.patience();
    for kind in REGIONS {
        let (stop, seed) = (AtomicBool::new(false), random.u64(..));
        let mut fabrics = bench.mesh(2).into_iter();
        let (owner, other) = (fabrics.next().expect("two"), fabrics.next().expect("two"));
        if !limits(&owner).guards {
            return;
        }
        // A fabric that reaches it all the same does so until both have ended, also when one has failed.
        let mut exposed = Vec::new();
        std::thread::scope(|scope| {
            let (stop, exposed) = (&stop, &mut exposed);
            scope.spawn(move || take_back(owner, kind, exposed, seed, patience, stop));
            scope.spawn(move || reach(other, way, seed, patience, stop));
        });
    }
}

/// The owner: gives a key away, waits a moment, takes the memory back and uses it otherwise.
fn take_back<F: Fabric>(
    mut fabric: F,
    kind: Kind,
    exposed: &mut Vec<Ram>,
    seed: u64,
    patience: Duration,
    stop: &AtomicBool,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut seen = Seen::default();
    for round in 0..ROUNDS {
        let Exposed { ram, region } = expose(&mut fabric, kind, LEN);
        exposed.push(ram);
        let ram = exposed.last().expect("just put there");
        ram.fill(seed);
        let region = region.expect("a region");
        let key = fabric.key(PeerId(1), region, 0).expect("a region has a key");
        let deadline = Deadline::after(patience);
        while fabric.send(PeerId(1), Head::default(), Source::Bytes(key.as_bytes()))
            == Err(Refused::Busy)
        {
            deadline.check("room for a key");
            poll(&mut fabric, &mut seen);
        }
        for _ in 0..random.u32(..400) {
            poll(&mut fabric, &mut seen);
        }
        fabric.deregister(region).expect("a region is deregistered once");
        let ours = pattern::bytes(seed ^ 1, LEN);
        ram.write(0, &ours);
        let deadline = Deadline::after(patience);
        while seen.messages.is_empty() {
            deadline.check(format_args!("the other side's word after round {round}"));
            poll(&mut fabric, &mut seen);
        }
        seen.messages.clear();
        let what = format_args!("{kind:?} memory, deregistered in round {round}, written since");
        pattern::assert_same(&ram.read(), &ours, what);
    }
    stop.store(true, Ordering::SeqCst);
}

/// The other side: gets or puts with each key until that fails.
fn reach<F: Fabric>(mut fabric: F, way: Way, seed: u64, patience: Duration, stop: &AtomicBool) {
    let mut seen = Seen::default();
    let near = Ram::new(LEN);
    let expected = pattern::bytes(seed, LEN);
    for round in 0..ROUNDS {
        let deadline = Deadline::after(patience);
        while seen.messages.is_empty() {
            deadline.check("the next key");
            poll(&mut fabric, &mut seen);
        }
        let key = RemoteKey::from_bytes(&seen.messages.remove(0).2).expect("a key");
        let mut token = Token(round as u64 * 1_000_000);
        while one(&mut fabric, &mut seen, way, &key, &near, token, deadline) {
            if way == Way::Get {
                pattern::assert_same(&near.read(), &expected, format_args!("round {round}"));
            }
            token.0 += 1;
            deadline.check("the end of gets and puts after deregister");
        }
        // A late completion of this round's would be found by the next.
        assert!(seen.completed.is_empty(), "ended twice: {:?}", seen.completed);
        let head = Head { kind: NEXT, ..Head::default() };
        while fabric.send(PeerId(0), head, Source::Bytes(&[])) == Err(Refused::Busy) {
            deadline.check("room for a word");
            poll(&mut fabric, &mut seen);
        }
    }
    let deadline = Deadline::after(patience);
    while !stop.load(Ordering::SeqCst) {
        deadline.check("the owner");
        poll(&mut fabric, &mut seen);
        std::thread::yield_now();
    }
}

/// One get or put from start to end. Whether it succeeded.
fn one<F: Fabric>(
    fabric: &mut F,
    seen: &mut Seen,
    way: Way,
    key: &RemoteKey,
    near: &Ram,
    token: Token,
    deadline: Deadline,
) -> bool {
    loop {
        // SAFETY: `near` lives until the end is seen, below.
        match unsafe { way.start(fabric, PeerId(0), (key, 0), (near.at(), LEN), token) } {
            Ok(()) => break,
            Err(Refused::Busy) => poll(fabric, seen),
            Err(_) => return false,
        };
        deadline.check("room for a get or put");
    }
    while seen.completed.is_empty() {
        deadline.check("the end of a get or put");
        poll(fabric, seen);
    }
    let (ended, result) = seen.completed.remove(0);
    assert_eq!(ended, token, "another one ended");
    result.is_ok()
}
