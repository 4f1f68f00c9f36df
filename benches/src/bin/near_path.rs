//! One 8-byte message after another to a peer of the same node, over shared memory alone (`bare`) or over a composite of
//! shared memory and sockets: run under `valgrind --tool=callgrind` it counts instructions.

use std::time::Duration;
use taffrail_composite::Composite;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};
use taffrail_shm::{Setup, ShmFabric};
use taffrail_tcp::TcpFabric;

/// Ranks of the job, of which the last two are on this node.
const RANKS: u32 = 64;

/// Counts messages, and adds up what is in them.
#[derive(Default)]
struct Sum {
    from: u64,
    sum: u64,
}

impl Sink for Sum {
    #[inline]
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        let mut bytes = [0; 8];
        body.here().read(&mut bytes);
        self.from += u64::from(from.0);
        self.sum += u64::from_ne_bytes(bytes) ^ u64::from(head.seq);
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}

fn main() {
    let mut args = std::env::args_os().skip(1);
    let is_bare = args.next().is_some_and(|arg| arg == "bare");
    let messages = args.next().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(200_000);
    let [here, there] = lines();
    match is_bare {
        true => run(here, there, PeerId(1), messages),
        false => run(composite(here), composite(there), PeerId(RANKS - 1), messages),
    }
}

#[inline(never)]
fn run<F: Fabric>(mut here: F, mut there: F, to: PeerId, messages: u32) {
    let mut sum = Sum::default();
    for seq in 0..messages {
        let head = Head { kind: 1, seq, ..Head::default() };
        // No rank is a constant where messages are sent.
        let to = std::hint::black_box(to);
        here.send(to, head, Source::Bytes(&7u64.to_ne_bytes())).expect("room");
        assert_eq!(there.poll(&mut sum), 1);
    }
    assert_eq!(sum.from, u64::from(messages) * u64::from(here.me().0));
    assert_eq!(sum.sum, (0..u64::from(messages)).map(|seq| 7 ^ seq).sum());
}

/// Two ranks of a node, in one process.
fn lines() -> [ShmFabric; 2] {
    let setups = [0, 1].map(|rank| {
        Setup::new(taffrail_shm::Config {
            outbox_max: 1 << 20,
            patience: Duration::from_secs(60),
            ..taffrail_shm::Config::new(rank, 2)
        })
        .expect("memory and a listener")
    });
    let addresses = &setups.each_ref().map(|setup| setup.address().to_owned());
    std::thread::scope(|scope| {
        setups
            .map(|setup| scope.spawn(move || setup.connect(addresses).expect("the other rank")))
            .map(|thread| thread.join().expect("the other rank"))
    })
}

fn composite(near: ShmFabric) -> Composite<ShmFabric, TcpFabric> {
    let node = [PeerId(RANKS - 2), PeerId(RANKS - 1)];
    let me = node[near.me().index()];
    let far = TcpFabric::new(me, RANKS, Vec::new(), taffrail_tcp::Config::default());
    Composite::new(near, far.expect("a set of sockets"), RANKS, &node).expect("fabrics of one rank")
}
