use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

use super::*;
use crate::memory::{Seal, Shared};

mod alone;
mod names;
mod restarts;
mod strangers;

pub(crate) use alone::alone;

const SOON: Duration = Duration::from_secs(20);

/// What a process owns.
pub(crate) struct Owner {
    hello: Hello,
    inbox: Shared,
    outbox: Shared,
    doorbell: OwnedFd,
}

impl Owner {
    pub(crate) fn new(rank: u32, ranks: u32) -> Self {
        let inbox = Shared::create("taffrail-inbox", 4096, 0, Seal::Fixed).unwrap();
        let outbox = Shared::create("taffrail-outbox", 4096, 8192, Seal::Growing).unwrap();
        // SAFETY: our own page.
        unsafe { inbox.as_ptr().cast::<u32>().write(rank) };
        let hello = Hello {
            rank,
            incarnation: 0,
            ranks,
            job: [5, 6],
            cookie_at: 0x1000,
            cookie: u64::from(rank) + 100,
            inbox_len: inbox.len() as u64,
            outbox_max: outbox.limit() as u64,
            fenced: rank % 2 == 1,
            generation: 0,
            open: false,
            peer_slot: 0,
            address: Address::parse(b"taffrail-test").unwrap(),
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Owner { hello, inbox, outbox, doorbell: rustix::event::eventfd(0, flags).unwrap() }
    }

    fn connect(
        &self,
        callers: &mut Callers,
        addresses: &[String],
        patience: Duration,
    ) -> Result<Vec<Option<Peer>>, SetupError> {
        let renew = &|_| {};
        let terms = Terms {
            generations: &[],
            restarts: false,
            named: false,
            patience,
            renew,
            on_wait: &|_, _| Ok(()),
        };
        self.connect_on(callers, addresses, terms)
    }

    /// Where addresses are names.
    fn connect_named(
        &self,
        callers: &mut Callers,
        addresses: &[String],
        patience: Duration,
    ) -> Result<Vec<Option<Peer>>, SetupError> {
        let renew = &|_| {};
        let terms = Terms {
            generations: &[],
            restarts: false,
            named: true,
            patience,
            renew,
            on_wait: &|_, _| Ok(()),
        };
        self.connect_on(callers, addresses, terms)
    }

    fn connect_on(
        &self,
        callers: &mut Callers,
        addresses: &[String],
        terms: Terms<'_>,
    ) -> Result<Vec<Option<Peer>>, SetupError> {
        let outbox = self.outbox.read_only_fd().unwrap();
        let offer = Offer {
            hello: self.hello,
            inbox: self.inbox.fd(),
            outbox: outbox.as_fd(),
            doorbell: self.doorbell.as_fd(),
        };
        connect_all(callers, &offer, addresses, terms)
    }
}

fn listeners(count: usize) -> (Vec<Callers>, Vec<String>) {
    let listeners: Vec<_> = (0..count).map(|_| Callers::new(Listener::bind().unwrap())).collect();
    let addresses = listeners.iter().map(|listener| listener.address().to_string()).collect();
    (listeners, addresses)
}

/// Connects `ranks` threads with each other, started in the order of `order`.
fn meet(ranks: u32, order: impl Iterator<Item = u32>) -> Vec<Vec<Option<Peer>>> {
    let (listeners, addresses) = listeners(ranks as usize);
    let mut listeners: Vec<_> = listeners.into_iter().map(Some).collect();
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let addresses = &addresses;
        let connect = |rank: u32| {
            let mut callers = listeners[rank as usize].take().unwrap();
            scope.spawn(move || {
                let peers = Owner::new(rank, ranks).connect(
                    &mut callers,
                    addresses,
                    Duration::from_secs(120),
                );
                (rank, peers.unwrap())
            })
        };
        let threads: Vec<_> = order.map(connect).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, peers)| peers).collect()
}

/// Two processes' ends of one connection.
pub(crate) fn pair() -> (Peer, Peer) {
    let mut all = meet(2, 0..2);
    let (one, mut zero) = (all.pop().unwrap(), all.pop().unwrap());
    (zero.pop().unwrap().unwrap(), one.into_iter().next().unwrap().unwrap())
}

/// A connection to a forked child, that runs `child` (which makes system calls only), connects and
/// waits.
pub(crate) fn link_of_child(child: impl FnOnce()) -> Link {
    let listener = Listener::bind().unwrap();
    let name = SocketAddrUnix::new_abstract_name(listener.address.as_str().as_bytes()).unwrap();
    let dialled = new_socket().unwrap();
    // SAFETY: the child makes system calls only.
    if unsafe { libc::fork() } == 0 {
        child();
        let is_there = rustix::net::connect(&dialled, &name).is_ok();
        // SAFETY: plain system calls.
        unsafe {
            if is_there {
                libc::pause();
            }
            libc::_exit(1);
        }
    }
    drop(dialled);
    let mut listening = [PollFd::new(&listener.socket, PollFlags::IN)];
    poll(&mut listening, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
    let socket = rustix::net::accept_with(&listener.socket, SocketFlags::CLOEXEC).unwrap();
    let (pid, _) = credentials(&socket).unwrap();
    Link { socket, pid }
}

fn check(all: &[Vec<Option<Peer>>]) {
    for (me, peers) in all.iter().enumerate() {
        assert_eq!(peers.len(), all.len());
        for (rank, peer) in peers.iter().enumerate() {
            let Some(peer) = peer else {
                assert_eq!(rank, me);
                continue;
            };
            assert_eq!(peer.hello.rank as usize, rank);
            assert_eq!(peer.hello.cookie, rank as u64 + 100);
            assert_eq!(peer.hello.fenced, rank % 2 == 1);
            assert_eq!(peer.pid, std::process::id() as i32);
            // The descriptors are that rank's own, in the right order.
            let mut word = [0u8; 4];
            rustix::io::pread(&peer.inbox, &mut word, 0).unwrap();
            assert_eq!(u32::from_ne_bytes(word) as usize, rank);
            assert_eq!(rustix::fs::fstat(&peer.outbox).unwrap().st_size, 4096);
            assert!(rustix::io::pwrite(&peer.outbox, &word, 0).is_err());
            rustix::io::write(&peer.doorbell, &1u64.to_ne_bytes()).unwrap();
        }
    }
}

#[test]
fn one_rank_meets_nobody() {
    check(&meet(1, 0..1));
}

#[test]
fn ranks_meet_in_any_order() {
    check(&meet(2, 0..2));
    check(&meet(2, (0..2).rev()));
    check(&meet(7, [3, 6, 0, 1, 5, 4, 2].into_iter()));
    check(&meet(12, 0..12));
}

/// As many processes as a large node runs, without privileges and with the usual limit of open
/// files: more descriptors are under way between them than the kernel lets one user have at once.
#[test]
fn many_processes_meet_under_the_usual_limits() {
    if !alone(module_path!(), "many_processes_meet_under_the_usual_limits", "ulimit -n 1024") {
        return;
    }
    const RANKS: u32 = 128;
    if rustix::process::geteuid().is_root() {
        // SAFETY: this process runs this test only.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
    let (listeners, addresses) = listeners(RANKS as usize);
    let mut listeners: Vec<_> = listeners.into_iter().map(Some).collect();
    let children: Vec<_> = (0..RANKS)
        .map(|rank| {
            // Not by libc's fork: its children have no listeners.
            // SAFETY: this process has one thread, so its copy can do whatever it could.
            let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
            assert!(child >= 0);
            if child > 0 {
                return child as libc::pid_t;
            }
            let mut listener = listeners[rank as usize].take().unwrap();
            listeners.clear();
            let met = Owner::new(rank, RANKS).connect(
                &mut listener,
                &addresses,
                Duration::from_secs(120),
            );
            let code = match met {
                Ok(peers) => i32::from(
                    !peers
                        .iter()
                        .flatten()
                        .map(|peer| peer.hello.rank)
                        .eq((0..RANKS).filter(|&other| other != rank)),
                ),
                Err(error) => {
                    eprintln!("rank {rank}: {error}");
                    2
                }
            };
            // SAFETY: leaves without running anything of the parent's.
            unsafe { libc::_exit(code) }
        })
        .collect();
    for child in children {
        let mut status = 0;
        // SAFETY: waits for our own child, and `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}

#[test]
fn each_listener_has_a_name_of_its_own() {
    let (_listeners, mut addresses) = listeners(16);
    assert!(
        addresses.iter().all(|address| address.starts_with("taffrail-") && address.len() == 41)
    );
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 16);
}

#[test]
fn a_missing_rank_is_named_when_the_time_is_over() {
    let (mut listeners, addresses) = listeners(3);
    let patience = Duration::from_millis(100);
    let start = Instant::now();
    let error = Owner::new(1, 3).connect(&mut listeners[1], &addresses, patience).unwrap_err();
    assert!(start.elapsed() >= patience);
    let expected = SetupError::Missing { ranks: vec![0, 2], waited: patience, refused: vec![] };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "ranks 0, 2 did not appear within 100ms");
}

#[test]
fn an_address_without_a_listener_is_an_error_at_once() {
    let (mut listeners, addresses) = listeners(2);
    let mut listener = listeners.pop().unwrap();
    drop(listeners);
    let error = Owner::new(1, 2).connect(&mut listener, &addresses, SOON).unwrap_err();
    assert!(matches!(&error, SetupError::Unreachable { rank: 0, .. }), "{error}");
    assert!(error.to_string().contains(&addresses[0]), "{error}");
}

#[test]
fn a_list_of_addresses_that_does_not_fit_is_an_error() {
    let (mut listeners, addresses) = listeners(3);
    let error = Owner::new(1, 2).connect(&mut listeners[1], &addresses, SOON).unwrap_err();
    assert_eq!(error, SetupError::Addresses { rank: 1, ranks: 2, got: 3 });
}

#[test]
fn regions_travel_with_their_memory() {
    let (zero, one) = pair();
    assert!(zero.link.receive().unwrap().is_none());
    let region = Shared::create("taffrail-region", 8192, 0, Seal::Fixed).unwrap();
    rustix::io::pwrite(region.fd(), b"taffrail", 4096).unwrap();
    one.link.send_region(7, 8192, 8000, region.fd()).unwrap();
    one.link.send_forget(7).unwrap();
    let packet = zero.link.receive().unwrap();
    let Some(Packet::Region { region: 7, len: 8192, used: 8000, fd }) = packet else {
        panic!("{packet:?}")
    };
    let mut bytes = [0; 8];
    rustix::io::pread(&fd, &mut bytes, 4096).unwrap();
    assert_eq!(&bytes, b"taffrail");
    let flags = rustix::io::fcntl_getfd(&fd).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    assert!(matches!(zero.link.receive(), Ok(Some(Packet::Forget { region: 7 }))));
    assert!(zero.link.receive().unwrap().is_none());
}

#[test]
fn a_peer_that_does_not_read_never_blocks_the_sender() {
    let (zero, one) = pair();
    let mut sent = 0;
    let end = loop {
        match one.link.send_forget(1) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(end, LinkError::Full);
    for _ in 0..sent {
        assert!(matches!(zero.link.receive(), Ok(Some(Packet::Forget { region: 1 }))));
    }
    one.link.send_forget(2).unwrap();
}

#[test]
fn what_was_said_before_the_end_is_heard() {
    let (zero, one) = pair();
    one.link.send_forget(3).unwrap();
    assert!(!zero.link.is_closed());
    drop(one);
    assert!(zero.link.is_closed());
    assert!(matches!(zero.link.receive(), Ok(Some(Packet::Forget { region: 3 }))));
    assert_eq!(zero.link.receive().unwrap_err(), LinkError::Closed);
    assert_eq!(zero.link.send_forget(1), Err(LinkError::Closed));
    assert_eq!(Fault::from(LinkError::Closed), Fault::Died);
}

/// Unread packets make the kernel reset the connection when it is closed, ahead of what the other
/// side has to read.
#[test]
fn what_was_said_before_a_reset_is_heard() {
    let (zero, one) = pair();
    zero.link.send_forget(9).unwrap();
    one.link.send_forget(3).unwrap();
    drop(one);
    assert!(matches!(zero.link.receive(), Ok(Some(Packet::Forget { region: 3 }))));
    assert_eq!(zero.link.receive().unwrap_err(), LinkError::Closed);
}

#[test]
fn packets_with_the_wrong_descriptors_are_errors_and_leave_none_open() {
    let forget = Notice::Forget { region: 1 }.encode();
    let region = Notice::Region { region: 1, len: 1, used: 1 }.encode();
    for (bytes, descriptors) in
        [(&forget, 1), (&region, 0), (&region, 2), (&region, 4), (&forget, 9)]
    {
        let (zero, one) = pair();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let files = vec![write.as_fd(); descriptors];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors == 0 || control.push(SendAncillaryMessage::ScmRights(&files)));
        let iov = [IoSlice::new(bytes)];
        rustix::net::sendmsg(&one.link.socket, &iov, &mut control, SendFlags::empty()).unwrap();
        let error = zero.link.receive().unwrap_err();
        let LinkError::Protocol(bad) = error else { panic!("{descriptors}: {error}") };
        assert_eq!(bad.place, "packet, descriptors");
        // All write ends are closed: the pipe is at its end.
        drop(write);
        assert_eq!(rustix::io::read(&read, &mut [0u8; 1][..]), Ok(0), "{descriptors} descriptors");
    }
}

#[test]
fn packets_that_are_too_long_or_malformed_are_errors() {
    for bytes in [vec![1; 257], vec![1; 256], vec![0; 7], b"TAFFFORG\0\0\0\0\0\0\0\0".to_vec()] {
        let (zero, one) = pair();
        send(&one.link.socket, &bytes, &[]).unwrap();
        let error = zero.link.receive().unwrap_err();
        assert!(matches!(error, LinkError::Protocol(_)), "{error}");
        assert!(matches!(Fault::from(error), Fault::Protocol { .. }));
    }
}
