//! Gets and puts: registered, allocated and bare memory of a peer.

use super::mesh::{Deadline, Mesh, Seen, limits, peer, poll};
use super::ram::Ram;
use super::seed::Seeded;
use super::{Bench, pattern};
use crate::{
    Denied, Fabric, Head, Memory, MemoryError, MemoryKind, PeerId, Refused, RegionId, RemoteKey,
    Source, Token, UserBuf, UserBytes,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How memory is made known to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Registered,
    Allocated,
    Bare,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Registered, Kind::Allocated, Kind::Bare];

/// Memory of one rank that others may reach.
pub(crate) struct Exposed {
    pub(crate) ram: Ram,
    pub(crate) region: Option<RegionId>,
}

/// Makes `len` bytes known as `kind` says.
pub(crate) fn expose<F: Fabric>(fabric: &mut F, kind: Kind, len: usize) -> Exposed {
    if kind == Kind::Allocated {
        let got = fabric.alloc(len).unwrap_or_else(|e| panic!("alloc of {len}: {e}"));
        let (region, at, keep) = got;
        // SAFETY: allocated with this length, for as long as it is kept.
        return Exposed { ram: unsafe { Ram::kept(at, len, keep) }, region: Some(region) };
    }
    let ram = Ram::new(len);
    let region = (kind == Kind::Registered).then(|| {
        // SAFETY: no test has a peer reach for it once it has dropped what it exposed.
        let region = fabric.register(Memory::host(unsafe { UserBuf::new(ram.at(), len) }));
        region.unwrap_or_else(|e| panic!("register of {len}: {e}"))
    });
    Exposed { ram, region }
}

/// The key to `exposed` from `offset` on, unless this fabric cannot reach such memory.
pub(crate) fn key<F: Fabric>(
    owner: &mut F,
    to: PeerId,
    exposed: &Exposed,
    offset: usize,
) -> Option<RemoteKey> {
    let ram = &exposed.ram;
    match exposed.region {
        Some(region) => Some(owner.key(to, region, offset).expect("key inside a region")),
        None => {
            // SAFETY: as for what is registered.
            let bytes =
                unsafe { UserBytes::new(ram.at().wrapping_add(offset), ram.len() - offset) };
            owner.bare_key(to, bytes)
        }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Get,
    Put,
}

impl Way {
    pub(crate) const BOTH: [Way; 2] = [Way::Get, Way::Put];

    /// Whether the fabric offers this way for that key.
    pub(crate) fn offered<F: Fabric>(
        self,
        fabric: &F,
        with: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(), Denied> {
        let cost = match self {
            Way::Get => fabric.get_cost(with, fabric.reach(with, key))?,
            Way::Put => fabric.put_cost(with, fabric.reach(with, key))?,
        };
        assert!(cost.of(len) > 0.0 && cost.of(2 * len) >= cost.of(len), "{self:?}: {cost:?}");
        Ok(())
    }

    /// Starts it, between all of `ram` and the memory behind `key`.
    ///
    /// # Safety
    /// `ram` stays until completion.
    pub(crate) unsafe fn start<F: Fabric>(
        self,
        fabric: &mut F,
        with: PeerId,
        (key, offset): (&RemoteKey, usize),
        (at, len): (*mut u8, usize),
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller keeps the memory until completion.
        unsafe {
            match self {
                Way::Get => fabric.get(with, key, offset as u64, UserBuf::new(at, len), token),
                Way::Put => fabric.put(with, key, offset as u64, UserBytes::new(at, len), token),
            }
        }
    }
}

/// Allocated memory is zeroed and starts at a page; what cannot be had is an error.
pub fn allocation<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for round in 0..3 {
        for len in [1, 4096, 4097, 3 << 20] {
            let exposed = expose(mesh.at(0), Kind::Allocated, len);
            assert_eq!(exposed.ram.at() as usize % 4096, 0, "{len} bytes");
            assert!(exposed.ram.read().iter().all(|&byte| byte == 0), "{len} bytes, {round}");
            // So that a recycled page would show.
            exposed.ram.fill(7);
            mesh.at(0).deregister(exposed.region.expect("allocated")).expect("it is there");
        }
    }
    for len in [1 << 50, usize::MAX / 2] {
        let error = mesh.at(0).alloc(len).map(drop).expect_err("more than any machine has");
        assert!(
            matches!(error, MemoryError::Short { need, .. } if need >= len as u64),
            "{error:?}"
        );
    }
    assert!(mesh.at(0).alloc(usize::MAX).is_err());
    // What is kept outlives its registration, and the fabric.
    let exposed = expose(mesh.at(0), Kind::Allocated, 8192);
    exposed.ram.fill(9);
    mesh.at(0).deregister(exposed.region.expect("allocated")).expect("it is there");
    assert!(exposed.ram.read() == pattern::bytes(9, 8192));
    mesh.send(0, 1, Head::default(), b"well");
    assert_eq!(mesh.receive(1).2, b"well");
    drop(mesh);
    assert!(exposed.ram.read() == pattern::bytes(9, 8192));
}

/// Both ways, every kind of memory, at every boundary, with an offset in the key and in the call.
/// Bytes beside the range stay as they are, on both sides.
pub fn every_size<B: Bench>(bench: &B) {
    const MARGIN: usize = 77;
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    for len in [
        0,
        1,
        2,
        7,
        8,
        9,
        31,
        63,
        64,
        65,
        255,
        256,
        4095,
        4096,
        4097,
        16_384,
        65_535,
        65_537,
        (1 << 20) + 3,
        4 << 20,
        (4 << 20) + 4097,
    ] {
        for kind in KINDS {
            let (in_key, in_call) = (random.usize(0..MARGIN), random.usize(0..MARGIN));
            let far = expose(mesh.at(0), kind, len + 3 * MARGIN);
            let Some(key) = key(mesh.at(0), peer(1), &far, in_key) else {
                assert_eq!(kind, Kind::Bare);
                continue;
            };
            let key = mesh.hand_over(0, 1, key);
            for way in Way::BOTH {
                let what = format!("{way:?} of {len} bytes, {kind:?}, at {in_key} + {in_call}");
                let (here, there) = (random.u64(..), random.u64(..));
                far.ram.fill(there);
                let near = Ram::new(len + 2 * MARGIN);
                near.fill(here);
                let mut expected_near = near.read();
                let mut expected_far = far.ram.read();
                let range = in_key + in_call..in_key + in_call + len;
                let offered = way.offered(mesh.at(1), peer(0), &key, len);
                let token = mesh.token();
                let started = mesh.started(&what, |mesh| {
                    let at = near.at().wrapping_add(MARGIN);
                    // SAFETY: `near` lives until its completion was seen, below.
                    unsafe { way.start(mesh.at(1), peer(0), (&key, in_call), (at, len), token) }
                });
                match (&started, &offered) {
                    (Ok(()), Ok(())) => {
                        assert_eq!(mesh.completion(1, token), Ok(()), "{what}");
                        match way {
                            Way::Get => {
                                expected_near[MARGIN..][..len].copy_from_slice(&expected_far[range])
                            }
                            Way::Put => {
                                expected_far[range].copy_from_slice(&expected_near[MARGIN..][..len])
                            }
                        }
                    }
                    (Err(Refused::Denied(_)), Err(_)) => {}
                    _ => panic!("{what}: the cost said {offered:?}, the start {started:?}"),
                }
                pattern::assert_same(&near.read(), &expected_near, format_args!("{what}: here"));
                pattern::assert_same(&far.ram.read(), &expected_far, format_args!("{what}: there"));
            }
            if let Some(region) = far.region {
                mesh.at(0).deregister(region).expect("a region is deregistered once");
            }
        }
    }
    mesh.assert_nothing_more();
}

/// Many at once, to disjoint places, of random sizes: each ends once, under its own token.
pub fn many_at_once<B: Bench>(bench: &B) {
    const COUNT: usize = 64;
    const ROOM: usize = 48 << 10;
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    for (round, kind) in KINDS.into_iter().enumerate() {
        let far = expose(mesh.at(0), kind, COUNT * ROOM);
        far.ram.fill(round as u64);
        let Some(key) = key(mesh.at(0), peer(1), &far, 0) else { continue };
        let key = mesh.hand_over(0, 1, key);
        let near = Ram::new(COUNT * ROOM);
        near.fill(random.u64(..));
        let (mut expected_near, mut expected_far) = (near.read(), far.ram.read());
        let mut open = HashMap::new();
        for slot in 0..COUNT {
            let way = Way::BOTH[random.usize(..2)];
            let len = random.usize(0..=ROOM);
            if way.offered(mesh.at(1), peer(0), &key, len).is_err() {
                continue;
            }
            let token = mesh.token();
            let offset = slot * ROOM;
            mesh.started("room for a get or put", |mesh| {
                let at = near.at().wrapping_add(offset);
                // SAFETY: `near` lives until everything has ended, below.
                unsafe { way.start(mesh.at(1), peer(0), (&key, offset), (at, len), token) }
            })
            .unwrap_or_else(|refused| panic!("{way:?} of {len}: {refused}"));
            let range = offset..offset + len;
            match way {
                Way::Get => expected_near[range.clone()].copy_from_slice(&expected_far[range]),
                Way::Put => expected_far[range.clone()].copy_from_slice(&expected_near[range]),
            }
            assert!(open.insert(token, way).is_none());
        }
        while !open.is_empty() {
            mesh.until("the end of gets and puts", |mesh| !mesh.seen[1].completed.is_empty());
            for (token, result) in std::mem::take(&mut mesh.seen[1].completed) {
                let way = open.remove(&token);
                assert!(way.is_some(), "{token:?} ended, and is not under way (any more)");
                assert_eq!(result, Ok(()), "{way:?}");
            }
        }
        pattern::assert_same(&near.read(), &expected_near, format_args!("{kind:?}: here"));
        pattern::assert_same(&far.ram.read(), &expected_far, format_args!("{kind:?}: there"));
        mesh.assert_nothing_more();
        if let Some(region) = far.region {
            mesh.at(0).deregister(region).expect("a region is deregistered once");
        }
    }
}

/// Two threads get from, and put to, each other at the same time.
pub fn both_ways_in_threads<B: Bench>(bench: &B) {
    const LEN: usize = 1 << 20;
    let random = Seeded::new();
    let (seed, patience) = (random.seed(), bench.patience());
    for kind in KINDS {
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for fabric in bench.mesh(2) {
                let done = &done;
                scope.spawn(move || exchange(fabric, kind, LEN, seed, patience, done));
            }
        });
    }
}

fn exchange<F: Fabric>(
    mut fabric: F,
    kind: Kind,
    len: usize,
    seed: u64,
    patience: Duration,
    done: &AtomicUsize,
) {
    let me = fabric.me();
    let other = PeerId(1 - me.0);
    let mut seen = Seen::default();
    // Read by the other side only; and, written by it only.
    let source = expose(&mut fabric, kind, len);
    let target = expose(&mut fabric, kind, len);
    source.ram.fill(seed ^ u64::from(me.0));
    let mut keys = Vec::new();
    for exposed in [&source, &target] {
        let Some(key) = key(&mut fabric, other, exposed, 0) else { return };
        let deadline = Deadline::after(patience);
        while fabric.send(other, Head::default(), Source::Bytes(key.as_bytes()))
            == Err(Refused::Busy)
        {
            deadline.check("room for a key");
            poll(&mut fabric, &mut seen);
        }
        keys.push(key);
    }
    let deadline = Deadline::after(patience);
    while seen.messages.len() < 2 {
        deadline.check("the keys of the other thread");
        poll(&mut fabric, &mut seen);
    }
    for ((_, _, bytes), key) in std::mem::take(&mut seen.messages).iter().zip(&mut keys) {
        *key = RemoteKey::from_bytes(bytes).expect("a key");
    }
    let near = Ram::new(len);
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(me.0));
    for round in 0..60 {
        let way = Way::BOTH[round % 2];
        let key = &keys[round % 2];
        let (offset, now) = (random.usize(..len), random.usize(..len));
        let now = now.min(len - offset);
        if way.offered(&fabric, other, key, now).is_err() {
            continue;
        }
        near.fill(seed ^ 0x77 ^ round as u64);
        let token = Token(round as u64);
        let deadline = Deadline::after(patience);
        loop {
            // SAFETY: `near` lives until completion, below; `offset + now` lies inside of it.
            let started = unsafe {
                way.start(&mut fabric, other, (key, offset), (near.at().add(offset), now), token)
            };
            match started {
                Ok(()) => break,
                Err(Refused::Busy) => poll(&mut fabric, &mut seen),
                Err(refused) => panic!("{way:?} of {now} bytes, {kind:?}: {refused}"),
            };
            deadline.check("room for a get or put");
        }
        while seen.completed.is_empty() {
            deadline.check(format_args!("{way:?} of {now} bytes, {kind:?}"));
            poll(&mut fabric, &mut seen);
        }
        assert_eq!(std::mem::take(&mut seen.completed), [(token, Ok(()))]);
        if way == Way::Get {
            let expected = pattern::bytes(seed ^ u64::from(other.0), len);
            let range = offset..offset + now;
            let what = format_args!("{kind:?}: {now} bytes from {offset} on");
            pattern::assert_same(&near.read()[range.clone()], &expected[range], what);
        }
    }
    // The first to leave would fail what the other still has under way.
    done.fetch_add(1, Ordering::SeqCst);
    let deadline = Deadline::after(patience);
    while done.load(Ordering::SeqCst) < 2 {
        deadline.check("the other thread's gets and puts");
        poll(&mut fabric, &mut seen);
        std::thread::yield_now();
    }
    drop(fabric);
}

/// A get or put that would leave its region ends in an error and touches nothing outside.
pub fn outside_of_a_region<B: Bench>(bench: &B) {
    const LEN: usize = 10_000;
    let mut mesh = Mesh::new(bench, 2);
    for kind in [Kind::Registered, Kind::Allocated] {
        if kind == Kind::Registered && !limits(mesh.at(0)).guards {
            continue;
        }
        for way in Way::BOTH {
            for (offset, len) in [(0, LEN + 1), (1, LEN), (LEN, 1), (LEN + 1, 1), (1 << 40, 8)] {
                let far = expose(mesh.at(0), kind, LEN);
                far.ram.fill(1);
                let key = key(mesh.at(0), peer(1), &far, 0).expect("a region has a key");
                let key = mesh.hand_over(0, 1, key);
                let near = Ram::new(len);
                assert_fails(&mut mesh, way, (&key, offset), &near, "past its end");
                if offset > 0 {
                    // Nothing was to be written into the region either.
                    pattern::assert_same(
                        &far.ram.read()[..offset.min(LEN)],
                        &pattern::bytes(1, offset.min(LEN)),
                        format_args!("{way:?} of {len} bytes at {offset} of {LEN}"),
                    );
                }
                mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
            }
        }
    }
    // The largest offset must not wrap around into the region.
    let far = expose(mesh.at(0), Kind::Allocated, LEN);
    let key = key(mesh.at(0), peer(1), &far, 100).expect("a region has a key");
    let key = mesh.hand_over(0, 1, key);
    let near = Ram::new(64);
    for offset in [usize::MAX, usize::MAX - 63, usize::MAX - 99] {
        for way in Way::BOTH {
            assert_fails(&mut mesh, way, (&key, offset), &near, "wrapped around");
        }
    }
    mesh.assert_nothing_more();
}

/// What was never registered, or is no more, is named in an error.
pub fn unknown_regions<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    let far = expose(mesh.at(0), Kind::Registered, 100);
    let region = far.region.expect("registered");
    let never = RegionId(region.0 ^ 0x5a5a_0000);
    let unknown = |region: RegionId, offset| MemoryError::Unknown { region: region.0, offset };
    assert_eq!(mesh.at(0).key(peer(1), never, 3), Err(unknown(never, 3)));
    assert_eq!(mesh.at(0).deregister(never), Err(unknown(never, 0)));
    assert_eq!(mesh.at(0).key(peer(1), region, 101), Err(unknown(region, 101)));
    assert!(mesh.at(0).key(peer(1), region, 99).is_ok());
    assert_eq!(mesh.at(0).deregister(region), Ok(()));
    assert_eq!(mesh.at(0).key(peer(1), region, 0), Err(unknown(region, 0)));
    assert_eq!(mesh.at(0).deregister(region), Err(unknown(region, 0)));
}

/// Keys that nobody made lead to an error: no crash, and no byte from anywhere.
pub fn garbage_keys<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let near = Ram::new(4096);
    for round in 0..300 {
        let mut bytes = [0; RemoteKey::MAX];
        match round {
            0 => {}
            1 => bytes.fill(0xff),
            _ => random.fill(&mut bytes),
        }
        let len = random.usize(1..=RemoteKey::MAX);
        let key = RemoteKey::from_bytes(&bytes[..len]).expect("a length that keys have");
        for offset in [0, 1, 4096, usize::MAX] {
            assert_fails(&mut mesh, Way::Get, (&key, offset), &near, "a key nobody made");
        }
        assert!(mesh.at(1).map(peer(0), &key, 4096).is_err(), "a view behind {key:?}");
    }
    mesh.send(0, 1, Head::default(), b"well");
    assert_eq!(mesh.receive(1).2, b"well");
    mesh.assert_nothing_more();
}

/// Memory of a device is refused by name, and host memory is registered as before.
pub fn of_a_device<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    let ram = Ram::new(64);
    // SAFETY: nobody is given a key to it.
    let buf = unsafe { UserBuf::new(ram.at(), 64) };
    match mesh.at(0).register(Memory { buf, kind: MemoryKind::Device("cuda") }) {
        Err(MemoryError::Kind { kind: "cuda", .. }) => {}
        other => panic!("memory of a device: {other:?}"),
    }
    let region = mesh.at(0).register(Memory::host(buf)).expect("memory of the host");
    assert_eq!(mesh.at(0).deregister(region), Ok(()));
    mesh.assert_nothing_more();
}

/// Starts what must not succeed: it is refused, or it ends once, in an error.
pub(crate) fn assert_fails<F: Fabric>(
    mesh: &mut Mesh<F>,
    way: Way,
    (key, offset): (&RemoteKey, usize),
    near: &Ram,
    why: &str,
) {
    let token = mesh.token();
    let what = format!("{way:?} of {} bytes at offset {offset}: {why}", near.len());
    let started = mesh.started(&what, |mesh| {
        // SAFETY: `near` outlives this function, which waits for the end.
        unsafe { way.start(mesh.at(1), peer(0), (key, offset), (near.at(), near.len()), token) }
    });
    if started.is_ok() {
        let ended = mesh.completion(1, token);
        assert!(ended.is_err(), "{what}: it succeeded");
    }
}
