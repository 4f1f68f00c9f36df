//! Round trips between two processes: over a plain socket, and over the fabric with a connection made beforehand or made
//! by itself, in turn, so that one load concerns all. `cargo bench -p taffrail-tcp --bench round_trip`.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use taffrail_fabric::{
    Body, Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Refused, Sink, Source, Take, Token,
};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Connection, Contact, Interface, Listener, Secret, TcpFabric};

const ROUNDS: usize = 300;
const TRIPS: usize = 50;
const LENGTHS: [usize; 3] = [8, 1024, 65_536];

/// Counts the bytes that have come.
#[derive(Default)]
struct Count(usize, Vec<u8>);

impl Sink for Count {
    fn message(&mut self, _: PeerId, _: Head, body: Body<'_>) -> Take {
        let left = body.len() - body.here().len();
        self.0 += usize::from(left == 0);
        if left == 0 {
            return Take::Done;
        }
        self.1.resize(left, 0);
        // SAFETY: it is not touched before `moved`.
        Take::Rest(unsafe { taffrail_fabric::UserBuf::new(self.1.as_mut_ptr(), left) }, Token(0))
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {
        self.0 += 1;
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        panic!("{peer}: {event:?}");
    }
}

/// Two processes can send each other messages this way.
trait Way {
    fn send(&mut self, bytes: &[u8]);
    fn receive(&mut self, len: usize);
}

impl Way for TcpStream {
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    fn receive(&mut self, len: usize) {
        let (mut got, mut buffer) = (0, vec![0; len]);
        while got < len {
            match self.read(&mut buffer[got..]) {
                Ok(0) => panic!("the other process has ended"),
                Ok(len) => got += len,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
}

impl Way for (TcpFabric, Count) {
    fn send(&mut self, bytes: &[u8]) {
        let to = PeerId(1 - self.0.me().0);
        while self.0.send(to, Head::default(), Source::Bytes(bytes)) == Err(Refused::Busy) {
            self.0.poll(&mut self.1);
        }
    }

    fn receive(&mut self, _: usize) {
        while self.1.0 == 0 {
            self.0.poll(&mut self.1);
        }
        self.1.0 -= 1;
    }
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // On one core, or where it is not allowed, the figures are what they are.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn prepared(me: u32, stream: TcpStream) -> TcpFabric {
    let (peer, incarnation) = (PeerId(1 - me), Incarnation(0));
    let connections = vec![Connection { peer, incarnation, socket: stream.into() }];
    TcpFabric::new(PeerId(me), 2, connections, Config::DEFAULT).expect("a connected stream")
}

fn main() {
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
        let there = listener.accept().expect("it has connected").0;
        for stream in [&here, &there] {
            stream.set_nodelay(true).expect("a socket");
            stream.set_nonblocking(true).expect("a socket");
        }
        (here, there)
    };
    let (plain, beforehand) = (pair(), pair());
    let listeners = [0, 1]
        .map(|_| Listener::bind(&Interface::Address([127, 0, 0, 1].into()), 0).expect("a port"));
    let contacts: Vec<_> = listeners
        .iter()
        .map(|one| Contact { address: Some(one.address()), incarnation: Incarnation(0) })
        .collect();
    // SAFETY: there is one thread.
    let child = unsafe { libc::fork() };
    let me = u32::from(child == 0);
    pin(me as usize);
    let [zero, one] = listeners;
    let listener = if me == 0 { zero } else { one };
    let secret = Secret::new([1; 32]);
    let identity = Identity { job: [1; 16], secret, rank: me, incarnation: Incarnation(0) };
    let lasting = TcpFabric::open(identity, listener, contacts, Config::DEFAULT);
    let lasting = lasting.expect("few ranks");
    let choose = |pair: (TcpStream, TcpStream)| if me == 0 { pair.0 } else { pair.1 };
    let mut ways: [(&str, Box<dyn Way>); 3] = [
        ("socket", Box::new(choose(plain))),
        ("made beforehand", Box::new((prepared(me, choose(beforehand)), Count::default()))),
        ("lasting", Box::new((lasting, Count::default()))),
    ];
    for len in LENGTHS {
        let bytes = vec![1; len];
        let mut times = [const { Vec::new() }; 3];
        for round in 0..ROUNDS {
            for ((_, way), times) in ways.iter_mut().zip(&mut times) {
                for _ in 0..TRIPS {
                    let start = Instant::now();
                    if me == 0 {
                        way.send(&bytes);
                        way.receive(len);
                    } else {
                        way.receive(len);
                        way.send(&bytes);
                    }
                    if round > 0 {
                        times.push(start.elapsed().as_nanos() as u64);
                    }
                }
            }
        }
        if me == 0 {
            let mut fifth = 0.0;
            for ((name, _), times) in ways.iter().zip(&mut times) {
                times.sort_unstable();
                let at = |percent: usize| times[times.len() * percent / 100] as f64 / 1000.0;
                fifth = if *name == "socket" { at(5) } else { fifth };
                let (low, middle) = (at(5), at(50));
                println!(
                    "{len:6} B  {name:16} 5 %: {low:8.2} us ({:.2}), 50 %: {middle:8.2} us",
                    low / fifth
                );
            }
        }
    }
    drop(ways);
    if child > 0 {
        let mut status = 0;
        // SAFETY: it is our child, and the status is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
    }
}
