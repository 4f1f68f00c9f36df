//! The invariants of `docs/spec/rank-life.md`, section 8, over random sequences of events.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;

const RANKS: usize = 4;
const MAX: u32 = 5;

/// Something that happens in the world, of which the launcher notices what it can.
#[derive(Clone, Debug)]
enum Step {
    Joins { rank: usize, member: i32, by: u8 },
    Finalises { rank: usize, member: i32, by: u8 },
    Exits { rank: usize, member: i32, status: i32 },
    Over { rank: usize, member: i32 },
    Aborts { rank: usize, code: i64 },
    MemberGone { rank: usize, member: i32 },
    Ends { rank: usize, status: i32 },
    Dies { rank: usize, signal: i32 },
    Leaves { rank: usize },
    Hangs { rank: usize },
    Signal,
    TimedOut,
    Passes { milliseconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (rank, member) = (0..RANKS, 0..2);
    let who = (rank.clone(), member);
    let signals = prop::sample::select(vec![9, 11, 6, 13, 15, 24]);
    // Few of those that end the job at once, so that many go on for long.
    prop_oneof![
        6 => (who.clone(), 0u8..3).prop_map(|((rank, member), by)| Step::Joins { rank, member, by }),
        6 => (who.clone(), 0u8..3).prop_map(|((rank, member), by)| Step::Finalises { rank, member, by }),
        2 => (who.clone(), 0..4).prop_map(|((rank, member), status)| Step::Exits {
            rank,
            member,
            status
        }),
        3 => who.clone().prop_map(|(rank, member)| Step::Over { rank, member }),
        1 => (rank.clone(), -1i64..600).prop_map(|(rank, code)| Step::Aborts { rank, code }),
        2 => who.prop_map(|(rank, member)| Step::MemberGone { rank, member }),
        1 => (rank.clone(), 0..4).prop_map(|(rank, status)| Step::Ends { rank, status }),
        12 => (rank.clone(), signals).prop_map(|(rank, signal)| Step::Dies { rank, signal }),
        1 => rank.clone().prop_map(|rank| Step::Leaves { rank }),
        1 => rank.prop_map(|rank| Step::Hangs { rank }),
        1 => Just(Step::Signal),
        1 => Just(Step::TimedOut),
        8 => (1u64..700).prop_map(|milliseconds| Step::Passes { milliseconds }),
    ]
}

/// The processes of a job, and what has happened to them.
struct World {
    life: Life,
    now: Duration,
    /// Of each rank: the process id of its direct child, while it lives.
    alive: Vec<Option<i32>>,
    pids: i32,
    restarts: u32,
    sets: Sets,
    /// Steps of the world that choices are taken from.
    chance: u32,
    verdict: Option<u8>,
    /// Direct children that the launcher has killed, and has not reaped.
    to_reap: Vec<usize>,
    /// Who has aborted, as lines name them.
    aborted: Vec<String>,
}

impl World {
    fn new(on_failure: OnFailure, restarts: bool, sets: &str, seed: u32) -> World {
        let sets = Sets::choose(sets, &[0; RANKS]).unwrap();
        let rules = restarts.then(|| Restarts { sets: sets.clone(), max: MAX });
        let mut world = World {
            life: Life::new(RANKS, on_failure, rules),
            now: Duration::ZERO,
            alive: vec![None; RANKS],
            pids: 100,
            restarts: 0,
            sets,
            chance: seed,
            verdict: None,
            to_reap: Vec::new(),
            aborted: Vec::new(),
        };
        for rank in 0..RANKS {
            let event = world.start(rank);
            world.handle(vec![event]);
        }
        world
    }

    fn chance(&mut self, of: u32) -> bool {
        self.chance = self.chance.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (self.chance >> 16).is_multiple_of(of)
    }

    fn start(&mut self, rank: usize) -> Event {
        assert_eq!(self.alive[rank], None, "one life at a time");
        self.pids += 10;
        self.alive[rank] = Some(self.pids);
        Event::Started { rank, pid: self.pids }
    }

    fn end(&mut self, rank: usize, end: End) -> Option<Event> {
        self.alive[rank].take()?;
        Some(Event::Ended { rank, end })
    }

    fn event(&mut self, step: &Step) -> Option<Event> {
        let by = |by: u8| [By::Pmi, By::Pmix, By::Endpoint][by as usize];
        let pid = |rank: usize, member: i32| Some(self.alive[rank]? + member);
        Some(match *step {
            Step::Joins { rank, member, by: how } => {
                Event::Joined { rank, pid: pid(rank, member)?, by: by(how) }
            }
            Step::Finalises { rank, member, by: how } => {
                Event::Finalised { rank, pid: pid(rank, member)?, by: by(how) }
            }
            Step::Exits { rank, member, status } => {
                Event::Exits { rank, pid: pid(rank, member)?, status }
            }
            Step::Over { rank, member } => Event::ProgramOver { rank, pid: pid(rank, member)? },
            Step::Aborts { rank, code } => {
                self.aborted.push(format!("rank {rank} (pid {})", pid(rank, 0)?));
                Event::Aborted { rank, code, text: None }
            }
            Step::MemberGone { rank, member } => {
                Event::MemberGone { rank, pid: pid(rank, member)? }
            }
            Step::Ends { rank, status } => return self.end(rank, End::Exited(status)),
            Step::Dies { rank, signal } => return self.end(rank, End::Signal(signal)),
            Step::Leaves { rank } => {
                pid(rank, 0)?;
                Event::Left { rank, known: 0 }
            }
            Step::Hangs { rank } => Event::Overdue { rank, limit: Duration::from_secs(2) },
            Step::Signal => Event::Signalled { signal: 2, to_ranks: 2 },
            Step::TimedOut => Event::TimedOut { limit: Duration::from_secs(2) },
            Step::Passes { milliseconds } => {
                self.now += Duration::from_millis(milliseconds);
                Event::Tick
            }
        })
    }

    fn handle(&mut self, mut batch: Vec<Event>) {
        for rank in std::mem::take(&mut self.to_reap) {
            batch.extend(self.end(rank, End::Signal(9)));
        }
        let mut actions = VecDeque::from(self.life.handle(self.now, batch));
        while let Some(action) = actions.pop_front() {
            let answers = self.carry_out(action);
            if !answers.is_empty() {
                actions.extend(self.life.handle(self.now, answers));
            }
        }
        if self.life.is_ending() {
            let status = self.life.status();
            assert_eq!(*self.verdict.get_or_insert(status), status, "the first cause decides");
            assert!(status != 0, "a job that is ended has failed");
        }
    }

    fn carry_out(&mut self, action: Action) -> Vec<Event> {
        match action {
            Action::FindExiting => {
                let alive = (0..RANKS).filter_map(|rank| Some((rank, self.alive[rank]?)));
                let known = alive.flat_map(|(rank, pid)| [(rank, pid), (rank, pid + 1)]);
                let known: Vec<_> = known.map(|(rank, pid)| Process { rank, pid }).collect();
                let processes = known.into_iter().filter(|_| self.chance(3)).collect();
                return vec![Event::Exiting { processes }];
            }
            Action::Stop(ranks) => {
                assert!(!self.life.is_ending(), "a job that ends starts nothing");
                let mut events = Vec::new();
                for rank in ranks {
                    let end = match self.chance(9) {
                        true => End::Exited(i32::from(self.chance(2))),
                        false => End::Signal(9),
                    };
                    events.push(self.end(rank, end).expect("only what runs is stopped"));
                }
                return events;
            }
            Action::Recover(ranks) => {
                if self.chance(20) {
                    return vec![Event::Trouble { status: 1, why: "no logger".into() }];
                }
                let recovered = |rank| Event::Recovered { rank, events: 1, checkpoint: None };
                return ranks.into_iter().map(recovered).collect();
            }
            Action::Start(ranks) => {
                assert!(!self.life.is_ending(), "a job that ends starts nothing");
                let mut sets: Vec<usize> = ranks.iter().map(|&rank| self.sets.of(rank)).collect();
                sets.dedup();
                self.restarts += sets.len() as u32;
                assert!(self.restarts <= MAX, "the budget");
                return ranks.into_iter().map(|rank| self.start(rank)).collect();
            }
            Action::Kill(rank) => self.to_reap.push(rank),
            Action::KillAll => self.to_reap.extend(0..RANKS),
            Action::Report(line) => {
                let aborted = self.aborted.iter().filter_map(|who| line.strip_prefix(who));
                let ends = ["lost", "exited", "killed", "was", "ended"];
                let mut ends =
                    aborted.filter(|rest| ends.iter().any(|end| rest[1..].starts_with(end)));
                assert_eq!(ends.next(), None, "a rank that has aborted ends by that: {line}");
            }
            Action::EndAll(_) | Action::Leave(_) | Action::Release => {}
        }
        Vec::new()
    }
}

fn lives(steps: &[Vec<Step>], on_failure: OnFailure, restarts: bool, sets: &str, seed: u32) {
    let mut world = World::new(on_failure, restarts, sets, seed);
    for batch in steps {
        let mut events: Vec<Event> = batch.iter().filter_map(|step| world.event(step)).collect();
        events.push(Event::Tick);
        let failed = |event: &Event| {
            matches!(event, Event::Aborted { .. } | Event::Ended { end: End::Exited(1..), .. })
        };
        let must_end = events.iter().any(failed) && world.life.goes_on();
        world.handle(events);
        if must_end && batch.len() == 1 && !restarts {
            // In bounded time after the first failure.
            world.now += SETTLE;
            world.handle(vec![Event::Tick]);
            assert!(world.life.is_ending() || !world.life.goes_on(), "{batch:?}");
        }
    }
    // Every direct child ends, or the job is ended and killed: in either case it is over.
    let ends = world.chance(2);
    for turn in 0..100 {
        if !world.life.goes_on() {
            break;
        }
        assert!(turn < 99, "a job always ends");
        let all: Vec<Event> = match ends {
            true => (0..RANKS).filter_map(|rank| world.end(rank, End::Exited(0))).collect(),
            false => vec![Event::Signalled { signal: 2, to_ranks: 2 }],
        };
        world.now += Duration::from_secs(3);
        world.handle(all);
        world.handle(vec![Event::Tick]);
    }
    assert!(world.alive.iter().all(Option::is_none), "a job is over when nothing runs");
    assert_eq!(world.life.stats.successors > 0, world.restarts > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_events_comes_to_an_end(
        steps in vec(vec(step(), 1..4), 0..40),
        sets in prop::sample::select(vec!["node", "rank"]),
        seed in any::<u32>(),
    ) {
        lives(&steps, OnFailure::Restart, true, sets, seed);
        lives(&steps, OnFailure::Abort, true, sets, seed);
        lives(&steps, OnFailure::Abort, false, sets, seed);
        lives(&steps, OnFailure::ShrinkReport, false, sets, seed);
    }
}
