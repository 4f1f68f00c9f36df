//! Which jobs there are, which faults they see, and what in them is slow.
//!
//! Chance alone, the same for all runs, reaches nothing that is rare (*swarm testing*: Groce et al., ISSTA 2012). So each seed
//! draws a profile, which leaves much out and weighs the rest extremely, and each run its own habits: which kinds of steps
//! and which ranks are slow, and sizes.

mod plans;

use crate::workload::Workload;
use plans::*;
use taffrail_engine::log::host::PAGE_RUNS;

/// What a run is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Profile {
    /// A little of everything.
    Even,
    /// One rank is killed again and again.
    Victim,
    /// Programs that poll, and a rank that is killed again and again.
    Polls,
    /// Links break between ranks that live.
    Links,
    /// Links break in causal logging with a slow logger.
    CausalLinks,
    /// Causal logging where the events of a dead rank are lost, and one death soon follows another.
    Survivors,
    /// The event logger is killed, mostly while it writes a cut.
    Logger,
    /// Whole sets are killed, and the event logger while they start again.
    Nodes,
    /// Rings of a few events, and a slow logger.
    Rings,
    /// A checkpoint whenever there can be one, and ranks that are killed.
    Checkpoints,
    /// Little room: for messages on the way, unexpected messages, and the payload log.
    Room,
    /// Programs with reported ends, late synchronous sends, and polls.
    Calls,
    /// Programs that reach memory of others, in sets of several ranks.
    Memory,
    /// Loans in causal logging.
    Loans,
    /// Messages are not logged: nobody is killed.
    Unlogged,
    /// Messages are not logged, and ranks are killed: they are not started again.
    Deaths,
    /// Several event loggers have a copy each, and are killed.
    Copies,
    /// Unreceived messages may take little memory, so that senders are stopped. Messages are not logged.
    Flow,
    /// The same where messages are logged, and ranks are killed.
    LoggedFlow,
}

/// The profiles that a seed draws from; few seeds have copies, or stop senders.
const PROFILES: [Profile; 16] = [
    Profile::Even,
    Profile::Victim,
    Profile::Polls,
    Profile::Links,
    Profile::CausalLinks,
    Profile::Survivors,
    Profile::Logger,
    Profile::Nodes,
    Profile::Rings,
    Profile::Checkpoints,
    Profile::Room,
    Profile::Calls,
    Profile::Memory,
    Profile::Loans,
    Profile::Unlogged,
    Profile::Deaths,
];

/// Which sets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sets {
    /// Any; sometimes two nodes, of which one has the event logger.
    Any,
    /// Each rank is one.
    Alone,
    /// Two or three ranks in most of them.
    Several,
}

/// Which faults there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// How many at the most, and at the least.
    pub most: u32,
    pub least: u32,
    /// In how many of eight cases one comes soon after the one before.
    pub soon: u8,
    /// Upper limit of steps until then.
    pub within: usize,
    /// How often a rank is killed, two, a link breaks, the logger is killed, and a node.
    pub kinds: [u32; 5],
    /// Half of the kills hit the same rank.
    pub victim: bool,
}

/// Kinds of steps that may be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Progress,
    Carry,
    Notice,
    Connect,
    OtherNet,
    Save,
    Ask,
    Start,
    Open,
    BeginCut,
    EndCut,
    StartLogger,
    WriteAgain,
}

/// Number of kinds.
pub(crate) const KINDS: usize = Kind::WriteAgain as usize + 1;

/// What is drawn from for a case. `None`: as chance wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub workloads: &'static [Workload],
    pub logged: bool,
    /// Where messages are not logged: whether ranks are killed.
    pub deaths: bool,
    pub rounds: (u32, u32),
    pub sets: Sets,
    pub disk: Option<bool>,
    /// Several event loggers have a copy each.
    pub copies: bool,
    pub all_events: Option<bool>,
    pub causal: Option<bool>,
    pub checkpoints: Option<u32>,
    pub faults: Faults,
    /// Steps that are slow; and some that are not.
    pub slow: &'static [Kind],
    pub swift: &'static [Kind],
    /// Events of a ring.
    pub rings: &'static [u64],
    /// Bytes of unexpected messages of one peer before it is throttled.
    pub unexpected: &'static [usize],
    /// Bytes of memory that unreceived messages of all peers may take.
    pub unexpected_max: &'static [usize],
    /// Segments of the payload log in memory.
    pub segments: &'static [usize],
    /// Messages on the way from one rank to another.
    pub capacity: &'static [usize],
}

impl Profile {
    /// That of a seed.
    pub fn of(seed: u64) -> Profile {
        match fastrand::Rng::with_seed(seed ^ 0xc0_91e5).u8(0..20) {
            0 => return Profile::Copies,
            1 => return Profile::Flow,
            2 => return Profile::LoggedFlow,
            _ => {}
        }
        let drawn = fastrand::Rng::with_seed(seed ^ 0x5ca1_ab1e).usize(0..PROFILES.len() + 2);
        PROFILES.get(drawn).copied().unwrap_or(Profile::Even)
    }

    pub(crate) fn plan(self) -> Plan {
        match self {
            Profile::Even => EVEN,
            Profile::Victim => Plan { rounds: (1, 4), faults: KILLS, ..EVEN },
            Profile::Polls => POLLS,
            Profile::Links => LINKS,
            Profile::CausalLinks => CAUSAL_LINKS,
            Profile::Survivors => SURVIVORS,
            Profile::Logger => LOGGER,
            Profile::Nodes => NODES,
            Profile::Rings => RINGS,
            Profile::Checkpoints => CHECKPOINTS,
            Profile::Room => ROOM,
            Profile::Calls => CALLS,
            Profile::Memory => MEMORY,
            Profile::Loans => LOANS,
            Profile::Unlogged => UNLOGGED,
            Profile::Deaths => DEATHS,
            Profile::Copies => COPIES,
            Profile::Flow => FLOW,
            Profile::LoggedFlow => LOGGED_FLOW,
        }
    }
}

/// What is slow in a run, and its sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Of 256 times a step of a kind is chosen, it is put off so often.
    pub(crate) kinds: [u8; KINDS],
    /// The same, of all that a rank does, or that comes to it.
    pub(crate) ranks: [u8; 8],
    /// Events that a ring has room for.
    pub(crate) ring: u64,
    /// Bytes of unexpected messages of one peer before it is throttled.
    pub(crate) unexpected: usize,
    /// Bytes of memory that unreceived messages of all peers may take.
    pub(crate) unexpected_max: usize,
    /// The longest message that is not announced.
    pub(crate) eager_max: usize,
    /// Bytes that travel in the descriptor.
    pub(crate) inline: usize,
    /// Bytes of a fragment, and of a piece of the restart exchange.
    pub(crate) fragment: usize,
    /// Segments of the payload log in memory.
    pub(crate) segments: usize,
    /// Runs of a page of the table of what was sent.
    pub(crate) page_runs: usize,
    /// Messages that may be on the way from one rank to another.
    pub(crate) capacity: usize,
}

impl Habits {
    pub(crate) fn new(plan: &Plan, random: &mut fastrand::Rng) -> Self {
        let mut kinds = [0; KINDS];
        kinds.iter_mut().for_each(|kind| *kind = [0, 0, 0, 128, 200, 235][random.usize(0..6)]);
        // Checkpoints and polls of the network are mostly rarer than the rest.
        kinds[Kind::Save as usize] = [128, 200, 235, 250][random.usize(0..4)];
        plan.slow
            .iter()
            .for_each(|&kind| kinds[kind as usize] = [200, 235, 250][random.usize(0..3)]);
        plan.swift.iter().for_each(|&kind| kinds[kind as usize] = 0);
        let mut ranks = [0; 8];
        ranks.iter_mut().for_each(|rank| *rank = [0, 0, 0, 0, 128, 220][random.usize(0..6)]);
        let mut of = |sizes: &[usize]| sizes[random.usize(0..sizes.len())];
        let (unexpected, segments) = (of(plan.unexpected), of(plan.segments));
        let (capacity, eager_max) = (of(plan.capacity), of(&[256, 256, 100, 1024]));
        let inline = of(&[8, 40]);
        let ring = plan.rings[random.usize(0..plan.rings.len())];
        let page_runs = PAGE_RUNS;
        // Most profiles have one, and the chance of their runs stays what it was.
        let unexpected_max = match plan.unexpected_max {
            [one] => *one,
            several => several[random.usize(0..several.len())],
        };
        Habits {
            kinds,
            ranks,
            ring,
            unexpected,
            unexpected_max,
            eager_max,
            inline,
            fragment: 64,
            segments,
            page_runs,
            capacity,
        }
    }
}
