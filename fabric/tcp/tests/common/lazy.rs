//! Fabrics that make their connections by themselves.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::net::SocketAddr;
use taffrail_fabric::conformance::Member;
use taffrail_fabric::{
    Body, Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Refused, Sink, Source, Take, Token,
};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Contact, Interface, Listener, Secret, TcpFabric};

pub fn identity(rank: u32, incarnation: u32) -> Identity {
    let incarnation = Incarnation(incarnation);
    Identity { job: [7; 16], secret: Secret::new([42; 32]), rank, incarnation }
}

pub fn listener() -> Listener {
    Listener::bind(&Interface::Address([127, 0, 0, 1].into()), 0).expect("a port")
}

pub fn contact(address: SocketAddr, incarnation: u32) -> Contact {
    Contact { address: Some(address), incarnation: Incarnation(incarnation) }
}

/// `n` fabrics in this process, without any connection.
pub fn fabrics(n: u32, config: Config) -> Vec<TcpFabric> {
    let listeners: Vec<_> = (0..n).map(|_| listener()).collect();
    let contacts: Vec<_> = listeners.iter().map(|one| contact(one.address(), 0)).collect();
    let open = |(rank, listener)| {
        TcpFabric::open(identity(rank, 0), listener, contacts.clone(), config).expect("few ranks")
    };
    (0..n).zip(listeners).map(open).collect()
}

/// Counts messages, and expects nothing else.
#[derive(Default)]
pub struct Count(pub usize);

impl Sink for Count {
    fn message(&mut self, _: PeerId, _: Head, _: Body<'_>) -> Take {
        self.0 += 1;
        Take::Done
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent");
    }

    fn moved(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was moved");
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        panic!("{peer}: {event:?}");
    }
}

/// The fabric of this member. The first message to a rank makes the connection: everybody sends one to everybody.
pub fn join(member: &mut Member<'_>, config: Config) -> TcpFabric {
    let (me, ranks) = (member.rank(), member.size());
    let listener = listener();
    let addresses = member.exchange(listener.address().to_string().as_bytes());
    let contacts = addresses.iter().map(|address| {
        let address = std::str::from_utf8(address).expect("addresses are text");
        contact(address.parse().expect("an address"), 0)
    });
    let fabric = TcpFabric::open(identity(me, 0), listener, contacts.collect(), config);
    let mut fabric = fabric.expect("few ranks");
    let others = || (0..ranks).filter(|&rank| rank != me).map(PeerId);
    for peer in others() {
        let sent = fabric.send(peer, Head::default(), Source::Bytes(b"hello"));
        assert!(sent.is_ok(), "a message may be sent before there is a connection");
    }
    let mut count = Count::default();
    while count.0 < others().count() || !others().all(|peer| fabric.flushed(peer)) {
        fabric.poll(&mut count);
        std::thread::yield_now();
    }
    assert_eq!(count.0, others().count());
    member.exchange(&[]);
    fabric
}

/// Sends when there is room.
pub fn send(fabric: &mut TcpFabric, sink: &mut impl Sink, to: PeerId, head: Head, bytes: &[u8]) {
    loop {
        match fabric.send(to, head, Source::Bytes(bytes)) {
            Ok(_) => return,
            Err(Refused::Busy) => {
                fabric.poll(sink);
            }
            Err(refused) => panic!("{refused}"),
        }
    }
}
