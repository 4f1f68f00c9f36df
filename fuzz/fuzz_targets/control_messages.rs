//! Whatever a peer says above the rings: messages of the engine that are right, wrong, or right at
//! another time, while operations of every kind are under way. The engine gets messages or cuts the
//! peer off, everything that named the peer ends when it is gone, memory stays within what was sent,
//! and an honest peer's messages arrive.

#![no_main]

#[path = "../control_messages/exchange.rs"]
mod exchange;
#[path = "../control_messages/hostile.rs"]
mod hostile;
#[path = "../control_messages/told.rs"]
mod told;
#[path = "../control_messages/victim.rs"]
mod victim;

use arbitrary::Arbitrary;
use exchange::Exchange;
use hostile::{Control, Hostile};
use libfuzzer_sys::fuzz_target;
use taffrail::{Endpoint, Error, Job, Settings};
use taffrail_fuzz::memory::allocated;
use taffrail_fuzz::steps::Steps;
use victim::{Local, Victim};

#[derive(Arbitrary, Debug)]
struct Input {
    /// The hostile process reads nothing.
    deaf: bool,
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// The hostile peer sends.
    Control(Control),
    /// The victim's program does something.
    Local(Local),
    /// The victim makes progress.
    RestartPhase,
    /// An honest peer and the victim exchange a message.
    Honest { to_victim: bool, len: u32 },
}

const HONEST: u32 = 0;
const VICTIM: u32 = 1;
const HOSTILE: u32 = 2;

/// Turns in which everything ends that is to end.
const PATIENCE: u32 = 20_000;
/// Bytes that the engine may hold for each byte that was sent.
const FACTOR: usize = 64;
/// And what it may hold in any case, such as room for a message that has begun.
const ROOM: usize = 3 << 20;

fuzz_target!(|input: Input| {
    // Buffers outlive all endpoints.
    let mut exchange = Exchange::default();
    let mut local = Victim::default();
    let [mut honest, mut victim, hostile] = endpoints();
    let mut hostile = Hostile::new(hostile);
    let before = allocated();
    for step in &input.steps.0 {
        match *step {
            Step::Control(ref control) => {
                // A peer is told the names of operations that it takes part in, and may guess others.
                let mine = local.requests().chain(exchange.requests());
                hostile.names = mine.map(|request| victim.name(request)).collect();
                hostile.say(control);
            }
            Step::Local(ref what) => local.act(&mut victim, what),
            Step::RestartPhase => {
                victim.progress();
            }
            Step::Honest { to_victim, len } => {
                let (from, to) =
                    if to_victim { (&mut honest, &mut victim) } else { (&mut victim, &mut honest) };
                exchange.start(from, to, len);
            }
        }
        honest.progress();
        if !input.deaf {
            hostile.listen();
        }
    }
    for _ in 0..PATIENCE {
        if exchange.is_over(&mut honest, &mut victim) {
            break;
        }
        if !input.deaf {
            hostile.listen();
        }
    }
    exchange.check();

    let sent = hostile.sent;
    hostile.endpoint.hang_up();
    for _ in 0..PATIENCE {
        victim.progress();
        if local.is_over(&mut victim) && is_gone(&mut victim) {
            break;
        }
    }
    local.check();
    assert!(is_gone(&mut victim), "the hostile peer is gone, and nobody has noticed");
    let bound = before + FACTOR * sent + 2 * (local.bytes + exchange.bytes) + ROOM;
    assert!(allocated() < bound, "{} bytes for {sent} that were sent", allocated() - before);
});

fn endpoints() -> [Endpoint; 3] {
    let settings = Settings {
        outbox: 0,
        unexpected: 100_000,
        unexpected_max: Some(1 << 20),
        ..Settings::default()
    };
    let open = |mut job: Job| job.endpoint_with(settings.clone()).expect("memory and sockets");
    std::thread::scope(|s| {
        let mut jobs = Job::local(3).into_iter();
        let first = jobs.next().expect("three");
        let others: Vec<_> = jobs.map(|job| s.spawn(|| open(job))).collect();
        let first = open(first);
        let mut others = others.into_iter().map(|other| other.join().expect("an endpoint"));
        [first, others.next().expect("three"), others.next().expect("three")]
    })
}

fn is_gone(victim: &mut Endpoint) -> bool {
    match victim.probe((HOSTILE, u64::MAX)) {
        Err(Error::PeerFailed { rank, .. }) => rank == HOSTILE,
        Err(other) => panic!("{other:?}"),
        Ok(_) => false,
    }
}
