//! Processes that call what they like, and a schedule that does what it likes.

use super::Ended;
use super::ledger::Ledger;
use super::memory::{Ram, pattern};
use super::reached::{Allocated, View};
use super::witness::{Link, Witness};
use fastrand::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use taffrail_fabric::{
    Fabric, Fault, Head, Incarnation, Life, LogRange, Membership, PeerId, Refused, SegmentId,
    SendMemory, Sent, Source,
};
use taffrail_sim::fabric::{Settings, SimFabric, SimNet, SimRoster, Step};

/// Processes of a run.
pub const PROCESSES: usize = 3;
/// Length of memory that peers reach, in bytes.
pub const EXPOSED: usize = 256;
/// Rounds after which a run that does not end is stuck.
const ROUNDS_MAX: usize = 50_000;

pub struct Process<const O: bool, const S: bool, const L: bool> {
    pub fabric: SimFabric<O, S, L>,
    pub roster: SimRoster,
    pub witness: Witness,
    /// Segments, and the bytes of each that are used.
    pub segments: Vec<(SegmentId, usize)>,
}

pub struct World<const O: bool, const S: bool, const L: bool> {
    pub net: SimNet<O, S, L>,
    pub settings: Settings,
    pub random: Rng,
    pub processes: Vec<Option<Process<O, S, L>>>,
    pub ledger: Rc<RefCell<Ledger>>,
    pub allocated: Vec<Allocated>,
    pub views: Vec<View>,
    seed: u64,
}

impl<const O: bool, const S: bool, const L: bool> World<O, S, L> {
    pub fn run(seed: u64, settings: Settings, turns: usize) -> Ended {
        let net: SimNet<O, S, L> = SimNet::new(PROCESSES, settings.clone());
        let mut world = World {
            net,
            settings,
            random: Rng::with_seed(seed),
            processes: Vec::new(),
            ledger: Rc::default(),
            allocated: Vec::new(),
            views: Vec::new(),
            seed,
        };
        for rank in 0..PROCESSES {
            let links = vec![Link::up(0); PROCESSES];
            let process = world.start(rank, links);
            world.processes.push(Some(process));
        }
        for _ in 0..turns {
            world.turn();
            if world.has_failed() {
                break;
            }
        }
        if !world.has_failed() {
            world.finish();
        }
        let found = world.ledger.borrow().found.first().cloned();
        let found = world.net.violations().first().map(ToString::to_string).or(found);
        Ended { found, coverage: world.net.coverage(), trace: world.net.trace() }
    }

    fn start(&mut self, rank: usize, links: Vec<Link>) -> Process<O, S, L> {
        let seed = self.seed ^ ((rank as u64) << 32) ^ u64::from(self.net.incarnation(rank));
        let habits = (O, self.settings.holds);
        Process {
            fabric: self.net.open(rank),
            roster: self.net.roster(rank),
            witness: Witness::new(rank, self.ledger.clone(), links, seed, habits),
            segments: Vec::new(),
        }
    }

    fn has_failed(&self) -> bool {
        !self.ledger.borrow().found.is_empty() || !self.net.violations().is_empty()
    }

    fn turn(&mut self) {
        match self.random.u8(..100) {
            0..3 => self.fault(),
            3..50 => drop(self.calm()),
            _ => self.call(),
        }
    }

    /// Does one step by which nothing fails. Whether there was one.
    fn calm(&mut self) -> bool {
        let steps = self.net.calm();
        self.any(&steps)
    }

    fn fault(&mut self) {
        let kind = self.random.u8(..7);
        let mut steps = self.net.possible();
        steps.retain(|step| match step {
            Step::Jam { .. } => kind == 0,
            Step::Break(..) => kind == 1 || kind == 2,
            Step::Kill { .. } => kind == 3,
            Step::Restart(_) => kind > 3,
            _ => false,
        });
        self.any(&steps);
    }

    fn any(&mut self, steps: &[Step]) -> bool {
        if steps.is_empty() {
            return false;
        }
        let step = steps[self.random.usize(..steps.len())];
        assert!(self.net.step(step), "{step} is in the list, and is not possible");
        match step {
            Step::Connect(a, b) => {
                let of = [a, b].map(|rank| self.net.incarnation(rank));
                self.ledger.borrow_mut().connected(a, b, of);
            }
            Step::Kill { rank, .. } => {
                let of = Incarnation(self.net.incarnation(rank));
                self.ended(rank, Life::Dead(of));
            }
            Step::Restart(rank) => self.restarted(rank),
            _ => {}
        }
        true
    }

    /// A process is no more.
    fn ended(&mut self, rank: usize, life: Life) {
        let Some(process) = self.processes[rank].take() else { return };
        let Process { fabric, witness, .. } = process;
        drop(fabric);
        witness.vanish();
        let mut ledger = self.ledger.borrow_mut();
        ledger.lives.entry(rank).or_default().push(life);
        ledger.coming.retain(|&(of, _), _| of != rank);
        for at in 0..ledger.exposed.len() {
            let exposed = &mut ledger.exposed[at];
            if exposed.owner == rank && exposed.owner_lives {
                exposed.owner_lives = false;
                let ram = exposed.ram.clone();
                ledger.give_up(&ram, 0, EXPOSED, "of a process that is no more");
            }
        }
    }

    fn restarted(&mut self, rank: usize) {
        let incarnation = Incarnation(self.net.incarnation(rank));
        let mut ledger = self.ledger.borrow_mut();
        ledger.lives.entry(rank).or_default().push(Life::Restarted(incarnation));
        ledger.last_session += 1;
        let session = ledger.last_session;
        let heard: Vec<usize> =
            (0..PROCESSES).map(|peer| ledger.lives.get(&peer).map_or(0, Vec::len)).collect();
        drop(ledger);
        let mut links = vec![Link::down(); PROCESSES];
        links[rank] = Link { incarnation: incarnation.0, ..Link::up(session) };
        let mut process = self.start(rank, links);
        heard.into_iter().enumerate().for_each(|(peer, lives)| process.witness.knows(peer, lives));
        self.processes[rank] = Some(process);
    }

    fn call(&mut self) {
        let rank = self.random.usize(..PROCESSES);
        if self.processes[rank].is_none() {
            return;
        }
        match self.random.u8(..100) {
            0..35 => drop(self.poll(rank)),
            35..65 => self.send(rank),
            65..77 => self.transfer(rank),
            77..83 => self.expose(rank),
            83..85 => self.deregister(rank),
            85..88 => self.release(rank),
            88..91 => self.return_lease(rank),
            91..96 => self.ask_drained(rank),
            96..98 => self.map(rank),
            98 => self.disconnect(rank),
            _ => self.close(rank),
        }
    }

    fn poll(&mut self, rank: usize) -> usize {
        let Some(Process { fabric, roster, witness, .. }) = &mut self.processes[rank] else {
            return 0;
        };
        roster.poll(&mut |peer, life| witness.verdict(peer, life));
        fabric.poll(witness)
    }

    fn send(&mut self, rank: usize) {
        let to = self.random.usize(..PROCESSES);
        let len = match self.random.u8(..3) {
            0 => self.random.usize(..=self.settings.inline),
            1 => self.random.usize(..40),
            _ => self.random.usize(..=self.settings.max_message),
        };
        let way = self.random.u8(..4);
        self.send_one(rank, to, len, way);
    }

    /// Sends one message. Whether it was accepted; `None` if there was nothing to send it from.
    fn send_one(
        &mut self,
        rank: usize,
        to: usize,
        len: usize,
        way: u8,
    ) -> Option<Result<Sent, Refused>> {
        let process = self.processes[rank].as_mut()?;
        let Link { session, incarnation, is_up, .. } = process.witness.links[to].clone();
        let number = self.ledger.borrow_mut().offer(rank, to, session, len);
        let (bytes, head) = (pattern(number, len), Head { tag: number, ..Head::default() });
        let peer = PeerId(to as u32);
        let result = match way {
            0 => process.fabric.send(peer, head, Source::Bytes(&bytes)),
            1 => {
                let (a, b) = bytes.split_at(len / 3);
                process.fabric.send(peer, head, Source::Parts(&[a, b]))
            }
            2 => {
                let range = process.log(&bytes)?;
                process.fabric.send(peer, head, Source::Log(range))
            }
            _ => {
                let (ram, token) = (Ram::new(&bytes), process.witness.token());
                let source = Source::User(ram.bytes(0, len), token);
                let result = process.fabric.send(peer, head, source);
                if result == Ok(Sent::Later) {
                    process.witness.sends.insert(token.0, (to, incarnation, ram));
                } else {
                    ram.spoil_all();
                }
                result
            }
        };
        match &result {
            Ok(_) if !is_up => {
                self.ledger.borrow_mut().fail(format!("{rank} sends to {to} without a link"))
            }
            // The rest of one message may be here, and its end not polled.
            Ok(_) => {
                let most = self.settings.capacity + usize::from(S);
                self.ledger.borrow_mut().accepted(number, most);
            }
            Err(_) => {}
        }
        Some(result)
    }

    /// Releases a segment, whether or not what was sent from it has arrived.
    fn release(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        if !process.segments.is_empty() {
            let (segment, _) = process.segments.remove(0);
            process.fabric.release(segment);
        }
    }

    fn return_lease(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        if !process.witness.kept.is_empty() {
            let at = self.random.usize(..process.witness.kept.len());
            let lease = process.witness.take_kept(at);
            process.fabric.return_lease(lease);
        }
    }

    fn disconnect(&mut self, rank: usize) {
        let peer = self.random.usize(..PROCESSES);
        if self.random.u8(..3) == 0
            && peer != rank
            && let Some(process) = &mut self.processes[rank]
        {
            process.fabric.disconnect(PeerId(peer as u32), Fault::NoAccess("a test"));
            self.ledger.borrow_mut().coming.remove(&(rank, peer));
        }
    }

    /// One process closes in some of the runs.
    fn close(&mut self, rank: usize) {
        if rank == 0 && self.random.u8(..3) == 0 {
            let of = (rank, self.net.incarnation(rank));
            self.ledger.borrow_mut().closed.insert(of);
            self.ended(rank, Life::Finished);
        }
    }

    /// All that can happen without a fault happens, and nothing is left.
    fn finish(&mut self) {
        self.settle();
        for rank in 0..PROCESSES {
            for to in 0..PROCESSES {
                let is_up =
                    self.processes[rank].as_ref().is_some_and(|one| one.witness.links[to].is_up);
                if is_up && !self.has_failed() {
                    let result = self.send_one(rank, to, 5, 0);
                    if !matches!(result, Some(Ok(_))) {
                        let text = format!(
                            "no room from {rank} to {to}, and nothing is on the way: {result:?}"
                        );
                        self.ledger.borrow_mut().fail(text);
                    }
                }
            }
        }
        self.settle();
        for process in self.processes.iter_mut().flatten() {
            process.finish();
        }
        let mut ledger = self.ledger.borrow_mut();
        ledger.check_given_up();
        let shown = self.views.iter().all(View::is_unchanged);
        if !shown {
            ledger.fail("bytes of a view have changed".into());
        }
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let stepped = self.calm();
            let polled: usize = (0..PROCESSES).map(|rank| self.poll(rank)).sum();
            if self.has_failed() || !stepped && polled == 0 {
                return;
            }
            if self.random.u8(..8) == 0 {
                (0..PROCESSES).for_each(|rank| self.return_lease(rank));
            }
        }
        self.ledger.borrow_mut().fail("the run does not come to an end".into());
    }
}

impl<const O: bool, const S: bool, const L: bool> Process<O, S, L> {
    /// Writes a message into the log.
    fn log(&mut self, bytes: &[u8]) -> Option<LogRange> {
        let len = self.fabric.segment_len();
        if self.segments.last().is_none_or(|&(_, used)| used + bytes.len() > len) {
            let segment = self.fabric.take().ok()??;
            self.segments.push((segment, 0));
        }
        let (segment, used) = self.segments.last_mut()?;
        let (segment, at) = (*segment, *used);
        *used += bytes.len();
        self.fabric.write(segment, at, bytes);
        Some(LogRange { segment, at, len: bytes.len() })
    }

    fn finish(&mut self) {
        self.witness.check_nothing_left();
        while !self.witness.kept.is_empty() {
            let lease = self.witness.take_kept(0);
            self.fabric.return_lease(lease);
        }
        self.segments.drain(..).for_each(|(segment, _)| self.fabric.release(segment));
        let most = self.fabric.max_segments();
        if let Some(none) =
            (0..most).map(|_| self.fabric.take()).find(|taken| !matches!(taken, Ok(Some(_))))
        {
            self.witness.fail(format!("no segment, and nothing is on the way: {none:?}"));
        }
    }
}
