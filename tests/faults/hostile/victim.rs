//! The victim, with everything under way that a peer can meddle with, and the bystander.

use super::case::Case;
use super::{HELLO_TAG, KEY_TAG, L_TAG, OWN, R_TAG, Roles, S_TAG, Y_TAG, Z_TAG};
use crate::LONG;
use crate::family::say;
use crate::pattern;
use std::time::{Duration, Instant};
use taffrail::{Dest, Endpoint, Error, Fault, Job, Rank, RemoteMemory, Request, Settings, Status};

/// Messages between victim and bystander.
const TALK: u64 = 20;
const ECHO: u64 = 21;
/// Their lengths, in turn: a mailbox, slots, a piece, several, announced.
const LENGTHS: [usize; 5] = [8, 200, 3000, 50_000, 100_000];
/// Rounds that they go on after the deed.
const ROUNDS: u64 = 10;
/// A flood takes its time where many share a processor.
const PATIENCE: Duration = LONG.saturating_mul(3);
/// Bytes around a receive's memory that nobody may touch.
const GUARD: usize = 64;

/// Memory of a receive, and around it.
struct Room(Vec<u8>);

impl Room {
    fn new(len: usize) -> Room {
        // Most of it is not touched, and then costs nothing.
        let mut room = vec![0; len + 2 * GUARD];
        room[..GUARD].fill(0xee);
        room[GUARD + len..].fill(0xee);
        Room(room)
    }

    fn at(&mut self) -> *mut u8 {
        self.0[GUARD..].as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.0.len() - 2 * GUARD
    }

    fn check(&self) {
        let end = self.0.len() - GUARD;
        assert!(self.0[..GUARD].iter().chain(&self.0[end..]).all(|&byte| byte == 0xee));
    }
}

/// An operation with the hostile rank.
struct Op {
    name: &'static str,
    request: Request,
    over: Option<Result<Status, Error>>,
}

/// One case. Says how the hostile rank is seen, and at the end that nothing is left.
pub fn victim(job: &mut Job, roles: Roles, settings: &Settings, case: &Case) {
    let before = belongings();
    let mut endpoint = job.endpoint_with(settings.clone()).expect("an endpoint");
    suffer(&mut endpoint, roles, case);
    drop(endpoint);
    let after = belongings();
    assert_eq!(before, after, "descriptors and mappings");
    say(format_args!("clean"));
}

fn suffer(endpoint: &mut Endpoint, roles: Roles, case: &Case) {
    let Roles { hostile, bystander, .. } = roles;
    let mut key = [0; RemoteMemory::ENCODED];
    endpoint.recv((hostile, KEY_TAG), &mut key).expect("the key");
    let theirs = RemoteMemory::from_bytes(&key);
    let mut rooms = [1000, 300_000, 100, 5000, case.get].map(Room::new);
    let mut own = vec![1; OWN];
    let (long, small) = (vec![2; case.long], [3; 30]);
    let mut ops: Vec<Op> = Vec::new();
    let mut add = |name, request: Result<Request, Error>| match request {
        Ok(request) => ops.push(Op { name, request, over: None }),
        Err(error) => panic!("{name}: {error}"),
    };
    // SAFETY: all of this memory lives until every request is over.
    let region = unsafe {
        for (name, tag, room) in [("R", R_TAG, 0), ("L", L_TAG, 1), ("Z", Z_TAG, 2)] {
            let (at, len) = (rooms[room].at(), rooms[room].len());
            add(name, endpoint.irecv_raw((hostile, tag).into(), at, len));
        }
        add("S", endpoint.isend_raw((hostile, S_TAG).into(), long.as_ptr(), long.len()));
        add("Y", endpoint.isend_sync_raw((hostile, Y_TAG).into(), small.as_ptr(), small.len()));
        let (at, len) = (rooms[3].at(), rooms[3].len());
        add("G", endpoint.iget_raw(hostile, &theirs, 0, at, len));
        add("P", endpoint.iput_raw(hostile, &theirs, 8000, small.as_ptr(), small.len()));
        endpoint.register(own.as_mut_ptr(), own.len()).expect("a region")
    };
    let buffer = endpoint.alloc(5000).expect("memory");
    endpoint.loan((hostile, 5), buffer).expect("a loan");
    let mut hello = [0; RemoteMemory::ENCODED + 4];
    let exposed = endpoint.remote_memory(hostile, region).expect("a key");
    let (memory, pid) = hello.split_at_mut(RemoteMemory::ENCODED);
    memory.copy_from_slice(&exposed.to_bytes());
    pid.copy_from_slice(&std::process::id().to_le_bytes());
    endpoint.send((hostile, HELLO_TAG), &hello).expect("nothing was done yet");
    for _ in 0..case.chatter {
        // SAFETY: lives until every request is over.
        let sent = unsafe { endpoint.isend_raw((hostile, 30).into(), small.as_ptr(), 30) };
        match sent {
            Ok(request) => ops.push(Op { name: "C", request, over: None }),
            Err(Error::PeerFailed { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    // A get that both sides move, and that the hostile rank is the owner of.
    let (at, len) = (rooms[4].at(), rooms[4].len());
    // SAFETY: as above.
    match unsafe { endpoint.iget_raw(hostile, &theirs, 0, at, len) } {
        Ok(request) => ops.push(Op { name: "A", request, over: None }),
        Err(Error::PeerFailed { .. }) => {}
        Err(other) => panic!("{other}"),
    }

    let mut talk = Talk::default();
    let start = Instant::now();
    while ops[2].over.is_none() {
        look(endpoint, &mut ops);
        talk.step(endpoint, bystander, true);
        assert!(start.elapsed() < PATIENCE, "undecided: {}", state(&ops));
    }
    // What came before the message that decides has been seen as well.
    look(endpoint, &mut ops);
    match ops[2].over.clone().expect("just seen") {
        Ok(_) => say(format_args!("fine {}", state(&ops))),
        Err(Error::PeerFailed { rank, fault }) if rank == hostile => {
            assert_eq!(
                endpoint.send((hostile, 1), &[]),
                Err(Error::PeerFailed { rank, fault: fault.clone() })
            );
            let place = match &fault {
                Fault::Protocol { place, .. } => place,
                Fault::Closed => "closed",
                Fault::Died => "died",
                Fault::Os { call, .. } => call,
                _ => "other",
            };
            say(format_args!("cut {place} ({fault})"));
        }
        Err(other) => panic!("{other}"),
    }
    let start = Instant::now();
    while ops.iter().any(|op| op.over.is_none()) || !is_lost(endpoint, hostile) {
        look(endpoint, &mut ops);
        talk.step(endpoint, bystander, true);
        assert!(start.elapsed() < PATIENCE, "not over: {}", state(&ops));
    }
    for op in &ops {
        match &op.over {
            Some(Ok(_) | Err(Error::Truncated { .. })) => {}
            Some(Err(Error::PeerFailed { rank, .. })) if *rank == hostile => {}
            other => panic!("{} ended with {other:?}", op.name),
        }
    }
    let since = talk.rounds;
    let start = Instant::now();
    while talk.rounds < since + ROUNDS || talk.is_waiting() {
        talk.step(endpoint, bystander, talk.rounds < since + ROUNDS);
        assert!(start.elapsed() < PATIENCE, "the bystander is silent");
    }
    endpoint.send((bystander, TALK), &[]).expect("the bystander has done nothing");
    rooms.iter().for_each(Room::check);
}

fn look(endpoint: &mut Endpoint, ops: &mut [Op]) {
    for op in ops.iter_mut().filter(|op| op.over.is_none()) {
        op.over = endpoint.test(op.request).transpose();
    }
    endpoint.progress();
    std::thread::yield_now();
}

fn is_lost(endpoint: &mut Endpoint, rank: Rank) -> bool {
    matches!(endpoint.probe((rank, 0xdead)), Err(Error::PeerFailed { .. }))
}

/// What has become of each operation.
fn state(ops: &[Op]) -> String {
    let result = |op: &Op| match &op.over {
        None => "open".to_owned(),
        Some(Ok(status)) => format!("{}", status.len),
        Some(Err(Error::PeerFailed { fault: Fault::NoSuchMemory(_), .. })) => "no-memory".into(),
        Some(Err(Error::Truncated { .. })) => "truncated".into(),
        Some(Err(other)) => format!("{other}").replace(' ', "_"),
    };
    let words: Vec<String> = ops
        .iter()
        .filter(|op| op.name != "C")
        .map(|op| format!("{}={}", op.name, result(op)))
        .collect();
    words.join(" ")
}

/// The exchange with the bystander: one message there and back at a time.
#[derive(Default)]
struct Talk {
    rounds: u64,
    out: Vec<u8>,
    back: Vec<u8>,
    under_way: Option<[Request; 2]>,
}

impl Talk {
    fn is_waiting(&self) -> bool {
        self.under_way.is_some()
    }

    fn step(&mut self, endpoint: &mut Endpoint, bystander: Rank, more: bool) {
        match self.under_way {
            None if more => {
                let len = LENGTHS[self.rounds as usize % LENGTHS.len()];
                self.out = vec![0; len];
                pattern::fill(self.rounds, &mut self.out);
                self.back = vec![0; len];
                // SAFETY: neither is touched before both requests are over.
                self.under_way = Some(unsafe {
                    let (at, to) = (self.back.as_mut_ptr(), Dest::new(bystander, TALK));
                    [
                        endpoint.irecv_raw((bystander, ECHO).into(), at, len).expect("a receive"),
                        endpoint.isend_raw(to, self.out.as_ptr(), len).expect("a send"),
                    ]
                });
            }
            None => {}
            Some([back, out]) => {
                endpoint.progress();
                let Some(status) = endpoint.test(back).expect("the bystander is well") else {
                    return std::thread::yield_now();
                };
                assert_eq!(status.len, self.back.len());
                endpoint.wait(out).expect("it has come back");
                pattern::check(self.rounds, &self.back, format_args!("round {}", self.rounds));
                self.under_way = None;
                self.rounds += 1;
            }
        }
    }
}

/// Sends back what the victim says, until that is nothing.
pub fn bystander(job: &mut Job, roles: Roles, settings: &Settings) {
    let mut endpoint = job.endpoint_with(settings.clone()).expect("an endpoint");
    let mut bytes = vec![0; 100_000];
    loop {
        let status = endpoint.recv((roles.victim, TALK), &mut bytes).expect("the victim is well");
        if status.len == 0 {
            return say(format_args!("done"));
        }
        endpoint.send((roles.victim, ECHO), &bytes[..status.len]).expect("the victim is well");
    }
}

/// Descriptors and mappings of this process that have to do with the transport.
fn belongings() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let ours = |line: &&str| line.contains("taffrail-") || line.contains("memfd:");
    (files, maps.lines().filter(ours).filter(|line| line.contains("memfd:")).count())
}
