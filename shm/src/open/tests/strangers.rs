//! Processes that come and are not what they say.

use super::*;
use crate::memory::{Seal, Shared};
use crate::socket::tests::alone;
use crate::socket::{DialError, LinkError, Listener, Offer, dial, hear};
use rustix::event::EventfdFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::AsFd;

/// A process with a listener of its own, and memory for this number of peer slots.
struct Stranger {
    hello: Hello,
    listener: Listener,
    inbox: Shared,
    outbox: Shared,
    doorbell: OwnedFd,
}

impl Stranger {
    fn new(peer_slots: u32) -> Self {
        let len = Layout::new(peer_slots).len();
        let listener = Listener::bind().unwrap();
        let inbox = Shared::create("taffrail-inbox", len, len, Seal::Fixed).unwrap();
        let outbox = Shared::create("taffrail-outbox", 65536, 65536, Seal::Growing).unwrap();
        let hello = Hello {
            ranks: peer_slots,
            peer_slot: 1,
            address: *listener.address(),
            inbox_len: len as u64,
            outbox_max: outbox.limit() as u64,
            ..fabric(2).peer_slots.as_ref().unwrap().hello
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = rustix::event::eventfd(0, flags).unwrap();
        Stranger { hello, listener, inbox, outbox, doorbell }
    }

    fn say(&self, link: &Link) {
        let outbox = self.outbox.read_only_fd().unwrap();
        let (inbox, outbox) = (self.inbox.fd(), outbox.as_fd());
        let doorbell = self.doorbell.as_fd();
        Offer { hello: self.hello, inbox, outbox, doorbell }.say_hello(link).unwrap();
    }

    /// Connects to a fabric, and returns the answer.
    fn come(&self, fabric: &mut ShmFabric) -> Result<Peer, LinkError> {
        let link = dial(fabric.address()).unwrap().unwrap();
        self.say(&link);
        let mut said = Said::default();
        for _ in 0..10 {
            fabric.check(&mut said);
        }
        assert_eq!(said, Said::default());
        let heard = hear(&self.hello, link).map_err(|(error, _)| error);
        heard.map(|answer| answer.expect("an answer"))
    }

    /// Is called by a fabric, and answers; what becomes of it there.
    fn answer(&self, fabric: &mut ShmFabric) -> Fault {
        let peer = fabric.call(self.listener.address().as_str()).unwrap();
        let (link, _) = self.listener.accept().unwrap().expect("a call connects at once");
        self.say(&link);
        let mut said = [Said::default()];
        until(&mut [fabric], &mut said, "its end", |_, said| !said[0].failed.is_empty());
        let [(failed, why)] = &said[0].failed[..] else { panic!("{said:?}") };
        assert_eq!(*failed, peer);
        why.clone()
    }
}

#[test]
fn a_good_one_is_answered_with_its_peer_slot() {
    let mut fabric = fabric(3);
    let hello = Stranger::new(5).come(&mut fabric).unwrap().hello;
    assert_eq!((hello.peer_slot, hello.ranks, hello.open), (1, 3, true));
    assert_eq!(hello.address.as_str(), fabric.address());
}

/// That the address is that of another process takes another process: `tests/open`.
#[test]
fn nobody_comes_with_an_address_where_nobody_or_this_process_listens() {
    let mut fabric = fabric(3);
    for address in [fabric.address, Address::parse(b"taffrail-nobody").unwrap()] {
        let mut stranger = Stranger::new(3);
        stranger.hello.address = address;
        assert_eq!(stranger.come(&mut fabric).unwrap_err(), LinkError::Closed, "{address}");
    }
}

#[test]
fn memory_that_is_not_what_it_says_is_refused() {
    let mut fabric = fabric(3);
    // Peer slots behind the end of its inbox, which it has not.
    for (ranks, peer_slot) in [(300, 299), (4, 3), (u32::MAX, u32::MAX - 1)] {
        let mut stranger = Stranger::new(3);
        (stranger.hello.ranks, stranger.hello.peer_slot) = (ranks, peer_slot);
        let refused = stranger.come(&mut fabric).unwrap_err();
        assert_eq!(refused, LinkError::Closed, "peer slot {peer_slot} of {ranks}");
    }
    let mut stranger = Stranger::new(3);
    stranger.hello.outbox_max = 1;
    assert_eq!(stranger.come(&mut fabric).unwrap_err(), LinkError::Closed);
    assert_eq!(
        Stranger::new(3).come(&mut fabric).unwrap().hello.peer_slot,
        1,
        "no peer slot was lost"
    );
}

#[test]
fn wrong_answers_fail_the_peer() {
    let mut fabric = fabric(9);
    let mut answered = |change: &dyn Fn(&mut Hello)| {
        let mut stranger = Stranger::new(3);
        change(&mut stranger.hello);
        match stranger.answer(&mut fabric) {
            Fault::Protocol { place, .. } => place,
            other => panic!("{other}"),
        }
    };
    assert_eq!(answered(&|hello| hello.ranks = 300), "shared memory");
    let another = Address::parse(b"another").unwrap();
    assert_eq!(answered(&|hello| hello.address = another), "HELLO, address");
    assert_eq!(answered(&|hello| hello.job = [1, 2]), "HELLO, job");
    assert_eq!(answered(&|hello| (hello.open, hello.peer_slot) = (false, 0)), "HELLO, open");
    assert_eq!(answered(&|hello| hello.peer_slot = 0), "HELLO, peer slot");
    assert_eq!(answered(&|hello| hello.peer_slot = 3), "HELLO, peer slot");
}

#[test]
fn somebody_for_whom_there_is_no_peer_slot_is_refused() {
    let mut fabric = fabric(2);
    let first = Stranger::new(3);
    let _met = first.come(&mut fabric).unwrap();
    for _ in 0..3 {
        assert_eq!(Stranger::new(3).come(&mut fabric).unwrap_err(), LinkError::Closed);
    }
    assert!(fabric.peer_slots.as_ref().unwrap().is_full_said);
}

#[test]
fn those_who_look_who_listens_are_no_trouble() {
    let mut fabric = fabric(3);
    for _ in 0..3 {
        assert!(matches!(dial(fabric.address()), Ok(Some(_))));
    }
    assert!(matches!(dial("taffrail-nobody"), Err(DialError::Nobody)));
    fabric.check(&mut Said::default());
    assert_eq!(fabric.peer_slots.as_ref().unwrap().callers.unknown().count(), 0);
    assert_eq!(Stranger::new(3).come(&mut fabric).unwrap().hello.peer_slot, 1);
}

/// A process of another user may listen under any name; nothing is sent to it.
#[test]
fn a_process_of_another_user_is_not_talked_to() {
    if !alone(module_path!(), "a_process_of_another_user_is_not_talked_to", "true") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("not checked: only root can become another user");
        return;
    }
    let mut fabric = fabric(2);
    let name = format!("taffrail-test-{}", std::process::id());
    let (flags, backlog) = (SocketFlags::CLOEXEC, 4);
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap())
        .unwrap();
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain system calls. The kernel names the user of the last `listen` as the listener.
        unsafe {
            let is_other = libc::setresuid(65534, 65534, 65534) == 0;
            let code = i32::from(!is_other || rustix::net::listen(&socket, backlog).is_err());
            libc::_exit(code);
        }
    }
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let peer = fabric.call(&name).unwrap();
    let mut said = [Said::default()];
    until(&mut [&mut fabric], &mut said, "its end", |_, said| !said[0].failed.is_empty());
    let text = said[0].failed[0].1.to_string();
    assert_eq!(said[0].failed[0].0, peer);
    assert!(text.contains(&name) && text.contains("belongs to user 65534, not 0"), "{text}");
}
