//! A proxy that cuts the connections that it carries.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Carries connections to a target, with a limit on the bytes of each connection, both directions together.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// After how many bytes the next connections are cut. `None`: never.
    bytes: Mutex<Option<(Range<usize>, fastrand::Rng)>>,
    /// What is left to those that are there.
    budgets: Mutex<Vec<Arc<AtomicI64>>>,
    cuts: AtomicUsize,
    is_over: AtomicBool,
}

impl Proxy {
    pub fn start(target: SocketAddr) -> Proxy {
        Proxy::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), target)
    }

    /// At an address at which there was one before.
    pub fn start_at(address: SocketAddr, target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let acceptor = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if theirs.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(target) else { continue };
                carry(client, server, &theirs);
            }
        });
        Proxy { address, shared, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// New connections are cut after a random number of bytes.
    pub fn cut_after(&self, bytes: Range<usize>, seed: u64) {
        let random = fastrand::Rng::with_seed(seed);
        *self.shared.bytes.lock().expect("no panic") = Some((bytes, random));
    }

    /// Cuts each open connection after `bytes` more bytes.
    pub fn cut_after_more(&self, bytes: i64) {
        for budget in &*self.shared.budgets.lock().expect("no panic") {
            budget.store(bytes, Ordering::Relaxed);
        }
    }

    pub fn carry_all(&self) {
        *self.shared.bytes.lock().expect("no panic") = None;
    }

    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        // From now on connections are refused.
        self.acceptor.take().map(JoinHandle::join);
    }
}

fn carry(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    let bytes = match &mut *shared.bytes.lock().expect("no panic") {
        Some((range, random)) => random.usize(range.clone()) as i64,
        None => i64::MAX,
    };
    let budget = Arc::new(AtomicI64::new(bytes));
    shared.budgets.lock().expect("no panic").push(budget.clone());
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a socket");
    }
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone().expect("few"), to.try_clone().expect("few"));
        let (budget, shared) = (budget.clone(), shared.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 10_000];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                let left = budget.fetch_sub(len as i64, Ordering::Relaxed);
                let len = (len as i64).min(left.max(0)) as usize;
                if to.write_all(&buffer[..len]).is_err() {
                    break;
                }
                if left <= len as i64 {
                    shared.cuts.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
