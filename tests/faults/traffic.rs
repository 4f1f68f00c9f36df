//! A worker that talks to all others in every way there is, checks every byte, and goes on with
//! those that are left when others die.

mod flow;
mod lanes;
mod reach;

use super::family::{orders, say};
use super::{LONG, pattern};
use flow::{Inflow, Outflow};
use lanes::{BYE, KEYS, Lane};
use reach::Reach;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use taffrail::{Endpoint, Error, Job, Pattern, Rank};

/// What is agreed upon by all workers.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// Bit `l`: lane `l` is in use.
    pub lanes: u64,
}

/// Everything a worker has to do with one other.
struct Peer {
    rank: Rank,
    out: Vec<Outflow>,
    into: Vec<Inflow>,
    reach: Option<Reach>,
    life: Life,
    bye_said: bool,
    bye_heard: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Alive,
    /// An operation has failed; the others are being ended.
    Failing,
    /// Everything with it has ended with an error.
    Gone,
}

pub fn work() {
    let variable = |name: &str| std::env::var(name).expect("set by the parent");
    let plan = Plan {
        seed: variable("FAULTS_SEED").parse().expect("a number"),
        lanes: variable("FAULTS_LANES").parse().expect("a number"),
    };
    let orders = orders();
    let opened = Job::from_env().and_then(|mut job| job.endpoint());
    let endpoint = match opened {
        Ok(endpoint) => endpoint,
        Err(error @ (Error::Setup(_) | Error::Bootstrap(_))) => {
            return say(format_args!("setup {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    say(format_args!("up"));
    Mesh::new(endpoint, plan).run(&orders);
    say(format_args!("bye"));
}

struct Mesh {
    // Ends before the buffers that it may still write to.
    endpoint: Endpoint,
    plan: Plan,
    peers: Vec<Peer>,
    heard: Arc<Mutex<lanes::Heard>>,
    exposed: reach::Exposed,
    stopping: bool,
    /// What the lanes with the living have counted when a peer was lost.
    since_loss: Option<(Rank, u64)>,
}

impl Mesh {
    fn new(mut endpoint: Endpoint, plan: Plan) -> Self {
        let heard = lanes::listen(&mut endpoint, plan);
        let exposed = reach::Exposed::new(&mut endpoint, plan);
        let me = endpoint.rank();
        let others = (0..endpoint.size()).filter(|&rank| rank != me);
        let mut peers: Vec<Peer> = others
            .map(|rank| Peer {
                rank,
                out: plan.used().map(|lane| Outflow::new(lane, plan)).collect(),
                into: plan.used().map(|lane| Inflow::new(lane, plan)).collect(),
                reach: None,
                life: Life::Alive,
                bye_said: false,
                bye_heard: false,
            })
            .collect();
        for peer in &mut peers {
            if let Err(error) = exposed.tell(&mut endpoint, peer.rank) {
                peer.lost(&error);
            }
        }
        Mesh { endpoint, plan, peers, heard, exposed, stopping: false, since_loss: None }
    }

    fn run(&mut self, orders: &Receiver<String>) {
        let start = Instant::now();
        loop {
            match orders.try_recv() {
                Ok(order) if order == "stop" => self.stopping = true,
                Ok(order) => panic!("no order {order:?}"),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            for k in 0..self.peers.len() {
                self.step(k);
            }
            self.endpoint.progress();
            self.look_at_the_living();
            if self.stopping && self.peers.iter().all(Peer::is_done) {
                return self.finish();
            }
            assert!(start.elapsed() < LONG * 2 / 3, "stuck: {}", self.state());
            // The others need the processor, too.
            std::thread::yield_now();
        }
    }

    fn step(&mut self, k: usize) {
        let Mesh { endpoint, peers, exposed, heard, plan, .. } = self;
        let peer = &mut peers[k];
        let result = match peer.life {
            Life::Gone => return,
            Life::Alive => peer.go_on(endpoint, exposed, heard, *plan, self.stopping),
            Life::Failing => peer.end(endpoint),
        };
        match result {
            Ok(()) => {}
            Err(error) => peer.lost(&error),
        }
        if peer.life == Life::Failing && peer.is_quiet() {
            let rank = peer.rank;
            peer.is_refused(endpoint);
            peer.life = Life::Gone;
            self.since_loss = Some((rank, self.count()));
            say(format_args!("lost {rank}"));
        }
    }

    /// How much was moved between us and the living.
    fn count(&self) -> u64 {
        let living = self.peers.iter().filter(|peer| peer.life == Life::Alive);
        living
            .flat_map(|p| p.out.iter().map(Outflow::count).chain(p.into.iter().map(Inflow::count)))
            .sum()
    }

    /// Tells the parent when traffic with the living has gone on after a loss.
    fn look_at_the_living(&mut self) {
        let Some((lost, before)) = self.since_loss else { return };
        let living = self.peers.iter().filter(|peer| peer.life == Life::Alive).count() as u64;
        let enough = living * self.plan.used().count() as u64;
        if self.count() >= before.min(self.count()) + enough || living == 0 || self.stopping {
            say(format_args!("on {lost}"));
            self.since_loss = None;
        }
    }

    fn finish(&mut self) {
        for peer in &mut self.peers {
            for flow in &mut peer.into {
                flow.cancel(&mut self.endpoint, peer.rank);
            }
        }
    }

    fn state(&self) -> String {
        let state = |peer: &Peer| {
            let out: Vec<_> = peer.out.iter().map(Outflow::state).collect();
            let into: Vec<_> = peer.into.iter().map(Inflow::state).collect();
            format!(
                "{} {:?} out {out:?} in {into:?} bye {} {}",
                peer.rank, peer.life, peer.bye_said, peer.bye_heard
            )
        };
        self.peers.iter().map(state).collect::<Vec<_>>().join("\n")
    }
}

impl Peer {
    /// A turn with a peer that lives, as far as we know.
    fn go_on(
        &mut self,
        endpoint: &mut Endpoint,
        exposed: &reach::Exposed,
        heard: &Mutex<lanes::Heard>,
        plan: Plan,
        stopping: bool,
    ) -> Result<(), Error> {
        for flow in &mut self.into {
            flow.step(endpoint, self.rank, true)?;
        }
        for flow in &mut self.out {
            flow.step(endpoint, self.rank, !stopping)?;
        }
        match &mut self.reach {
            Some(reach) => reach.step(endpoint, exposed, self.rank, !stopping)?,
            None if endpoint.probe((self.rank, KEYS))?.is_some() => {
                self.reach = Some(Reach::new(endpoint, self.rank, plan)?);
            }
            None => {}
        }
        if stopping && !self.bye_said && self.is_quiet_out() {
            let active = self.out.iter().find(|flow| flow.lane() == Lane::Active);
            let count = active.map_or(0, Outflow::count);
            endpoint.send((self.rank, BYE), &count.to_le_bytes())?;
            self.bye_said = true;
        }
        if !self.bye_heard && endpoint.probe((self.rank, BYE))?.is_some() {
            let mut count = [0; 8];
            endpoint.recv((self.rank, BYE), &mut count)?;
            let heard = heard.lock().unwrap().of(self.rank);
            assert_eq!(heard, u64::from_le_bytes(count), "active messages of rank {}", self.rank);
            self.bye_heard = true;
        }
        Ok(())
    }

    /// A turn with a peer that is gone: nothing new, and what is under way ends.
    fn end(&mut self, endpoint: &mut Endpoint) -> Result<(), Error> {
        for flow in &mut self.into {
            flow.step(endpoint, self.rank, false)?;
        }
        for flow in &mut self.out {
            flow.step(endpoint, self.rank, false)?;
        }
        match &mut self.reach {
            Some(reach) => reach.end(endpoint, self.rank),
            None => Ok(()),
        }
    }

    /// An operation with the peer has failed: the only failure there may be is its own.
    fn lost(&mut self, error: &Error) {
        match error {
            Error::PeerFailed { rank, .. } if *rank == self.rank => {}
            other => panic!("with rank {}: {other}", self.rank),
        }
        if self.life == Life::Alive {
            self.life = Life::Failing;
        }
        if let Some(reach) = &mut self.reach {
            reach.give_up();
        }
    }

    fn is_quiet_out(&self) -> bool {
        self.out.iter().all(Outflow::is_quiet) && self.reach.as_ref().is_none_or(Reach::is_quiet)
    }

    fn is_quiet(&self) -> bool {
        self.is_quiet_out() && self.into.iter().all(Inflow::is_quiet)
    }

    fn is_done(&self) -> bool {
        self.life == Life::Gone || self.life == Life::Alive && self.bye_said && self.bye_heard
    }

    /// Whole messages that the dead has left are delivered; beyond them every operation fails.
    fn is_refused(&mut self, endpoint: &mut Endpoint) {
        // The kernel refuses to read a dying process before it says that it has ended.
        let start = Instant::now();
        while endpoint.probe((self.rank, 0xdead)).is_ok() {
            assert!(start.elapsed() < LONG, "rank {} is gone, and nobody says so", self.rank);
        }
        for flow in &mut self.into {
            flow.take_rest(endpoint, self.rank);
        }
        let rank = self.rank;
        let refused = |what: &str, result: Result<(), Error>| match result {
            Err(Error::PeerFailed { rank: of, .. }) if of == rank => {}
            other => panic!("{what} with rank {rank}, which is gone: {other:?}"),
        };
        refused("a send", endpoint.send((rank, 5), b"late"));
        refused("a long send", endpoint.send((rank, 5), &[1; 300_000]));
        refused("a synchronous send", endpoint.send_sync((rank, 5), b"late"));
        refused("an active message", endpoint.send_am(rank, 1, 0, b"late"));
        refused("a receive", endpoint.recv((rank, 0xdead), &mut [0; 8]).map(drop));
        refused("a view", endpoint.recv_view((rank, 0xdead)).map(drop));
        refused("a probe", endpoint.probe((rank, 0xdead)).map(drop));
        if let Some(reach) = &self.reach {
            reach.is_refused(endpoint, rank);
        }
        let buffer = endpoint.alloc(100).expect("memory");
        // SAFETY: nobody gets the key.
        let key = unsafe { endpoint.remote_buffer(rank, &buffer) };
        refused("a key of a buffer", key.map(drop));
        refused("a loan", endpoint.loan((rank, 5), buffer));
    }
}

impl Plan {
    fn used(self) -> impl Iterator<Item = Lane> {
        lanes::ALL.into_iter().filter(move |&lane| self.lanes & 1 << lane as u32 != 0)
    }

    /// The contents of a message.
    fn key(self, from: Rank, to: Rank, lane: u64, number: u64) -> u64 {
        pattern::key(&[self.seed, from.into(), to.into(), lane, number])
    }
}

/// A receive of a lane, in context 0.
fn of(rank: Rank, lane: Lane) -> Pattern {
    Pattern::new(rank, lane as u64)
}
