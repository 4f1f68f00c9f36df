//! Messages of all kinds between the ranks of several nodes, and what becomes of ranks whose peers end.

use super::ranks::{program, said};
use super::*;
use std::io::{IoSlice, IoSliceMut, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use taffrail::{Dest, Endpoint, Error, Pattern, RemoteMemory, collectives};

/// The endpoint of a rank, and the job that it belongs to; alone if this is run as a test.
pub fn joined() -> (taffrail::Job, Endpoint) {
    let mut job = taffrail::Job::from_env().unwrap();
    let endpoint = job.endpoint().unwrap();
    (job, endpoint)
}

/// Writes a line that no other rank's is mixed with.
pub fn line(text: &str) {
    std::io::stdout().write_all(format!("\n{text}\n").as_bytes()).unwrap();
}

pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let period: Vec<u8> = (0..251).map(|at: u8| at.wrapping_add(seed as u8)).collect();
    let mut bytes = period.repeat(len / period.len() + 1);
    bytes.truncate(len);
    bytes
}

/// From one slot to several segments.
const LENGTHS: [usize; 9] = [0, 8, 44, 300, 5000, 65_536, 70_000, 1 << 20, 5 << 20];

/// A rank whose last message waits for its event when it comes to a barrier of the launcher, and is awaited by the other one.
#[test]
fn a_rank_whose_message_leaves_during_a_barrier() {
    let (mut job, mut ep) = joined();
    if job.size() < 2 {
        return;
    }
    for round in 0..20 {
        let mut got = [0; 8];
        match job.rank() {
            // The event of a receive from anybody: what is sent then waits until it is stable.
            0 => {
                ep.recv(Pattern::any_source(1), &mut got).unwrap();
                ep.send((1, 2), &got).unwrap();
            }
            _ => {
                ep.send((0, 1), &[round; 8]).unwrap();
                ep.recv((0, 2), &mut got).unwrap();
            }
        }
        assert_eq!(got, [round; 8]);
        job.barrier_with(&mut ep).unwrap();
    }
    line(&format!("rank {}: all", job.rank()));
}

#[test]
fn a_message_that_waits_for_its_event_leaves_during_a_barrier() {
    let job = Job::on("a:1,b:1").with(&["--network", "lo", "-n", "2", "--logging", "pessimistic"]);
    let ended = job.with(&program("messages::a_rank_whose_message_leaves_during_a_barrier")).run();
    assert_eq!(
        (ended.status, said(&ended)),
        (0, vec!["rank 0: all", "rank 1: all"]),
        "{}",
        ended.err
    );
}

/// A rank that exchanges messages of all kinds with all others.
#[test]
fn a_rank_with_messages() {
    let (_job, mut ep) = joined();
    let (me, size) = (ep.rank(), ep.size());
    for step in 0..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        two_sided(&mut ep, to, from);
        without_copies(&mut ep, to, from);
        one_sided(&mut ep, to, from);
    }
    from_anybody(&mut ep);
    active(&mut ep);
    let mut sum = [u64::from(me) + 1];
    collectives::allreduce(&mut ep, &mut sum, collectives::sum).unwrap();
    assert_eq!(sum[0], (1..=u64::from(size)).sum::<u64>());
    let fabrics = ep.explain();
    let fabrics = fabrics.lines().filter_map(|line| {
        let (rank, over) = line.strip_prefix("to rank ")?.split_once(", over ")?;
        let (rank, fabric) = (rank.split(' ').next()?, over.split([' ', ':']).next()?);
        Some(format!("{rank} {fabric}"))
    });
    let fabrics: Vec<String> = fabrics.collect();
    line(&format!("rank {me}: {}", fabrics.join(", ")));
}

fn two_sided(ep: &mut Endpoint, to: u32, from: u32) {
    for len in LENGTHS {
        let (data, mut into) = (bytes(len, ep.rank()), vec![0; len]);
        let status = ep.sendrecv((to, 1), &data, (from, 1), &mut into).unwrap();
        assert_eq!((status.source, status.len, into == bytes(len, from)), (from, len, true));
        let parts = data.split_at(len / 3);
        let (mut first, mut rest) = (vec![0; len / 2], vec![0; len - len / 2]);
        if to != ep.rank() {
            // Pairs that both sent first would wait for each other.
            let send = |ep: &mut Endpoint| {
                ep.send_vectored((to, 2), &[IoSlice::new(parts.0), IoSlice::new(parts.1)]).unwrap();
                ep.send_sync((to, 3), &data).unwrap();
            };
            let mut receive = |ep: &mut Endpoint| {
                let into = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut rest)];
                ep.recv_vectored((from, 2), into).unwrap();
                let mut whole = vec![0; len];
                ep.recv((from, 3), &mut whole).unwrap();
                assert!(whole == bytes(len, from), "{len} bytes of {from}");
            };
            in_turn(ep, to, send, &mut receive);
            assert!([first, rest].concat() == bytes(len, from), "{len} bytes of {from}");
        }
    }
}

/// Sends and receives along a ring of ranks: those that are not last in it send first.
fn in_turn(
    ep: &mut Endpoint,
    to: u32,
    send: impl FnOnce(&mut Endpoint),
    receive: impl FnOnce(&mut Endpoint),
) {
    if ep.rank() < to {
        send(ep);
        receive(ep);
    } else {
        receive(ep);
        send(ep);
    }
}

fn without_copies(ep: &mut Endpoint, to: u32, from: u32) {
    for len in [100, 5000, 1 << 20] {
        let mut buffer = ep.alloc(len).unwrap();
        buffer.copy_from_slice(&bytes(len, ep.rank()));
        ep.loan((to, 4), buffer).unwrap();
        let view = ep.recv_view((from, 4)).unwrap();
        assert!(view[..] == bytes(len, from), "a loan of {len} bytes of {from}");
    }
}

fn one_sided(ep: &mut Endpoint, to: u32, from: u32) {
    const LEN: usize = 200_000;
    let mut memory = bytes(LEN, ep.rank());
    // SAFETY: the memory stays until it is deregistered; peers write it between the meetings only.
    let region = unsafe { ep.register(memory.as_mut_ptr(), LEN).unwrap() };
    let mine = ep.remote_memory(from, region).unwrap();
    let mut theirs = [0; RemoteMemory::ENCODED];
    ep.sendrecv((from, 5), &mine.to_bytes(), (to, 5), &mut theirs).unwrap();
    let remote = RemoteMemory::from_bytes(&theirs);
    let mut got = vec![0; LEN - 1000];
    ep.get(to, &remote, 1000, &mut got).unwrap();
    assert!(got == bytes(LEN, to)[1000..], "got of {to}");
    ep.sendrecv((to, 6), &[], (from, 6), &mut []).unwrap();
    ep.put(to, &remote, 7, &bytes(90_000, 100 + ep.rank())).unwrap();
    ep.sendrecv((to, 7), &[], (from, 7), &mut []).unwrap();
    // SAFETY: nobody writes here any more.
    let seen = unsafe { std::slice::from_raw_parts(memory.as_ptr().add(7), 90_000) };
    assert!(*seen == bytes(90_000, 100 + from), "put by {from}");
    ep.deregister(region).unwrap();
}

fn from_anybody(ep: &mut Endpoint) {
    let (me, size) = (ep.rank(), ep.size());
    if me != 0 {
        for k in 0..100 {
            ep.send((0, 8), &[me, k].map(u32::to_le_bytes).concat()).unwrap();
        }
        return;
    }
    let mut next = vec![0; size as usize];
    for _ in 0..100 * (size - 1) {
        let mut into = [0; 8];
        let status = ep.recv(Pattern::any_source(8), &mut into).unwrap();
        let k = u32::from_le_bytes([into[4], into[5], into[6], into[7]]);
        assert_eq!(k, std::mem::replace(&mut next[status.source as usize], k + 1));
    }
}

fn active(ep: &mut Endpoint) {
    let sum = Arc::new(AtomicU64::new(0));
    let add = sum.clone();
    ep.on_am(3, move |_, message| {
        add.fetch_add(message.header + message.payload.len() as u64, Memory::Relaxed);
    });
    collectives::barrier(ep).unwrap();
    for rank in 0..ep.size() {
        ep.send_am(rank, 3, 1000, b"four").unwrap();
    }
    let all = 1004 * u64::from(ep.size());
    let ended = soon(|| {
        ep.progress();
        sum.load(Memory::Relaxed) >= all
    });
    assert!(ended && sum.load(Memory::Relaxed) == all, "{sum:?} of {all}");
}

#[test]
fn of_all_kinds_over_two_nodes() {
    let job = Job::on("a:2,b:2").with(&["--network", "lo", "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_with_messages")).run();
    let near = ["0 shm, 1 shm, 2 tcp, 3 tcp", "0 tcp, 1 tcp, 2 shm, 3 shm"];
    let expected: Vec<String> =
        (0..4).map(|rank| format!("rank {rank}: {}", near[rank / 2])).collect();
    assert_eq!((ended.status, ranks::said(&ended)), (0, refs(&expected)), "{}", ended.err);
}

fn refs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn of_all_kinds_where_each_rank_is_a_node_and_no_network_is_named() {
    let ended = Job::on("a,b,c").with(&["-n", "3"]);
    let ended = ended.with(&program("messages::a_rank_with_messages")).run();
    assert_eq!((ended.status, ranks::said(&ended).len()), (0, 3), "{}", ended.err);
}

#[test]
fn of_all_kinds_on_one_node_of_several_ranks() {
    let ended = Job::on("a:3").with(&["-n", "3"]);
    let ended = ended.with(&program("messages::a_rank_with_messages")).run();
    let expected = [0, 1, 2].map(|rank| format!("rank {rank}: 0 shm, 1 shm, 2 shm"));
    assert_eq!((ended.status, ranks::said(&ended)), (0, refs(&expected)), "{}", ended.err);
}

/// Rank 3 is killed; the others wait for its message, and say what they hear of it. They do not end when they are asked to,
/// so that they have the time to.
#[test]
fn a_rank_that_is_waited_for() {
    let (_job, mut ep) = joined();
    if ep.size() == 1 {
        return;
    }
    ignore_the_request_to_end();
    if ep.rank() != 3 {
        ep.send((3, 2), b"here").unwrap();
    } else {
        (0..3).for_each(|rank| _ = ep.recv((rank, 2), &mut [0; 4]).unwrap());
        Process { pid: std::process::id() }.signal("KILL");
    }
    match ep.recv((3, 1), &mut [0; 8]) {
        Err(Error::PeerFailed { rank, fault }) => {
            line(&format!("rank {}: {rank} failed: {fault}", ep.rank()));
        }
        other => line(&format!("rank {}: {other:?}", ep.rank())),
    }
}

fn ignore_the_request_to_end() {
    // SAFETY: to ignore a signal runs no code of this program.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

#[test]
fn a_killed_rank_is_named_to_those_that_wait_for_it() {
    let job = Job::on("a:2,b:2").with(&["--network", "lo", "-n", "4"]);
    let ended = job.with(&program("messages::a_rank_that_is_waited_for")).run();
    assert_eq!(ended.status, 137, "{}", ended.err);
    let said = ranks::said(&ended);
    assert_eq!(said.len(), 3, "{}{}", ended.out, ended.err);
    for (rank, said) in said.iter().enumerate() {
        assert!(said.starts_with(&format!("rank {rank}: 3 failed: ")), "{said}");
    }
}

/// Rank 0 waits for a message of the last rank, which has finished and never had anything to do with rank 0.
#[test]
fn a_rank_that_finishes_early() {
    let (_job, mut ep) = joined();
    if ep.rank() == 0 && ep.size() > 1 {
        let last = ep.size() - 1;
        let error = ep.recv((last, 1), &mut [0; 8]).unwrap_err();
        line(&format!("rank 0: {error}"));
        let sent = ep.send_sync(Dest::new(last, 1), b"too late");
        assert!(matches!(sent, Err(Error::PeerFailed { rank, .. }) if rank == last), "{sent:?}");
    }
}

#[test]
fn a_rank_that_has_finished_is_not_waited_for() {
    let job = Job::on("a,b").with(&["--network", "lo", "-n", "2"]);
    let ended = job.with(&program("messages::a_rank_that_finishes_early")).run();
    assert_eq!((ended.status, ranks::said(&ended).len()), (0, 1), "{}{}", ended.out, ended.err);
}
