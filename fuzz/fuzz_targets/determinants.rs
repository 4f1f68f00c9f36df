//! Determinants of peers that are right, damaged, forged or any bytes, in any order with whatever else
//! happens to the rank that gets them. It refuses them, or holds the events of each rank without a gap; it
//! holds no more than has come; and whoever knows nothing yet believes what it passes on.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use taffrail_fuzz::steps::Steps;
use taffrail_logging::causal::DETERMINANT;
use taffrail_logging::{Causal, Event, LoggedEvent};

#[derive(Arbitrary, Debug)]
enum Step {
    /// Chance decides something for the rank.
    Write {
        polls: u32,
    },
    /// And for an honest peer.
    PeerWrites {
        polls: u32,
    },
    /// The event logger has the rank's events up to one of them.
    Stable {
        which: u16,
    },
    /// What the honest peer sends comes, perhaps with a byte that is another.
    Frame {
        most: u8,
        damage: Option<(u16, u8)>,
    },
    /// A determinant whose record is good.
    Forged {
        rank: u8,
        open: u32,
        clock: u64,
    },
    /// The next event that is not known of a rank.
    Next {
        rank: u8,
        open: u32,
    },
    Raw {
        bytes: Vec<u8>,
    },
    /// The rank is started again, and this is what a survivor is said to hold.
    Adopt {
        rank: u8,
        ahead: u8,
        bytes: Vec<u8>,
    },
    /// The rank sends to a peer.
    Send {
        to: u8,
        most: u8,
    },
    /// A connection is lost.
    Lose {
        to: u8,
    },
}

const ME: u32 = 0;
const HONEST: u32 = 1;
const HOSTILE: u32 = 2;
const RANKS: u32 = 4;
/// Room for events that are not stable.
const ROOM: u64 = 20;

fuzz_target!(|steps: Steps<Step>| {
    let mut rank = Causal::new(ME, RANKS, ROOM);
    let mut honest = Causal::new(HONEST, RANKS, ROOM);
    // The events of the peer, and how many determinants may have come.
    let (mut theirs, mut came) = (0, 0);
    for step in &steps.0 {
        match step {
            // Whoever has no room waits.
            Step::Write { .. } if rank.held_of(ME).count() as u64 == ROOM => {}
            Step::Write { polls } => {
                rank.wrote(&event(last(&rank, ME) + 1, *polls));
                came += 1;
            }
            Step::PeerWrites { .. } if theirs == ROOM => {}
            Step::PeerWrites { polls } => {
                theirs += 1;
                honest.wrote(&event(theirs, *polls));
            }
            Step::Stable { which } => {
                rank.stable(ME, u64::from(*which) % (last(&rank, ME) + 1));
            }
            Step::Frame { most, damage } => {
                let most = DETERMINANT * (1 + usize::from(*most) % 8);
                if let Some(mut bytes) = honest.next_piggyback(ME, most) {
                    let len = bytes.len();
                    if let Some((at, byte)) = damage {
                        bytes[usize::from(*at) % len] = *byte;
                    }
                    came += len / DETERMINANT;
                    let _ = rank.received(HONEST, &bytes);
                }
            }
            Step::Forged { rank: of, open, clock } => {
                came += 1;
                let of = u32::from(*of) % (RANKS + 1);
                let _ = rank.received(HOSTILE, &forged(of, *open, *clock));
            }
            Step::Next { rank: of, open } => {
                came += 1;
                let of = u32::from(*of) % RANKS;
                let clock = last(&rank, of) + 1;
                let _ = rank.received(HOSTILE, &forged(of, 1 + open % ROOM as u32, clock));
            }
            Step::Raw { bytes } => {
                came += bytes.len() / DETERMINANT;
                let _ = rank.received(HOSTILE, bytes);
            }
            Step::Adopt { rank: of, ahead, bytes } => {
                let of = u32::from(*of) % RANKS;
                let clock = last(&rank, of) + u64::from(*ahead % 3);
                came += 1 + bytes.len() / DETERMINANT;
                if clock - stable(&rank, of) < ROOM {
                    let _ = rank.adopt(&forged(of, (clock - stable(&rank, of)) as u32, clock));
                }
                let _ = rank.adopt(bytes);
            }
            Step::Send { to, most } => {
                let (to, most) = (1 + u32::from(*to) % (RANKS - 1), usize::from(*most));
                let most = DETERMINANT + most;
                while let Some(bytes) = rank.next_piggyback(to, most) {
                    assert!(bytes.len() <= most && bytes.len() % DETERMINANT == 0);
                }
                assert!(!rank.has_news_for(to));
            }
            Step::Lose { to } => rank.lost(1 + u32::from(*to) % (RANKS - 1)),
        }
        check(&rank, came);
    }
});

fn check(rank: &Causal, came: usize) {
    let mut open = 0;
    for of in 0..RANKS {
        let clocks: Vec<u64> = rank.held_of(of).map(|determinant| determinant.clock).collect();
        let mut pairs = clocks.windows(2);
        assert!(pairs.all(|two| two[1] == two[0] + 1), "of rank {of}: {clocks:?}");
        assert!(clocks.iter().all(|&clock| rank.knows(of, clock)), "of rank {of}: {clocks:?}");
        open += clocks.len();
    }
    let last = |of| Some((of, rank.held_of(of).last()?.clock));
    assert!(rank.open_events().eq((0..RANKS).filter_map(last)));
    assert!(open <= came, "{open} held of {came}");
    let all = rank.all_held(u64::MAX);
    assert_eq!(all.len(), open * DETERMINANT);
    // Whose events are not among them.
    let mut newcomer = Causal::new(RANKS, RANKS + 1, ROOM);
    if open > 0 {
        newcomer.received(ME, &all).expect("what is held can be passed on");
        let held = (0..RANKS).map(|of| newcomer.held_of(of).count());
        assert_eq!(held.sum::<usize>(), open);
        assert!(newcomer.open_events().eq(rank.open_events()));
    }
}

fn event(clock: u64, polls: u32) -> LoggedEvent {
    LoggedEvent { clock, event: Event::Found { polls, index: 0 } }
}

/// The bytes of a determinant.
fn forged(rank: u32, open: u32, clock: u64) -> Vec<u8> {
    let record = event(clock, open).event.encode(rank, clock);
    [&rank.to_le_bytes()[..], &open.to_le_bytes(), &record].concat()
}

/// The last event of a rank that is known, stable or not.
fn last(rank: &Causal, of: u32) -> u64 {
    let held = rank.held_of(of).last().map(|determinant| determinant.clock);
    held.unwrap_or_else(|| greatest(|clock| rank.knows(of, clock)))
}

/// The last one that is stable.
fn stable(rank: &Causal, of: u32) -> u64 {
    rank.held_of(of).next().map_or_else(|| last(rank, of), |determinant| determinant.clock - 1)
}

/// The greatest number for which something holds that holds for all below it.
fn greatest(holds: impl Fn(u64) -> bool) -> u64 {
    let bits = (0..u64::BITS).rev().map(|bit| 1 << bit);
    bits.fold(0, |least, bit| if holds(least | bit) { least | bit } else { least })
}
