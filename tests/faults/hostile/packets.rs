//! Every field of a packet on the socket, and the descriptors that come with it.

use super::attacker::{Hostile, words};
use super::case::{Case, Table};
use super::raw::{memfd, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const REGION: u64 = u64::from_le_bytes(*b"TAFFREGN");
const FORGET: u64 = u64::from_le_bytes(*b"TAFFFORG");
const HELLO: u64 = u64::from_le_bytes(*b"TAFFHELO");
const PAGE: u64 = 4096;

/// Sends a packet, with these files.
fn packet(bytes: Vec<u8>, files: fn() -> Vec<OwnedFd>) -> impl Fn(&mut Hostile) {
    move |h| {
        let files = files();
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
        assert!(send(h.socket(), &bytes, &files));
        // The victim looks at its sockets now and then.
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn none() -> Vec<OwnedFd> {
    Vec::new()
}

fn page() -> Vec<OwnedFd> {
    vec![memfd(PAGE, true)]
}

fn region(name: u64, len: u64, used: u64) -> Vec<u8> {
    words(&[REGION, name, len, used])
}

pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    let good = || region(900, PAGE, PAGE);
    table.fine("region: as it should be", "R=open", packet(good(), page));

    for magic in [0, REGION + 1, HELLO, u64::MAX] {
        let bytes = words(&[magic, 900, PAGE, PAGE]);
        table.cut(format!("magic: {magic:#x}"), "packet, magic", packet(bytes, page));
    }
    for len in [0, 1, 7] {
        let bytes = good()[..len].to_vec();
        table.cut(format!("length: {len}"), "packet, length", packet(bytes, none));
    }
    for len in [8, 12, 16, 24, 31] {
        let bytes = good()[..len].to_vec();
        table.cut(format!("region: length {len}"), "REGION, length", packet(bytes, page));
    }
    for len in [33, 96, 256] {
        let mut bytes = good();
        bytes.resize(len, 0);
        table.cut(format!("region: length {len}"), "REGION, length", packet(bytes, page));
    }
    for len in [257, 4000] {
        let mut bytes = good();
        bytes.resize(len, 0);
        table.cut(format!("length: {len}"), "packet, length", packet(bytes, page));
    }
    table.cut("region: number 0", "packet, region", packet(region(0, PAGE, PAGE), page));
    let reserved = region(900 | 1 << 32, PAGE, PAGE);
    table.cut("region: bytes that must be zero", "REGION, bytes 12 to 16", packet(reserved, page));
    for used in [0, PAGE + 1, u64::MAX] {
        let bytes = region(900, PAGE, used);
        table.cut(format!("region: {used} bytes used"), "REGION, used", packet(bytes, page));
    }
    for len in [100, PAGE + 1, 2 * PAGE, 1 << 40, u64::MAX] {
        let bytes = region(900, len, 100);
        table.cut(format!("region: {len} bytes long"), "shared memory", packet(bytes, page));
    }
    table.cut("region: a number used before", "REGION.region", move |h| {
        packet(good(), page)(h);
        packet(good(), page)(h);
    });

    let good = || region(900, PAGE, PAGE);
    let mut file = |name: &str, place, files| table.cut(name, place, packet(good(), files));
    file("descriptor: none", "packet, descriptors", none);
    file("descriptor: two", "packet, descriptors", || vec![memfd(PAGE, true), memfd(PAGE, true)]);
    file("descriptor: six", "packet, descriptors", || (0..6).map(|_| memfd(1, true)).collect());
    file("descriptor: may shrink", "shared memory", || vec![memfd(PAGE, false)]);
    file("descriptor: an empty file", "shared memory", || vec![memfd(0, true)]);
    file("descriptor: all holes", "shared memory", || vec![holes(PAGE)]);
    file("descriptor: a pipe", "shared memory", || vec![rustix::pipe::pipe().unwrap().0]);
    file("descriptor: a directory", "shared memory", || {
        vec![std::fs::File::open("/").unwrap().into()]
    });
    file("descriptor: a device", "shared memory", || {
        vec![std::fs::File::open("/dev/zero").unwrap().into()]
    });
    file("descriptor: read-only", "mmap", || {
        let file = memfd(PAGE, true);
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        vec![std::fs::File::open(format!("/proc/self/fd/{number}")).unwrap().into()]
    });

    let forget = || words(&[FORGET, 900]);
    table.cut("forget: a region that never was", "FORGET.region", packet(forget(), none));
    table.fine("forget: as it should be", "R=open", move |h| {
        packet(good(), page)(h);
        packet(forget(), none)(h);
    });
    table.cut("forget: twice", "FORGET.region", move |h| {
        packet(good(), page)(h);
        packet(forget(), none)(h);
        packet(forget(), none)(h);
    });
    table.cut("forget: with a descriptor", "packet, descriptors", packet(forget(), page));
    for len in [8, 15] {
        let bytes = forget()[..len].to_vec();
        table.cut(format!("forget: length {len}"), "FORGET, length", packet(bytes, none));
    }
    table.cut("forget: too long", "FORGET, length", packet(words(&[FORGET, 900, 0]), none));
    table.cut("forget: number 0", "packet, region", packet(words(&[FORGET, 0]), none));
    table.cut("forget: bytes that must be zero", "FORGET, bytes 12 to 16", {
        packet(words(&[FORGET, 900 | 1 << 32]), none)
    });

    table.cut("the socket is closed for writing", "died", |h| {
        rustix::net::shutdown(h.socket(), rustix::net::Shutdown::Write).unwrap();
    });
    table.cut("the socket is closed", "died", |h| {
        rustix::net::shutdown(h.socket(), rustix::net::Shutdown::Both).unwrap();
    });
    // Whoever reads as long as there is something would read for ever.
    table.fine("packets without end", "R=open", |h| {
        let (start, socket) = (Instant::now(), h.socket());
        let mut name = 1000;
        while start.elapsed() < Duration::from_millis(300) {
            let file = memfd(PAGE, true);
            if send(socket, &region(name, PAGE, PAGE), &[file.as_fd()]) {
                while !send(socket, &words(&[FORGET, name]), &[]) {}
                name += 1;
            }
        }
        assert!(name > 1000);
        std::thread::sleep(Duration::from_millis(50));
    });
    table.0
}

/// A file that has the length, and no memory behind it.
fn holes(len: u64) -> OwnedFd {
    let file = memfd(0, false);
    rustix::fs::ftruncate(&file, len).unwrap();
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
    file
}
