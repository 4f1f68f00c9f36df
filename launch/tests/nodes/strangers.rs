//! Connections of strangers to what listens in a job over nodes: they are dropped, counted and named at the end, and the job does
//! not notice.

use super::losses::{PEACE, checksum, program_of_application};
use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use taffrail_agent::Incarnation;
use taffrail_agent::roster::job_digest;
use taffrail_tcp::handshake::{Client, ClientStep, Identity, Standing};
use taffrail_tcp::{Config, Secret};

/// Of this many connections that say nothing the first six make room for others.
const SILENT: usize = Config::DEFAULT.max_handshakes + 6;

fn call(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Waits until a connection was dropped.
fn assert_dropped(mut stream: TcpStream, why: &str) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    let timed_out = end.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out && bytes.is_empty(), "{why}: {bytes:?}");
}

/// All kinds of strangers at a listener: `me` is what one of the job would be, but for the secret. Those that say nothing stay.
pub fn strangers(address: SocketAddr, me: &Identity, callee: u32) -> Vec<TcpStream> {
    let hello = |me: &Identity| Client::new(me, callee, Incarnation(0), [3; 32]);
    let mut garbage = call(address);
    // It may be dropped before all is written.
    let _ = garbage.write_all(&[b'x'; 100_000]);
    assert_dropped(garbage, "garbage");

    let mut truncated = call(address);
    truncated.write_all(&hello(me).1[..20]).unwrap();
    truncated.shutdown(Shutdown::Write).unwrap();
    assert_dropped(truncated, "truncated");

    let mut oversized = call(address);
    oversized.write_all(&[&hello(me).1[..], b"and more"].concat()).unwrap();
    assert_dropped(oversized, "oversized");

    let mut other = call(address);
    other.write_all(&hello(&Identity { job: [1; 16], ..me.clone() }).1).unwrap();
    assert_dropped(other, "another job");

    let mut wrong = call(address);
    let (mut client, packet) = hello(me);
    wrong.write_all(&packet).unwrap();
    let mut challenge = [0; 40];
    wrong.read_exact(&mut challenge).unwrap();
    let standing = Standing { session: 1, ..Standing::default() };
    let Ok(ClientStep::Send(proof)) = client.take(&challenge, me, &standing) else {
        panic!("it is a challenge")
    };
    wrong.write_all(&proof).unwrap();
    assert_dropped(wrong, "a wrong secret");

    let mut silent: Vec<TcpStream> = (0..SILENT).map(|_| call(address)).collect();
    silent.drain(..6).for_each(|first| assert_dropped(first, "silence"));
    silent
}

pub fn stranger(job: [u8; 16], rank: u32) -> Identity {
    Identity { job, secret: Secret::new([1; 32]), rank, incarnation: Incarnation(0) }
}

/// The digest of a job that ranks have in their connections.
fn of_ranks(name: &str) -> [u8; 16] {
    let prime = 0x100_0000_01b3;
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(prime);
    let second = name.bytes().fold(0x9ae1_6a3b_2f90_404f, fnv);
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&job_digest(name).to_le_bytes());
    digest[8..].copy_from_slice(&second.to_le_bytes());
    digest
}

/// That of copy stores.
fn of_copies(name: &str) -> [u8; 16] {
    let mut digest = *b"........copy 1\0\0";
    digest[..8].copy_from_slice(&job_digest(name).to_le_bytes());
    digest
}

/// What was refused, by reason, where a line says so.
fn refused(err: &str, who: &str) -> Vec<(u64, String)> {
    let start = format!("{who} refused connections: ");
    let line = err.lines().find_map(|line| Some(line.split_once(&start)?.1));
    let part = |part: &str| {
        let (count, why) = part.split_once(' ').expect("a number and a reason");
        (count.parse().expect("a number"), why.to_owned())
    };
    line.unwrap_or_else(|| panic!("no line of {who}:\n{err}")).split(", ").map(part).collect()
}

/// As many of each kind as of [`strangers`] at this many listeners. Ranks that call each other at once give up one of their
/// connections, so that there may be more truncated ones.
pub fn assert_refused(err: &str, who: &str, listeners: u64) {
    let mut found = refused(err, who);
    let expected =
        [(2, "wrong secret"), (1, "garbage"), (1, "truncated"), (1, "oversized"), (6, "half-open")];
    let mut expected = expected.map(|(count, why)| (count * listeners, why.to_owned()));
    assert!(found.get(2).is_some_and(|truncated| truncated.0 >= expected[2].0), "{err}");
    (found[2].0, expected[2].0) = (0, 0);
    assert_eq!(found, expected, "{err}");
}

#[test]
fn strangers_at_ranks_and_copy_stores_are_counted_and_change_nothing() {
    let job = Job::on("a:2,b:2").with(&["--network", "lo", "--lease", "30s"]);
    let job = program_of_application(job.with(&["--logging", "pessimistic"]), 0);
    std::fs::write(job.pace(), "").unwrap();
    let child = job.command().spawn().unwrap();
    let started = Instant::now();
    let value = |process: &Process, name: &str| {
        let start = format!("{name}=");
        process.environment().iter().find_map(|of| Some(of.strip_prefix(&start)?.to_owned()))
    };
    let rank = |number: u32| {
        let ranks = job.processes().into_iter();
        let is_it = |process: &Process| {
            let is_rank = value(process, "PMI_RANK") == Some(number.to_string());
            is_rank && !process.listening().is_empty()
        };
        ranks.into_iter().find(is_it)
    };
    let stores = || {
        let all = job.processes().into_iter();
        let stores = all.filter(|process| process.words().contains(" copies"));
        let stores: Vec<Process> = stores.filter(|it| !it.listening().is_empty()).collect();
        stores
    };
    assert!(soon(|| rank(0).is_some() && stores().len() == 2), "they listen");
    let first = rank(0).unwrap();
    let name = value(&first, "TAFFRAIL_JOB").unwrap();
    let mut silent = strangers(first.listening()[0], &stranger(of_ranks(&name), 2), 0);
    for store in stores() {
        let of_a = store.environment().contains(&"TAFFRAIL_TEST_PART=a".to_owned());
        let (caller, callee) = if of_a { (1, 0) } else { (0, 1) };
        let me = stranger(of_copies(&name), caller);
        silent.extend(strangers(store.listening()[0], &me, callee));
    }
    let ended = job.end(child, started);
    assert_eq!((ended.status, checksum(&ended)), (0, Some(PEACE.as_str())), "{}", ended.err);
    assert_refused(&ended.err, "node a", 2);
    assert_refused(&ended.err, "node b", 1);
    drop(silent);
}
