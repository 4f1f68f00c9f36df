//! What each profile weighs, and what it leaves out.

use super::{Faults, Kind, Plan, Sets};
use crate::workload::ALL;
use crate::workload::Workload::{
    AllToAll, Beside, Burst, Gather, Impatient, Loans, Master, Polls, Probe, Random, Reported,
    Ring, Server, Stencil, Sums, Synchronous, Tolerant, WaitAny, Windows,
};
use taffrail_logging::store::Durability;

pub(super) const EVEN: Plan = Plan {
    workloads: &ALL,
    logged: true,
    deaths: false,
    rounds: (1, 3),
    sets: Sets::Any,
    disk: None,
    copies: false,
    all_events: None,
    causal: None,
    checkpoints: None,
    faults: Faults {
        most: 5,
        least: 0,
        soon: 4,
        within: 60,
        kinds: [11, 2, 2, 2, 3],
        victim: false,
    },
    slow: &[],
    swift: &[],
    rings: &[1 << 20, 1 << 20, 16, 4],
    unexpected: &[1 << 16, 1 << 16, 1 << 10, 200],
    unexpected_max: &[usize::MAX],
    segments: &[8, 8, 12],
    capacity: &[2, 4, 16],
};

pub(super) const KILLS: Faults =
    Faults { most: 8, least: 3, soon: 4, within: 60, kinds: [8, 1, 0, 1, 1], victim: true };

pub(super) const POLLS: Plan = Plan {
    workloads: &[Random, Random, Probe, Impatient, Polls, Reported],
    rounds: (2, 5),
    faults: KILLS,
    slow: &[Kind::Run],
    ..EVEN
};

const CUTS: Faults =
    Faults { most: 8, least: 3, soon: 3, within: 60, kinds: [2, 0, 8, 0, 0], victim: false };

pub(super) const LINKS: Plan = Plan { rounds: (2, 4), faults: CUTS, ..EVEN };

pub(super) const CAUSAL_LINKS: Plan = Plan {
    workloads: &[Master, WaitAny, Random, Sums, Server, Impatient],
    rounds: (2, 4),
    causal: Some(true),
    sets: Sets::Alone,
    slow: &[Kind::BeginCut, Kind::EndCut],
    ..LINKS
};

pub(super) const SURVIVORS: Plan = Plan {
    workloads: &[Master, WaitAny, Random, Sums, Server, Impatient],
    rounds: (2, 4),
    sets: Sets::Alone,
    disk: Some(true),
    causal: Some(true),
    faults: Faults {
        most: 8,
        least: 3,
        soon: 6,
        within: 30,
        kinds: [6, 3, 0, 0, 0],
        victim: false,
    },
    slow: &[Kind::BeginCut, Kind::EndCut, Kind::Notice, Kind::Start],
    swift: &[Kind::Ask],
    ..EVEN
};

pub(super) const LOGGER: Plan = Plan {
    workloads: &[Master, WaitAny, Random, Sums, Server, AllToAll],
    rounds: (2, 4),
    sets: Sets::Several,
    disk: Some(true),
    faults: Faults {
        most: 8,
        least: 3,
        soon: 3,
        within: 60,
        kinds: [1, 0, 0, 8, 1],
        victim: false,
    },
    slow: &[Kind::BeginCut, Kind::EndCut],
    swift: &[Kind::StartLogger],
    ..EVEN
};

pub(super) const NODES: Plan = Plan {
    causal: Some(false),
    faults: Faults { most: 8, least: 4, soon: 7, within: 60, kinds: [4, 0, 0, 4, 2], victim: true },
    slow: &[Kind::BeginCut, Kind::EndCut, Kind::Open, Kind::WriteAgain],
    ..LOGGER
};

pub(super) const RINGS: Plan = Plan {
    workloads: &[Master, WaitAny, Random, Sums, Server, Impatient, Probe],
    rounds: (2, 4),
    disk: Some(true),
    faults: KILLS,
    slow: &[Kind::BeginCut, Kind::EndCut],
    rings: &[1, 2, 3, 4],
    ..EVEN
};

pub(super) const CHECKPOINTS: Plan = Plan {
    workloads: &[
        Random,
        Stencil,
        Probe,
        WaitAny,
        Impatient,
        AllToAll,
        Reported,
        Synchronous,
        Polls,
    ],
    rounds: (2, 4),
    sets: Sets::Alone,
    causal: Some(false),
    checkpoints: Some(100),
    faults: KILLS,
    swift: &[Kind::Save],
    ..EVEN
};

pub(super) const ROOM: Plan = Plan {
    workloads: &[Random, AllToAll, Stencil, Server, Sums],
    rounds: (3, 6),
    faults: KILLS,
    slow: &[Kind::Run],
    rings: &[4, 16],
    unexpected: &[1, 64, 200],
    segments: &[8],
    capacity: &[1, 2],
    ..EVEN
};

pub(super) const CALLS: Plan =
    Plan { workloads: &[Reported, Synchronous, Polls], rounds: (1, 3), faults: KILLS, ..EVEN };

pub(super) const MEMORY: Plan = Plan {
    workloads: &[Windows, Loans],
    sets: Sets::Several,
    causal: Some(false),
    faults: KILLS,
    ..EVEN
};

pub(super) const LOANS: Plan = Plan {
    workloads: &[Loans],
    disk: Some(true),
    causal: Some(true),
    slow: &[Kind::BeginCut, Kind::EndCut],
    ..MEMORY
};

pub(super) const UNLOGGED: Plan = Plan {
    workloads: &[
        Reported,
        Synchronous,
        Polls,
        Windows,
        Loans,
        Random,
        Stencil,
        AllToAll,
        Master,
        Probe,
        Beside,
        Beside,
    ],
    logged: false,
    rounds: (1, 4),
    ..EVEN
};

/// In those that do not continue, each receive names its source: a receive from any source waits while anybody lives.
pub(super) const DEATHS: Plan = Plan {
    workloads: &[
        Tolerant, Tolerant, Tolerant, Gather, Gather, Ring, Stencil, AllToAll, WaitAny, Windows,
    ],
    deaths: true,
    rounds: (1, 4),
    faults: Faults {
        most: 3,
        least: 1,
        soon: 3,
        within: 60,
        kinds: [8, 2, 1, 0, 0],
        victim: false,
    },
    ..UNLOGGED
};

pub(super) const COPIES: Plan = Plan {
    rounds: (2, 4),
    disk: Some(false),
    copies: true,
    faults: Faults {
        most: 10,
        least: 4,
        soon: 5,
        within: 40,
        kinds: [2, 1, 1, 8, 2],
        victim: true,
    },
    slow: &[Kind::BeginCut, Kind::StartLogger],
    rings: &[1, 2, 4, 16, 256],
    ..EVEN
};

pub(super) const FLOW: Plan =
    Plan { workloads: &[Burst], rounds: (1, 2), unexpected_max: &[800, 1000, 1500], ..UNLOGGED };

pub(super) const LOGGED_FLOW: Plan = Plan {
    workloads: &[Burst],
    rounds: (1, 2),
    faults: KILLS,
    unexpected_max: &[800, 1000, 1500],
    ..EVEN
};

impl Plan {
    /// When events are stable. Of the jobs with events that survive only processes some have copies of them.
    pub(crate) fn durability(&self, disk: bool, seed: u64) -> Durability {
        let copies = self.copies || seed & 0x18 == 0x18 && self.disk.is_none() && !disk;
        match copies && self.logged {
            true => Durability::Node { copies: 2 + (seed >> 5) as u32 % 2 },
            false if disk => Durability::Disk,
            false => Durability::Process,
        }
    }
}
