//! Connections of others than the peers.

use super::*;

fn dial(address: &str) -> OwnedFd {
    let socket = new_socket().unwrap();
    let name = SocketAddrUnix::new_abstract_name(address.as_bytes()).unwrap();
    rustix::net::connect(&socket, &name).unwrap();
    socket
}

/// Lets 2 ranks meet while `disturb` has connected to rank 0 first; returns the refusals of another
/// rank 0 that has no rank 1.
fn disturbed(disturb: impl Fn(&str) -> Vec<OwnedFd>) -> Vec<String> {
    let (mut all, addresses) = listeners(2);
    let strangers = disturb(&addresses[0]);
    let (mut one, mut zero) = (all.pop().unwrap(), all.pop().unwrap());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| Owner::new(0, 2).connect(&mut zero, &addresses, SOON));
        Owner::new(1, 2).connect(&mut one, &addresses, SOON).unwrap();
        first.join().unwrap().unwrap();
    });
    drop(strangers);
    let (mut all, addresses) = listeners(2);
    let again = disturb(&addresses[0]);
    let patience = Duration::from_millis(50);
    let error = Owner::new(0, 2).connect(&mut all[0], &addresses, patience).unwrap_err();
    drop(again);
    match error {
        SetupError::Missing { ranks, refused, .. } => {
            assert_eq!(ranks, [1]);
            refused
        }
        other => panic!("{other}"),
    }
}

fn say(address: &str, bytes: &[u8], with_descriptors: bool) -> Vec<OwnedFd> {
    let socket = dial(address);
    let owner = Owner::new(1, 2);
    let files = [owner.inbox.fd(), owner.outbox.fd(), owner.doorbell.as_fd()];
    send(&socket, bytes, if with_descriptors { &files } else { &[] }).unwrap();
    vec![socket]
}

#[test]
fn wrong_hellos_are_refused_and_disturb_nobody() {
    let good = Owner::new(1, 2).hello;
    let refused =
        |hello: Hello| disturbed(|address| say(address, &hello.encode(), true)).join("; ");
    let text = refused(Hello { job: [5, 7], ..good });
    assert!(text.contains("HELLO, job: expected [5, 6], got [5, 7]"), "{text}");
    let text = refused(Hello { ranks: 3, ..good });
    assert!(text.contains("HELLO, ranks: expected 2, got 3"), "{text}");
    let text = refused(Hello { rank: 9, ..good });
    assert!(text.contains("HELLO, rank: expected less than 2"), "{text}");
    let text = refused(Hello { rank: 0, ..good });
    assert!(text.contains("rank 0 is this process"), "{text}");
    let mut bytes = good.encode();
    bytes[0] = b'X';
    let text = disturbed(|address| say(address, &bytes, true)).join("; ");
    assert!(text.contains("HELLO, magic"), "{text}");
    let text = disturbed(|address| say(address, &good.encode(), false)).join("; ");
    assert!(
        text.contains("HELLO, descriptors: expected 3 (inbox, outbox, doorbell), got 0"),
        "{text}"
    );
    let text = disturbed(|address| say(address, &[7; 300], true)).join("; ");
    assert!(text.contains("packet, length: expected at most 256"), "{text}");
}

#[test]
fn those_who_say_nothing_or_leave_disturb_nobody() {
    assert_eq!(disturbed(|address| (0..10).map(|_| dial(address)).collect()), [""; 0]);
    let many = disturbed(|address| (0..100).map(|_| dial(address)).collect());
    assert!(many[0].contains("said nothing"), "{many:?}");
    disturbed(|address| {
        drop(dial(address));
        vec![]
    });
}

#[test]
fn a_rank_is_met_once() {
    let (mut listeners, addresses) = listeners(3);
    let hello = Owner::new(1, 3).hello.encode();
    let (_first, _second) = (say(&addresses[0], &hello, true), say(&addresses[0], &hello, true));
    let patience = Duration::from_millis(50);
    let error = Owner::new(0, 3).connect(&mut listeners[0], &addresses, patience).unwrap_err();
    let SetupError::Missing { ranks, refused, .. } = error else { panic!("{error}") };
    assert_eq!(ranks, [2]);
    assert!(refused[0].contains("rank 1 is here already"), "{refused:?}");
}

#[test]
fn a_doorbell_that_blocks_is_refused() {
    let refused = disturbed(|address| {
        let socket = dial(address);
        let owner = Owner::new(1, 2);
        let blocks = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let files = [owner.inbox.fd(), owner.outbox.fd(), blocks.as_fd()];
        send(&socket, &owner.hello.encode(), &files).unwrap();
        vec![socket]
    });
    assert!(refused[0].contains("HELLO, doorbell"), "{refused:?}");
}

/// Answers rank 1 in the place of rank 0.
fn answered(answer: impl FnOnce(&OwnedFd) + Send) -> SetupError {
    let (mut listeners, addresses) = listeners(2);
    let (mut one, zero) = (listeners.pop().unwrap(), listeners.pop().unwrap());
    std::thread::scope(|scope| {
        let (listener, addresses) = (&mut one, &addresses);
        let one = scope.spawn(|| Owner::new(1, 2).connect(listener, addresses, SOON));
        let socket = loop {
            if let Ok(socket) = rustix::net::accept(zero.fd()) {
                break socket;
            }
            std::thread::yield_now();
        };
        answer(&socket);
        drop(socket);
        one.join().unwrap().unwrap_err()
    })
}

#[test]
fn wrong_answers_are_errors_that_name_the_field() {
    assert_eq!(answered(|_| {}), SetupError::HungUp { rank: 0 });
    let says = |hello: Hello| {
        let error = answered(|socket| {
            let owner = Owner::new(0, 2);
            let files = [owner.inbox.fd(), owner.outbox.fd(), owner.doorbell.as_fd()];
            send(socket, &hello.encode(), &files).unwrap();
        });
        let SetupError::WrongAnswer { rank: 0, bad } = error else { panic!("{error}") };
        bad.place
    };
    let good = Owner::new(0, 2).hello;
    assert_eq!(says(Hello { rank: 1, ..good }), "HELLO, rank");
    assert_eq!(says(Hello { job: [0, 0], ..good }), "HELLO, job");
    assert_eq!(says(Hello { ranks: 4, ..good }), "HELLO, ranks");
}

/// A process of another user reaches the socket (abstract names have no permissions), and gets no
/// further.
#[test]
fn another_user_is_refused() {
    if !alone(module_path!(), "another_user_is_refused", "true") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("not checked: only root can become another user");
        return;
    }
    let (mut listeners, addresses) = listeners(2);
    let socket = new_socket().unwrap();
    let name = SocketAddrUnix::new_abstract_name(addresses[0].as_bytes()).unwrap();
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe {
            let is_other = libc::setresuid(65534, 65534, 65534) == 0;
            let code = i32::from(!is_other || rustix::net::connect(&socket, &name).is_err());
            libc::_exit(code);
        }
    }
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let patience = Duration::from_millis(50);
    let error = Owner::new(0, 2).connect(&mut listeners[0], &addresses, patience).unwrap_err();
    let SetupError::Missing { refused, .. } = error else { panic!("{error}") };
    assert_eq!(refused, [format!("process {child} (it belongs to user 65534, not 0)")]);
}
