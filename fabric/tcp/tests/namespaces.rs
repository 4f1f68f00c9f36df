//! Two ranks in network namespaces of their own, and a cable between them that is pulled out.

#[path = "common/lazy.rs"]
mod lazy;
#[path = "common/raw.rs"]
mod raw;
#[path = "common/traffic.rs"]
mod traffic;

use lazy::{contact, identity};
use raw::{Event, Notes};
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Fault, Head, LinkEvent, PeerId, Source};
use taffrail_tcp::{Config, Listener, TcpFabric};
use traffic::End;

/// Two namespaces with a cable between them.
struct Nodes([String; 2]);

fn ip(words: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Nodes {
    /// `None` where that is not permitted.
    fn new(name: &str, network: &str) -> Option<Nodes> {
        let names = [0, 1].map(|node| format!("tt{}{name}{node}", std::process::id()));
        if !ip(&format!("netns add {}", names[0])) {
            println!(
                "skipped: network namespaces are not permitted here, or there is no ip command"
            );
            return None;
        }
        let nodes = Nodes(names);
        let [a, b] = &nodes.0;
        let all = [
            format!("netns add {b}"),
            format!("-n {a} link add eth0 type veth peer name eth0 netns {b}"),
            format!("-n {a} addr add {network}.1/24 dev eth0"),
            format!("-n {b} addr add {network}.2/24 dev eth0"),
            format!("-n {a} link set eth0 up"),
            format!("-n {b} link set eth0 up"),
        ];
        all.iter().for_each(|words| assert!(ip(words), "ip {words}"));
        Some(nodes)
    }

    /// Runs this in the first and in the second namespace.
    fn run(&self, work: impl Fn(usize, Member) + Sync) {
        let (to_zero, of_one) = channel();
        let (to_one, of_zero) = channel();
        let ready = Arc::new(Barrier::new(2));
        let mut ends = [Some((to_one, of_one)), Some((to_zero, of_zero))];
        std::thread::scope(|scope| {
            for (node, end) in ends.iter_mut().enumerate() {
                let (send, recv) = end.take().expect("two");
                let (work, ready) = (&work, ready.clone());
                scope.spawn(move || {
                    let path = format!("/run/netns/{}", self.0[node]);
                    let file = File::open(path).expect("it was made");
                    let kind = Some(rustix::thread::LinkNameSpaceType::Network);
                    rustix::thread::move_into_link_name_space(
                        std::os::fd::AsFd::as_fd(&file),
                        kind,
                    )
                    .expect("what may be made may be entered");
                    work(node, Member { send, recv, ready });
                });
            }
        });
    }

    fn pull(&self) {
        assert!(ip(&format!("-n {} link set eth0 down", self.0[1])));
    }

    fn plug(&self) {
        assert!(ip(&format!("-n {} link set eth0 up", self.0[1])));
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| {
            ip(&format!("netns del {name}"));
        });
    }
}

struct Member {
    send: Sender<std::net::SocketAddr>,
    recv: Receiver<std::net::SocketAddr>,
    ready: Arc<Barrier>,
}

impl Member {
    /// The fabric of this node, which listens at the interface of this name.
    fn open(&self, node: usize, config: Config) -> TcpFabric {
        let interface = "eth0".parse().expect("a name");
        let deadline = Instant::now() + Duration::from_secs(10);
        // An address takes a moment to be there.
        let listener = loop {
            match Listener::bind(&interface, 0) {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        let mine = listener.address();
        self.send.send(mine).expect("the other node");
        let other = self.recv.recv().expect("the other node");
        let mut contacts = [contact(mine, 0), contact(other, 0)];
        if node == 1 {
            contacts.swap(0, 1);
        }
        TcpFabric::open(identity(node as u32, 0), listener, contacts.to_vec(), config)
            .expect("a rank")
    }
}

const CONFIG: Config = Config {
    whole: 300,
    heartbeat: Duration::from_secs(1),
    patience: Duration::from_secs(60),
    ..Config::DEFAULT
};

#[test]
fn a_cable_that_is_pulled_in_the_middle_of_messages_and_plugged_in_again_is_not_noticed() {
    let Some(nodes) = Nodes::new("h", "10.79.1") else { return };
    let seed = fastrand::u64(..);
    const QUOTA: u32 = 2000;
    nodes.run(|node, member| {
        let mut fabric = member.open(node, CONFIG);
        let mut end = End::new(seed, 1 - node as u32, QUOTA);
        let deadline = Instant::now() + Duration::from_secs(60);
        // For less than a heartbeat, and for longer, so that the kernel gives the connection up.
        let mut pauses = vec![Duration::from_millis(3500), Duration::from_millis(200)];
        let mut pulled: Option<(Instant, Duration)> = None;
        while !(end.is_done(QUOTA) && pulled.is_none() && fabric.flushed(PeerId(1 - node as u32))) {
            end.send(&mut fabric);
            fabric.poll(&mut end);
            if node == 0 {
                let is_time = end.received() >= QUOTA / 4 * (3 - pauses.len() as u32);
                match pulled {
                    None if is_time && !pauses.is_empty() => {
                        nodes.pull();
                        pulled = pauses.pop().map(|pause| (Instant::now(), pause));
                    }
                    Some((since, pause)) if since.elapsed() >= pause => {
                        nodes.plug();
                        pulled = None;
                    }
                    _ => {}
                }
            }
            assert!(Instant::now() < deadline, "seed {seed}: stuck at node {node}: {end:?}");
        }
        member.ready.wait();
    });
}

#[test]
fn a_cable_that_is_pulled_for_good_breaks_the_link_in_time_whether_there_is_traffic_or_not() {
    for busy in [false, true] {
        let Some(nodes) = Nodes::new(if busy { "b" } else { "i" }, "10.79.2") else { return };
        let patience = Duration::from_secs(2);
        nodes.run(|node, member| {
            let mut fabric = member.open(node, Config { patience, ..CONFIG });
            let mut notes = Notes::default();
            let peer = PeerId(1 - node as u32);
            lazy::send(&mut fabric, &mut notes, peer, Head::default(), b"hello");
            while notes.events.is_empty() || !fabric.flushed(peer) {
                fabric.poll(&mut notes);
            }
            member.ready.wait();
            if node == 0 {
                nodes.pull();
            }
            member.ready.wait();
            let start = Instant::now();
            notes.take();
            while notes.events.is_empty() {
                if busy {
                    let _ = fabric.send(peer, Head::default(), Source::Bytes(b"anybody?"));
                }
                fabric.poll(&mut notes);
                assert!(start.elapsed() < Duration::from_secs(60), "nothing was noticed");
            }
            let took = start.elapsed();
            println!("noticed after {took:?}, with traffic: {busy}");
            let events = notes.take();
            assert!(
                matches!(&events[..], [Event::Link(_, LinkEvent::Broken(Fault::Lost(_)))]),
                "{events:?}"
            );
            // The heartbeat (probes are a second apart), the patience, an attempt that was begun before its end; and a
            // machine that is loaded.
            assert!(took >= patience, "{took:?}");
            assert!(took < Duration::from_secs(4 + 2 + 1 + 8), "{took:?}");
            member.ready.wait();
        });
    }
}
