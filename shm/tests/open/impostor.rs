//! A process that says it is another. Its packets are made here by the book: `docs/wire.md`, sections 1
//! and 4.

use super::{Process, Said, checks, fabric};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use taffrail_fabric::PeerId;

/// Bytes of an inbox of two peer slots, and of the outbox.
const INBOX: u64 = (384 + 256 * 2 + 2 * 128 * 64u64).next_multiple_of(4096);
const OUTBOX: u64 = 128 * 1024;

fn hello(address: &str) -> [u8; 208] {
    let mut bytes = [0; 208];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, b"TAFFHELO");
    put(8, &4u32.to_le_bytes());
    put(20, &2u32.to_le_bytes());
    put(24, b"TAFFOPEN");
    put(56, &INBOX.to_le_bytes());
    put(64, &OUTBOX.to_le_bytes());
    put(80, &1u32.to_le_bytes());
    put(84, &1u32.to_le_bytes());
    put(88, &(address.len() as u32).to_le_bytes());
    put(96, address.as_bytes());
    bytes
}

fn memory(len: u64) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("impostor", flags).expect("a memfd");
    rustix::fs::ftruncate(&file, len).expect("room");
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).expect("room");
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).expect("a memfd can be sealed");
    file
}

fn socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a socket")
}

fn name(address: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(address.as_bytes()).expect("an address")
}

/// Connects to a fabric and says that we listen at `address`. The length of the answer, 0 for none.
fn come(to: &mut taffrail_shm::ShmFabric, address: &str) -> usize {
    let link = socket();
    rustix::net::connect(&link, &name(to.address())).expect("it listens");
    let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
    let (inbox, outbox) = (memory(INBOX), memory(OUTBOX));
    let files = [inbox.as_fd(), outbox.as_fd(), doorbell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let bytes = hello(address);
    rustix::net::sendmsg(&link, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty())
        .expect("it listens");
    let mut said = Said::default();
    checks(to, &mut said);
    assert!(said.failed.is_empty() && said.messages.is_empty(), "{said:?}");
    let mut answer = [0; 256];
    let (answered, _) = rustix::net::recv(&link, &mut answer[..], RecvFlags::DONTWAIT)
        .expect("an answer, or the end of the connection");
    answered
}

#[test]
fn no_process_takes_the_peer_slot_of_another() {
    let mut fabric = fabric(3);
    let mut other = Process::start("listen serve");
    assert_eq!(come(&mut fabric, &other.address), 0, "this process does not listen there");
    // Also while the fabric calls that one, which answers late.
    let peer = fabric.call(&other.address).expect("a peer slot");
    assert_eq!(come(&mut fabric, &other.address), 0);
    other.begin();
    let mut said = Said::default();
    super::until(&mut fabric, &mut said, "they meet", |fabric, _| fabric.is_met(peer));
    assert_eq!(come(&mut fabric, &other.address), 0);
    assert!(said.failed.is_empty(), "{said:?}");
    // The same packet with an address where this process does listen is a good one.
    let ours = format!("taffrail-test-{}", std::process::id());
    let listener = socket();
    rustix::net::bind(&listener, &name(&ours)).expect("a name of its own");
    rustix::net::listen(&listener, 8).expect("a socket");
    assert_eq!(come(&mut fabric, &ours), 208);
    assert_eq!(fabric.address_of(PeerId(2)), Some(&ours[..]));
}
