//! An event logger that copies: what it takes out of rings is stable when the copy store of another node has it, too.
//!
//! One thread has the connection, and waits for the other node; the logger itself never does. While nothing can be copied
//! nothing is kept, so ranks wait.

use super::keeper::Target;
use super::packet::Packet;
use super::sending::{send_events, transact};
use super::stream::{CopyFrame, GIVE_UP, Identity, PAUSE, connect, encode_cut, identity};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Result, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use taffrail_logging::store::{Logger, Turn, Unkept};

/// What the thread is to do.
enum Order {
    /// A new connection, with all that is kept of these ranks; and what of that belongs to the copy at once.
    Open { session: u64, target: Target, stores: Vec<(u32, File, u64)>, standing: Vec<(u32, u64)> },
    /// Frames that end with a cut.
    Send { session: u64, frames: Vec<u8> },
}

/// What has come of it.
enum Outcome {
    Taken { session: u64 },
    Broken { session: u64, why: String },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be opened.
    Closed,
    /// The thread is at work.
    Waits,
    Open,
}

/// The logger's side of the connection.
pub struct Forward {
    orders: Sender<Order>,
    outcomes: Receiver<Outcome>,
    target: Option<Target>,
    session: u64,
    state: State,
    cut: u64,
    /// The ranks whose cut is under way.
    under_way: Vec<u32>,
    /// What the logger has not kept yet is part of it.
    has_new: bool,
    /// Ranks that the copy has.
    copied: BTreeSet<u32>,
    said_copied: bool,
    /// Since when all attempts have failed.
    since: Option<Instant>,
    said_lost: bool,
    again: Instant,
    said: Vec<Packet>,
}

impl Forward {
    /// Of a logger of this node, which copies to nobody before it is said where to.
    pub fn new(job: u64, secret: [u8; 32], node: u32) -> Result<Forward> {
        let (orders, to_do) = channel();
        let (done, outcomes) = channel();
        let me = identity(job, secret, node);
        let work = move || Connection { me, stream: None }.work(&to_do, &done);
        std::thread::Builder::new().name("copy".into()).spawn(work)?;
        Ok(Forward {
            orders,
            outcomes,
            target: None,
            session: 0,
            state: State::Closed,
            cut: 0,
            under_way: Vec::new(),
            has_new: false,
            copied: BTreeSet::new(),
            said_copied: false,
            since: None,
            said_lost: false,
            again: Instant::now(),
            said: Vec::new(),
        })
    }

    /// From now on everything is copied there.
    pub fn copy_to(&mut self, epoch: u64, node: u32, address: String) {
        self.target = Some(Target { epoch, node, address });
        (self.said_copied, self.said_lost) = (false, false);
        self.since = None;
        self.close(Duration::ZERO);
    }

    /// What there is to say since last time.
    pub fn take_said(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.said)
    }

    /// Waits for the other node, but not longer than this. Whether there is anything to wait for.
    pub fn wait(&mut self, limit: Duration, logger: &mut Logger, turn: &mut Turn) -> bool {
        if self.state != State::Waits {
            return false;
        }
        if let Ok(outcome) = self.outcomes.recv_timeout(limit) {
            self.take(outcome, logger, turn);
        }
        true
    }

    /// A turn of the logger.
    pub fn turn(&mut self, logger: &mut Logger) -> Turn {
        let mut turn = Turn::default();
        let Some(target) = self.target.clone() else { return turn };
        if target.address.is_empty() {
            if !std::mem::replace(&mut self.said_copied, true) {
                self.said.push(Packet::Copied { epoch: target.epoch });
            }
            return logger.turn();
        }
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.take(outcome, logger, &mut turn);
        }
        match self.state {
            State::Closed if Instant::now() >= self.again => self.open(target, logger),
            State::Open => turn = self.send(logger),
            _ => {}
        }
        self.check_lost();
        turn
    }

    fn open(&mut self, target: Target, logger: &Logger) {
        let stores = logger.stores().filter_map(|(rank, file, kept)| {
            let file = file?.try_clone().ok()?;
            Some((rank, file, kept))
        });
        let stores = stores.collect();
        self.session += 1;
        self.copied.clear();
        let standing: Vec<(u32, u64)> = logger.standing().collect();
        self.under_way = standing.iter().map(|(rank, _)| *rank).collect();
        self.has_new = false;
        self.order(Order::Open { session: self.session, target, stores, standing });
    }

    /// Sends what is new, and of sets that have nothing new what is kept.
    fn send(&mut self, logger: &mut Logger) -> Turn {
        let turn = logger.look();
        let new: Vec<u32> = logger.unkept().map(|unkept| unkept.rank).collect();
        let lacks = |rank: &u32| !self.copied.contains(rank) && !new.contains(rank);
        let standing: Vec<(u32, u64)> = logger.standing().filter(|(rank, _)| lacks(rank)).collect();
        if new.is_empty() && standing.is_empty() {
            return turn;
        }
        self.cut += 1;
        let stands = standing.into_iter().map(|(rank, kept)| Unkept {
            rank,
            kept,
            clock: kept,
            records: &[],
        });
        let mut frames = Vec::new();
        self.under_way = encode_cut(self.cut, logger.unkept().chain(stands), &mut frames);
        self.has_new = true;
        self.order(Order::Send { session: self.session, frames });
        turn
    }

    fn order(&mut self, order: Order) {
        self.state = State::Waits;
        if self.orders.send(order).is_err() {
            // The thread has panicked, and said so.
            std::process::abort();
        }
    }

    fn take(&mut self, outcome: Outcome, logger: &mut Logger, turn: &mut Turn) {
        match outcome {
            Outcome::Taken { session } if session == self.session => {
                self.state = State::Open;
                self.since = None;
                self.copied.extend(self.under_way.drain(..));
                if self.has_new {
                    logger.commit(turn);
                }
                let Some(target) = &self.target else { return };
                let mut ranks = logger.stores().map(|(rank, ..)| rank);
                if !self.said_copied && ranks.all(|rank| self.copied.contains(&rank)) {
                    self.said_copied = true;
                    self.said.push(Packet::Copied { epoch: target.epoch });
                }
            }
            Outcome::Broken { session, why } if session == self.session => {
                tracing::debug!("copy of events: {why}");
                self.since.get_or_insert_with(Instant::now);
                self.close(PAUSE);
            }
            // Of a connection that was given up.
            Outcome::Taken { .. } | Outcome::Broken { .. } => {}
        }
    }

    fn close(&mut self, pause: Duration) {
        // What is under way counts no more.
        self.session += 1;
        self.state = State::Closed;
        self.again = Instant::now() + pause;
        self.under_way.clear();
    }

    fn check_lost(&mut self) {
        let is_late = self.since.is_some_and(|since| since.elapsed() >= GIVE_UP);
        let Some(target) = self.target.as_ref().filter(|_| is_late && !self.said_lost) else {
            return;
        };
        self.said_lost = true;
        let why = format!("{} cannot be reached for {} s", target.address, GIVE_UP.as_secs());
        self.said.push(Packet::Lost { epoch: target.epoch, why });
    }
}

/// The thread's side.
struct Connection {
    me: Identity,
    /// With the session that it is of.
    stream: Option<(u64, TcpStream)>,
}

impl Connection {
    fn work(mut self, orders: &Receiver<Order>, outcomes: &Sender<Outcome>) {
        while let Ok(order) = orders.recv() {
            let (session, done) = match order {
                Order::Open { session, target, stores, standing } => {
                    self.stream = None;
                    (session, self.open(session, &target, &stores, standing))
                }
                Order::Send { session, frames } => (session, self.send(session, &frames)),
            };
            let outcome = match done {
                Ok(()) => Outcome::Taken { session },
                Err(e) => {
                    self.stream = None;
                    Outcome::Broken { session, why: e.to_string() }
                }
            };
            if outcomes.send(outcome).is_err() {
                return;
            }
        }
    }

    fn open(
        &mut self,
        session: u64,
        target: &Target,
        stores: &[(u32, File, u64)],
        standing: Vec<(u32, u64)>,
    ) -> Result<()> {
        let mut stream = connect(&self.me, target.node, &target.address)?;
        let ranks = stores.iter().map(|(rank, ..)| *rank).collect();
        let mut frames = Vec::new();
        CopyFrame::Begin { epoch: target.epoch, ranks }.encode(&mut frames);
        stream.write_all(&frames)?;
        for (rank, file, kept) in stores {
            send_events(&mut stream, *rank, file, *kept)?;
        }
        if !standing.is_empty() {
            let mut cut = Vec::new();
            CopyFrame::Cut { number: 0, clocks: standing }.encode(&mut cut);
            transact(&mut stream, &cut)?;
        }
        self.stream = Some((session, stream));
        Ok(())
    }

    fn send(&mut self, session: u64, frames: &[u8]) -> Result<()> {
        match &mut self.stream {
            Some((of, stream)) if *of == session => transact(stream, frames),
            _ => Err(ErrorKind::NotConnected.into()),
        }
    }
}
