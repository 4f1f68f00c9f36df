//! How ranks of the conformance suite are connected.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use taffrail_fabric::conformance::Member;
use taffrail_fabric::{Incarnation, PeerId};
use taffrail_tcp::{Config, Connection, TcpFabric};

/// Sockets that a member listens at and connects with.
pub trait Sockets {
    type Listener;
    type Stream: Read + Write + Into<OwnedFd>;
    fn listen(member: &Member<'_>) -> (Self::Listener, String);
    fn accept(listener: &Self::Listener) -> Self::Stream;
    fn connect(address: &str) -> Self::Stream;
}

pub enum Tcp {}

impl Sockets for Tcp {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(_: &Member<'_>) -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        (listener, address)
    }

    fn accept(listener: &TcpListener) -> TcpStream {
        listener.accept().expect("a rank that connects").0
    }

    fn connect(address: &str) -> TcpStream {
        TcpStream::connect(address.parse::<SocketAddr>().expect("an address"))
            .expect("a rank that listens")
    }
}

pub enum Unix {}

impl Sockets for Unix {
    type Listener = UnixListener;
    type Stream = UnixStream;

    fn listen(_: &Member<'_>) -> (UnixListener, String) {
        let name = format!("taffrail-tcp-test-{}-{:x}", std::process::id(), fastrand::u64(..));
        let address = UnixAddr::from_abstract_name(&name).expect("a name");
        (UnixListener::bind_addr(&address).expect("a free name"), name)
    }

    fn accept(listener: &UnixListener) -> UnixStream {
        listener.accept().expect("a rank that connects").0
    }

    fn connect(name: &str) -> UnixStream {
        let address = UnixAddr::from_abstract_name(name).expect("a name");
        UnixStream::connect_addr(&address).expect("a rank that listens")
    }
}

/// The fabric of this member. A rank connects to the lower ones, and says which it is.
pub fn join<S: Sockets>(member: &mut Member<'_>, config: Config) -> TcpFabric {
    let (listener, mine) = S::listen(member);
    let (me, ranks) = (member.rank(), member.size());
    let addresses = member.exchange(mine.as_bytes());
    let mut connections = Vec::new();
    let mut add = |peer, stream: S::Stream| {
        let socket = stream.into();
        connections.push(Connection {
            peer: PeerId(peer),
            incarnation: Incarnation::default(),
            socket,
        });
    };
    for (rank, address) in (0..me).zip(&addresses) {
        let mut stream = S::connect(std::str::from_utf8(address).expect("addresses are text"));
        stream.write_all(&me.to_le_bytes()).expect("a rank that listens");
        add(rank, stream);
    }
    for _ in me + 1..ranks {
        let mut stream = S::accept(&listener);
        let mut rank = [0; 4];
        stream.read_exact(&mut rank).expect("the rank that connects");
        add(u32::from_le_bytes(rank), stream);
    }
    // Nobody begins, or dies, before all are connected.
    member.exchange(&[]);
    TcpFabric::new(PeerId(me), ranks, connections, config).expect("connected sockets")
}

/// The suite that every fabric passes, over this mesh of one process, and over these sockets between processes.
#[macro_export]
macro_rules! suite_over {
    ($mesh:path, $sockets:ty) => {
use taffrail_fabric::Fault;
use taffrail_fabric::conformance::{Bench, Processes, Member};
use taffrail_tcp::{Config, TcpFabric};

struct Sockets;

/// Few messages come in one piece.
const CONFIG: Config = Config { whole: 64, max_segments: 1024, ..Config::DEFAULT };

impl Bench for Sockets {
    type Fabric = TcpFabric;

    fn mesh(&self, n: usize) -> Vec<TcpFabric> {
        $mesh(n as u32, CONFIG).expect("few connections")
    }
}

impl Processes for Sockets {
    fn join(&self, member: &mut Member<'_>) -> TcpFabric {
        common::join::<$sockets>(member, CONFIG)
    }

    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Lost(_))
    }
}

taffrail_fabric::conformance!(@messages Sockets);

taffrail_fabric::conformance!(@memory Sockets);

mod death {
    use super::*;

    #[test]
    #[ignore = "run by the other tests here, as a peer process of theirs"]
    fn child() {
        taffrail_fabric::conformance::run_child(&Sockets);
    }

    taffrail_fabric::conformance_processes!(@each Sockets; while_sending, while_receiving, while_still,
        while_stopped, while_asleep, in_good_order);
}
    };
}
