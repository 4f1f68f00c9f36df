//! The fabric over TCP passes the suite that every fabric passes.

mod common;

use taffrail_fabric::conformance::Bench;
use taffrail_tcp::{Config, TcpFabric};

struct Sockets;

impl Bench for Sockets {
    type Fabric = TcpFabric;

    fn mesh(&self, n: usize) -> Vec<TcpFabric> {
        taffrail_tcp::over_tcp(n as u32, Config::default()).expect("few connections")
    }
}

taffrail_fabric::conformance!(@each Sockets;
    messages { identity, heads, sizes, too_long, gather_every_split, gather_long, to_itself }
    order { interleaved_peers, threads }
    pressure { ends_in_busy, busy_with_itself, busy_is_between_two }
    waiting { idle_sleeps, wakes, descriptor, no_lost_wake_up, many_wakers }
    closing { disconnected }
    later { unchanged, each_ends_once, a_peer_goes }
    bodies { in_part, disconnected }
    links { drained, flushed }
);

taffrail_fabric::conformance!(@memory Sockets);
