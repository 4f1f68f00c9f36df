//! What a seed means: the job, the clocks, the faults.

use crate::hosts;
use crate::launcher::Config;
use crate::lease::Terms;
use crate::wire::{Durability, EventKind, Logging, LoggingProtocol, RankCare};
use crate::{NodeId, Secret};
use fastrand::Rng;
use std::time::Duration;

/// Lengths of time are in microseconds.
pub const LEASE: u64 = 1_000_000;
pub const KILL: u64 = 200_000;
pub const LINK_TIMEOUT: u64 = 2 * LEASE;
/// A rank that waits makes a step twice within this time.
pub const LINK_LAPSE: u64 = LEASE;
/// Faults begin within this time.
const FAULTS_UNTIL: u64 = 4 * LEASE;

pub fn terms() -> Terms {
    Terms { lease: Duration::from_micros(LEASE), kill: Duration::from_micros(KILL) }
}

/// A clock, which differs from the others and from real time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub offset: u64,
    /// Its rate differs by so many in 10 000 from real time: A1 of the specification.
    pub rate: i64,
}

impl Clock {
    fn new(rng: &mut Rng) -> Clock {
        // The extremes are tried often.
        let rate = match rng.u8(..3) {
            0 => -50,
            1 => 50,
            _ => rng.i64(-50..=50),
        };
        Clock { offset: rng.u64(0..1 << 40), rate }
    }

    /// The time that it shows.
    pub fn at(&self, real: u64) -> Duration {
        let real = i128::from(real) * (10_000 + i128::from(self.rate)) / 10_000;
        Duration::from_micros(self.offset + real as u64)
    }

    /// When it shows at least this time.
    pub fn real(&self, time: Duration) -> u64 {
        let local = (time.as_micros() as u64).saturating_sub(self.offset);
        let rate = 10_000 + i128::from(self.rate);
        ((i128::from(local) * 10_000 + rate - 1) / rate) as u64
    }
}

/// Something that goes wrong on a node, or for the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The process of a rank is killed, whatever runs it.
    KillRank(u32),
    /// The launcher is asked to kill a rank.
    Kill(u32),
    /// The node and its agent cannot reach the launcher, nor the other way; then they can. If the connection does
    /// not survive, each end notices at a time of its own.
    Cut { length: u64, breaks: bool },
    /// As a cut, but only what the agent sends is late.
    CutUp { length: u64 },
    /// As a cut, but only what the launcher sends is late.
    CutDown { length: u64 },
    /// The node and another one do not reach each other, and both reach the launcher.
    CutLink { other: usize, length: u64 },
    /// The channel breaks, with what is under way.
    Break,
    /// The agent stands still.
    Pause { length: u64 },
    /// The launcher stands still.
    PauseLauncher { length: u64 },
    /// The agent is killed.
    KillAgent,
    /// The copy store of the node ends: what it has is gone, and another one begins with nothing.
    KillStore,
    /// The copy store that is asked for a log next ends so, at about the moment when it is asked, or that copy is damaged.
    KillAsked,
    /// This event logger of the node ends, of those that copy. Another one copies everything by the same order.
    KillLogger { logger: u32 },
    /// The node is gone.
    Crash,
    /// The nodes of these bits are gone at the same moment.
    CrashAll { nodes: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: u64,
    pub node: usize,
    pub what: What,
}

#[derive(Clone, Debug, Default)]
pub struct Case {
    pub seed: u64,
    /// Slots of each host.
    pub hosts: Vec<u32>,
    pub ranks: u32,
    pub sets: bool,
    /// Messages are logged: what a rank leaves is found out before it is started again, on its node.
    pub logs: bool,
    /// On how many nodes the events of a node's ranks are, with that itself; 0: they are not copied.
    pub copies: u32,
    /// Others depend on events that are not stable, and hold them.
    pub causal: bool,
    /// The last host has no faults and no ranks at first, and keeps all copies.
    pub reliable: bool,
    pub launcher: Clock,
    pub clocks: Vec<Clock>,
    pub faults: Vec<Fault>,
    /// The longest delay of a message without a fault.
    pub delay: u64,
}

impl Case {
    /// The job of a launcher.
    pub fn config(&self) -> Config {
        let host = |(number, slots): (usize, &u32)| hosts::Host {
            name: format!("n{number}"),
            slots: *slots,
        };
        let hosts = hosts::Hosts(self.hosts.iter().enumerate().map(host).collect());
        let ranks = self.ranks as usize;
        let reliable = self.reliable.then(|| hosts.0.len() as NodeId - 1);
        let placed = crate::place::initial(&hosts.of_ranks(reliable), ranks, false);
        let placed = placed.expect("enough slots");
        Config {
            sets: self.sets.then(|| crate::sets::by_node(&placed)),
            logging: self.logs.then(|| Logging {
                protocol: match self.causal {
                    true => LoggingProtocol::Causal,
                    false => LoggingProtocol::Pessimistic,
                },
                events: EventKind::Nondeterministic,
                durability: match self.copies {
                    0 => Durability::Process,
                    copies => Durability::Copies(copies),
                },
                memory: 0,
                sets: (0..self.ranks).collect(),
            }),
            hosts,
            reliable,
            ranks,
            oversubscribe: false,
            programs: Vec::new(),
            apps: Vec::new(),
            job: "job".into(),
            secret: Secret([7; 32]),
            network: String::new(),
            terms: terms(),
            start_timeout: Duration::from_micros(2 * LEASE),
            link_timeout: Duration::from_micros(LINK_TIMEOUT),
            link_lapse: Duration::from_micros(LINK_LAPSE),
            output_window: 4096,
            care: RankCare::default(),
        }
    }

    pub fn new(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        let mut hosts: Vec<u32> = (0..rng.usize(2..=5)).map(|_| rng.u32(1..=3)).collect();
        let slots: u32 = hosts.iter().sum();
        let ranks = rng.u32(2..=slots.min(7));
        let node = hosts.len();
        let count = rng.usize(0..=6);
        let mut faults: Vec<Fault> = (0..count)
            .map(|_| Fault {
                at: rng.u64(0..FAULTS_UNTIL),
                node: rng.usize(0..node),
                what: what(&mut rng, ranks),
            })
            .collect();
        faults.sort_by_key(|fault| fault.at);
        // Drawn apart, so that seeds keep what else they mean.
        let mut apart = Rng::with_seed(!seed);
        let (logs, copies) = (apart.u8(..) < 128, apart.u8(..) < 192);
        let sets = rng.u8(..) < 64;
        let launcher = Clock::new(&mut rng);
        let mut clocks: Vec<Clock> = hosts.iter().map(|_| Clock::new(&mut rng)).collect();
        let delay = *rng.choice(&[100, 5_000, LEASE / 25]).unwrap_or(&100);
        let reliable = logs && copies && apart.bool();
        if reliable {
            // All others may be lost at once.
            let at = apart.u64(0..2 * FAULTS_UNTIL);
            let crash = |node| Fault { at: at + node as u64, node, what: What::Crash };
            faults.extend((0..node).map(crash).filter(|_| apart.u8(..) < 224));
            hosts.push(apart.u32(1..=3));
            clocks.push(Clock::new(&mut apart));
        }
        let causal = logs && copies && !reliable && apart.bool();
        let cuts = if logs && apart.u8(..) < 96 { apart.usize(1..=3) } else { 0 };
        for _ in 0..cuts {
            let (node, behind) = (apart.usize(0..hosts.len()), apart.usize(1..hosts.len()));
            let other = (node + behind) % hosts.len();
            let length = if apart.u8(..) < 64 { apart.u64(0..4 * LEASE) } else { u64::MAX };
            let at = apart.u64(0..FAULTS_UNTIL / 2);
            faults.push(Fault { at, node, what: What::CutLink { other, length } });
        }
        let copies = if copies { *apart.choice(&[2, 3, 3, 4]).unwrap_or(&2) } else { 0 };
        if logs && copies > 2 && !reliable && !causal && apart.u8(..) < 224 {
            faults = together(&mut apart, hosts.len(), copies, ranks);
        }
        if logs && copies > 0 && apart.u8(..) < 64 {
            keepers(&mut apart, hosts.len(), copies, &mut faults);
        }
        undisturbed(&mut Rng::with_seed(seed ^ 0xc07), &mut faults);
        let case = Case { seed, ranks, logs, copies, causal, reliable, ..Case::default() };
        Case { sets, launcher, clocks, hosts, faults, delay, ..case }
    }
}

/// Of the cases with links that are cut, in some nothing else happens: all are short or for good.
fn undisturbed(rng: &mut Rng, faults: &mut Vec<Fault>) {
    let is_cut = |fault: &Fault| matches!(fault.what, What::CutLink { .. });
    if !faults.iter().any(is_cut) || rng.bool() {
        return;
    }
    faults.retain(is_cut);
    let is_short = rng.u8(..3) == 0;
    for fault in faults {
        // Before the job has ended.
        fault.at /= 2;
        if let What::CutLink { length, .. } = &mut fault.what {
            *length = if is_short { rng.u64(LEASE / 4..LEASE) } else { u64::MAX };
        }
    }
}

/// Copy stores and event loggers end: at any time, or when a copy store is asked for a log. For each there is one node less that is
/// lost at the same moment.
fn keepers(rng: &mut Rng, hosts: usize, copies: u32, faults: &mut Vec<Fault>) {
    let what = match rng.u8(..) {
        0..32 => What::KillLogger { logger: rng.u32(1..copies.max(2)) },
        32..64 => What::KillStore,
        _ => What::KillAsked,
    };
    let at = if what == What::KillAsked { 0 } else { rng.u64(0..FAULTS_UNTIL) };
    let is_store = !matches!(what, What::KillLogger { .. });
    for fault in faults.iter_mut().filter(|_| is_store) {
        if let What::CrashAll { nodes } = &mut fault.what
            && nodes.count_ones() + 1 >= copies
        {
            *nodes &= *nodes - 1;
        }
    }
    faults.push(Fault { at, node: rng.usize(0..hosts), what });
}

/// Several nodes are lost at once, and later perhaps others: as many as copies allow, if these are there. A rank may be killed
/// before.
fn together(rng: &mut Rng, hosts: usize, copies: u32, ranks: u32) -> Vec<Fault> {
    let (mut faults, mut at) = (Vec::new(), 0);
    if rng.bool() {
        let what = What::KillRank(rng.u32(0..ranks));
        faults.push(Fault { at: rng.u64(0..FAULTS_UNTIL), node: 0, what });
    }
    for _ in 0..rng.usize(1..=2) {
        at += rng.u64(LEASE..2 * LEASE);
        let mut nodes: u32 = 0;
        while nodes == 0 || nodes.count_ones() < (copies - 1).min(hosts as u32 - 1) {
            nodes |= 1 << rng.usize(0..hosts);
        }
        faults.push(Fault { at, node: 0, what: What::CrashAll { nodes } });
    }
    faults
}

fn what(rng: &mut Rng, ranks: u32) -> What {
    // Around the length of a lease is where mistakes are.
    let length = match rng.u8(..3) {
        0 => rng.u64(0..LEASE / 2),
        1 => rng.u64(LEASE / 2..2 * LEASE),
        _ => rng.u64(LEASE..4 * LEASE),
    };
    match rng.u8(..17) {
        16 => What::Kill(rng.u32(0..ranks)),
        0..=3 => What::KillRank(rng.u32(0..ranks)),
        4 | 5 => What::Cut { length, breaks: rng.bool() },
        6 | 7 => What::CutUp { length },
        8 | 9 => What::CutDown { length },
        10 | 11 => What::Break,
        12 => What::Pause { length },
        13 => What::PauseLauncher { length },
        14 => What::KillAgent,
        _ => What::Crash,
    }
}
