//! What makes a fabric, and what becomes of it in a forked child.

#[path = "common/raw.rs"]
mod raw;

use raw::{Event, Notes, connection, frame, head, rank_0};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use taffrail_fabric::{Fabric, Fault, Head, Incarnation, PeerId, Refused, Source};
use taffrail_tcp::{Config, Connection, SetupError, TcpFabric};

fn refused(socket: OwnedFd) -> String {
    let connections =
        vec![Connection { peer: PeerId(1), incarnation: Incarnation::default(), socket }];
    match TcpFabric::new(PeerId(0), 2, connections, Config::default()) {
        Err(error @ SetupError::NotAStream { rank: 1, .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn what_is_no_connected_stream_is_refused() {
    refused(std::fs::File::open("/dev/null").unwrap().into());
    refused(UdpSocket::bind("127.0.0.1:0").unwrap().into());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    refused(listener.into());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = stream.try_clone().unwrap();
    let connections = vec![Connection {
        peer: PeerId(1),
        incarnation: Incarnation::default(),
        socket: stream.into(),
    }];
    TcpFabric::new(PeerId(0), 2, connections, Config::default()).expect("a connected stream");
    assert!(other.nodelay().unwrap(), "short messages would wait");
}

#[test]
fn ranks_that_are_none_are_refused_and_ranks_without_a_connection_have_none() {
    let pair = || UnixStream::pair().unwrap();
    let new = |connections| TcpFabric::new(PeerId(1), 3, connections, Config::default()).err();
    for rank in [1, 3, u32::MAX] {
        let error = new(vec![connection(rank, 0, pair().0)]);
        assert_eq!(error, Some(SetupError::Rank { rank, me: 1, ranks: 3 }));
    }
    let twice = vec![connection(2, 0, pair().0), connection(2, 0, pair().0)];
    assert_eq!(new(twice), Some(SetupError::Twice { rank: 2 }));
    let mut fabric = TcpFabric::new(PeerId(1), 3, vec![], Config::default()).unwrap();
    let vacant = fabric.send(PeerId(2), Head::default(), Source::Bytes(b"anybody?"));
    assert_eq!(vacant, Err(Refused::Failed(Fault::Vacant)));
    let ((here, _there), mut notes) = (pair(), Notes::default());
    fabric.add_connection(connection(2, 0, here)).unwrap();
    assert!(fabric.add_connection(connection(1, 0, pair().0)).is_err());
    notes.settle(&mut fabric);
    let up = taffrail_fabric::LinkEvent::Up(Incarnation(0));
    assert_eq!(notes.take(), [Event::Link(2, up)]);
    assert!(fabric.send(PeerId(2), Head::default(), Source::Bytes(b"you!")).is_ok());
}

#[test]
fn a_forked_child_leaves_without_a_word_and_the_parent_goes_on() {
    let (mut fabric, mut ends) = rank_0(1, Config::default());
    let mut notes = Notes::default();
    // SAFETY: the child calls what neither allocates nor locks in other threads' stead, and ends at once.
    match unsafe { libc::fork() } {
        0 => {
            fabric.abandon_in_child();
            drop(fabric);
            // SAFETY: the child ends without the test harness's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: it is our child, and the status is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    ends[0].set_nonblocking(true).unwrap();
    assert!(ends[0].read(&mut [0]).is_err(), "neither a goodbye nor an end");
    ends[0].write_all(&frame(1, 1, b"still here?")).unwrap();
    notes.settle(&mut fabric);
    assert_eq!(notes.take(), [Event::Message(1, head(1, 1), b"still here?".to_vec(), 0)]);
    fabric.send(PeerId(1), head(1, 2), Source::Bytes(b"yes")).unwrap();
    let mut bytes = vec![0; 27];
    ends[0].read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, frame(1, 2, b"yes"));
}

#[test]
fn a_child_that_keeps_the_descriptors_does_not_keep_an_ended_link_in_the_set() {
    // What a fork without exec does: the connection is open in another process as well.
    let (here, mut there) = UnixStream::pair().unwrap();
    let copy = here.try_clone().unwrap();
    let mut fabric =
        TcpFabric::new(PeerId(0), 2, vec![connection(1, 0, here)], Config::default()).unwrap();
    let mut notes = Notes::default();
    fabric.disconnect(PeerId(1), Fault::Died);
    notes.settle(&mut fabric);
    notes.take();
    there.write_all(&frame(1, 1, b"too late")).unwrap();
    notes.settle(&mut fabric);
    assert_eq!(notes.take(), []);
    use taffrail_fabric::{Arming, Wait};
    assert_eq!(fabric.arm(), Arming::Armed, "a link that is gone wakes nobody");
    drop(copy);
}
