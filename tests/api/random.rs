//! Random programs of 2 to 4 ranks, checked against what the rules of matching allow.
//!
//! Each rank starts all its sends and receives, in any order, then hears from everybody that nothing
//! more will come, cancels the receives that are left and takes the messages that are left. Which
//! source an any-source receive hears is a matter of time; everything else follows from the order in
//! which a rank posted its receives and its peers started their sends: taken in that order, each
//! receive must have got the first message of its source that fits and was not taken before.

use crate::common::*;
use crate::world::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::io::{IoSlice, IoSliceMut};
use taffrail::{Dest, Endpoint, Error, Pattern, Request, Status};

in_every_world!(any_program_ends_as_the_rules_say,);

/// The context of the messages that say that nothing more will come.
const END: u16 = 77;
const CONTEXTS: u16 = 2;
const TAGS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Send {
        to: u32,
        context: u16,
        tag: u64,
        len: usize,
        how: Sending,
    },
    Receive {
        from: Pattern,
        room: usize,
        scattered: bool,
    },
    /// Some turns.
    Turns(u8),
}

#[derive(Clone, Copy, Debug)]
enum Sending {
    Plain,
    Sync,
    Gathered,
    Loan,
}

#[derive(Clone, Debug)]
struct Program {
    /// Which of the variants of settings.
    variant: usize,
    ranks: Vec<Vec<Step>>,
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..50usize,
        2 => 50..300usize,
        2 => 300..5000usize,
        1 => 15_000..18_000usize,
        1 => 60_000..150_000usize,
        1 => 300_000..600_000usize,
    ]
}

fn step(n: u32) -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        4 => Just(Sending::Plain),
        1 => Just(Sending::Sync),
        1 => Just(Sending::Gathered),
        1 => Just(Sending::Loan),
    ];
    let send = (0..n, 0..CONTEXTS, 0..TAGS, lens(), how)
        .prop_map(|(to, context, tag, len, how)| Step::Send { to, context, tag, len, how });
    let from =
        (prop::option::of(0..n), 0..CONTEXTS, 0..TAGS, prop_oneof![Just(0), Just(1), Just(!0)])
            .prop_map(|(source, context, tag, ignore)| Pattern { source, context, tag, ignore });
    let room = prop_oneof![5 => Just(600_000usize), 1 => lens()];
    let receive = (from, room, any::<bool>()).prop_map(|(from, room, scattered)| Step::Receive {
        from,
        room,
        scattered,
    });
    prop_oneof![8 => send, 8 => receive, 1 => any::<u8>().prop_map(Step::Turns)]
}

fn program() -> impl Strategy<Value = Program> {
    (0..variants().len(), 2..=4u32).prop_flat_map(|(variant, n)| {
        let rank = prop::collection::vec(step(n), 0..40);
        prop::collection::vec(rank, n as usize).prop_map(move |ranks| Program { variant, ranks })
    })
}

/// What became of a receive.
#[derive(Debug)]
struct Outcome {
    from: Pattern,
    room: usize,
    result: Result<Status, Error>,
    /// What it got, as far as there was room.
    bytes: Vec<u8>,
}

/// A message, as its sender knows it.
#[derive(Debug)]
struct Message {
    context: u16,
    tag: u64,
    len: usize,
    salt: u64,
    taken: bool,
}

/// The messages of rank `source` to rank `to`, in the order sent.
fn messages(program: &Program, source: u32, to: u32) -> Vec<Message> {
    (0u64..)
        .zip(&program.ranks[source as usize])
        .filter_map(|(k, step)| match *step {
            Step::Send { to: t, context, tag, len, .. } if t == to => {
                let salt = u64::from(source) << 32 | k;
                Some(Message { context, tag, len, salt, taken: false })
            }
            _ => None,
        })
        .collect()
}

/// Runs one rank's part.
fn run(ep: &mut Endpoint<impl Transport>, steps: &[Step]) -> Vec<Outcome> {
    let me = ep.rank();
    let mut data: Vec<Vec<u8>> = Vec::new();
    let mut sends: Vec<Request> = Vec::new();
    let mut receives: Vec<(Request, Outcome)> = Vec::new();
    for (k, step) in (0u64..).zip(steps) {
        match *step {
            Step::Turns(turns) => {
                for _ in 0..turns {
                    ep.progress();
                }
            }
            Step::Send { to, context, tag, len, how } => {
                let dest = Dest::new(to, tag).context(context);
                let bytes = pattern(len, u64::from(me) << 32 | k);
                // SAFETY: the bytes stay where they are until everything is over.
                let request = unsafe {
                    match how {
                        Sending::Plain => ep.isend_raw(dest, bytes.as_ptr(), len),
                        Sending::Sync => ep.isend_sync_raw(dest, bytes.as_ptr(), len),
                        Sending::Gathered => {
                            let (front, back) = bytes.split_at(len / 3);
                            let parts =
                                [IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(back)];
                            ep.isend_vectored_raw(dest, &parts)
                        }
                        Sending::Loan => {
                            let mut buffer = ep.alloc(len).unwrap();
                            buffer.copy_from_slice(&bytes);
                            ep.loan(dest, buffer).unwrap();
                            continue;
                        }
                    }
                };
                sends.push(request.unwrap());
                data.push(bytes);
            }
            Step::Receive { from, room, scattered } => {
                let mut bytes = vec![0; room];
                // SAFETY: as above.
                let request = unsafe {
                    if scattered {
                        let (front, back) = bytes.split_at_mut(room / 2);
                        let mut parts = [IoSliceMut::new(front), IoSliceMut::new(back)];
                        ep.irecv_vectored_raw(from, &mut parts)
                    } else {
                        ep.irecv_raw(from, bytes.as_mut_ptr(), room)
                    }
                };
                let result = Err(Error::Cancelled);
                receives.push((request.unwrap(), Outcome { from, room, result, bytes }));
            }
        }
    }
    for peer in 0..ep.size() {
        // SAFETY: there are no bytes.
        let end = unsafe { ep.isend_raw(Dest::new(peer, 0).context(END), std::ptr::null(), 0) };
        sends.push(end.unwrap());
    }
    for peer in 0..ep.size() {
        ep.recv(Pattern::new(peer, 0).context(END), &mut []).unwrap();
    }
    // Everything is here now, or announced. A receive that can be cancelled is not matched.
    let mut outcomes = Vec::new();
    for (request, mut outcome) in receives {
        ep.cancel(request).unwrap();
        outcome.result = ep.wait(request);
        outcomes.push(outcome);
    }
    for context in 0..CONTEXTS {
        let from = Pattern::any_source(0).ignore(!0).context(context);
        while ep.probe(from).unwrap().is_some() {
            let mut bytes = vec![0; 600_000];
            let result = ep.recv(from, &mut bytes);
            outcomes.push(Outcome { from, room: bytes.len(), result, bytes });
        }
    }
    ep.wait_all(&sends).unwrap();
    outcomes
}

/// Checks one rank's outcomes.
fn judge(program: &Program, me: u32, outcomes: &[Outcome]) -> Result<(), TestCaseError> {
    let n = program.ranks.len() as u32;
    let mut channels: Vec<_> = (0..n).map(|source| messages(program, source, me)).collect();
    for (k, outcome) in outcomes.iter().enumerate() {
        let Outcome { from, room, result, bytes } = outcome;
        let fits = |source: u32, m: &Message| {
            !m.taken && m.context == from.context && from.takes(source, m.tag)
        };
        let (source, tag, len) = match *result {
            Ok(Status { source, tag, len, .. }) => (source, tag, len),
            Err(Error::Truncated { len, room: r, source_rank, tag, .. }) => {
                prop_assert!(r == *room && len > *room, "rank {}, receive {}: {:?}", me, k, result);
                (source_rank, tag, len)
            }
            Err(Error::Cancelled) => {
                for (source, channel) in (0..).zip(&channels) {
                    let missed = channel.iter().find(|m| fits(source, m));
                    prop_assert!(missed.is_none(), "rank {}, receive {}: {:?}", me, k, missed);
                }
                continue;
            }
            ref other => return Err(TestCaseError::fail(format!("rank {me}, {k}: {other:?}"))),
        };
        let first = channels[source as usize].iter_mut().find(|m| fits(source, m));
        let Some(message) = first else {
            return Err(TestCaseError::fail(format!("rank {me}, {k}: nothing fits {outcome:?}")));
        };
        message.taken = true;
        prop_assert_eq!((tag, len), (message.tag, message.len), "rank {}, receive {}", me, k);
        let here = len.min(*room);
        let same = bytes[..here] == pattern(len, message.salt)[..here];
        prop_assert!(same, "rank {}, receive {}: wrong bytes of {:?}", me, k, message);
        prop_assert!(bytes[here..].iter().all(|&b| b == 0), "rank {}, receive {}: beyond", me, k);
    }
    let lost = channels.iter().flatten().find(|m| !m.taken);
    prop_assert!(lost.is_none(), "rank {}: {:?} was not received", me, lost);
    Ok(())
}

fn any_program_ends_as_the_rules_say<W: World>() {
    let seed: u64 = match std::env::var("TAFFRAIL_TEST_SEED") {
        Ok(seed) => seed.parse().expect("TAFFRAIL_TEST_SEED is a number"),
        Err(_) => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
    };
    let again =
        format!("(again: TAFFRAIL_TEST_SEED={seed} cargo test -p taffrail --test api random)");
    *NOTE.lock().unwrap() = again.clone();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { cases: 64, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, rng).run(&program(), |program| {
        let settings = &variants()[program.variant].1;
        let outcomes = on_ranks_with::<W, _>(program.ranks.len() as u32, settings, |ep| {
            let rank = ep.rank();
            run(ep, &program.ranks[rank as usize])
        });
        for (me, outcomes) in (0..).zip(&outcomes) {
            judge(&program, me, outcomes)?;
        }
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, program)) => panic!("{why} {again}\n{program:#?}"),
        Err(other) => panic!("{other} {again}"),
    }
}
