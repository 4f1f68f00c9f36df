//! A policy that the engine does not know, over a fabric that keeps no order: a message is known by its source and an id
//! that the policy has given it, and is admitted if that has not come before.

use super::calls::{Calls, Decision};
use super::protocol::{Checkpoints, Recovery, Replays, Sends};
use super::rx::RxPolicy;
use super::*;
use crate::call::{Operation, Outcome};
use crate::core::Core;
use crate::frame::MsgHead;
use crate::tests::{engines_with, exchange_of, seed, trouble};
use crate::tx::transmit;
use std::collections::HashSet;
use taffrail_fabric::Source;
use taffrail_fabric::faulty::{Faulty, Unordered};
use taffrail_fabric::loopback::mesh;
use taffrail_logging::{Admit, MsgId};

mod coordinated;

/// Lengths of messages that come in one frame, or by an RTS. Fragments of one that comes unasked have to come in order.
const LENS: [usize; 7] = [0, 1, 8, 63, 200, 900, 300_000];

#[derive(Default)]
struct Ids {
    /// The id of the last message sent.
    next: u32,
    here: HashSet<(Rank, u32)>,
    /// Messages that came behind one with a later id.
    late: usize,
    last: Vec<u32>,
}

impl Policy for Ids {
    type First = Ids;
    type Second = Ids;

    fn is_second(&self) -> bool {
        false
    }

    /// Ids are those of the rank, whatever the channel.
    fn number<'a>(&'a mut self, _: &'a mut Numbers, _: Rank, _: u16) -> Next<'a> {
        Next::new(&mut self.next)
    }
}

impl RxPolicy<Ids> for Ids {
    fn admit_next(core: &mut Core<Ids>, message: MsgId) -> bool {
        let ids = &mut core.policy;
        let is_new = ids.here.insert((message.source, message.seq));
        ids.last.resize(ids.last.len().max(message.source as usize + 1), 0);
        let last = &mut ids.last[message.source as usize];
        ids.late += usize::from(message.seq < *last);
        *last = message.seq.max(*last);
        is_new
    }

    fn admit_other(_: &mut Core<Ids>, _: MsgId) -> Admit {
        Admit::Duplicate
    }

    fn matched(_: &mut Core<Ids>, _: u32, _: MsgId) {}
    fn received_directly(_: &mut Core<Ids>, _: bool, _: MsgId) {}
}

impl Calls<Ids> for Ids {
    const POLLS_END_ANY_SOURCE: bool = false;
    const USES_EMPTY_POLLS: bool = false;

    fn ask(_: &mut Core<Ids>, _: &Operation<'_>) -> Decision {
        Decision::Free
    }

    fn record(_: &mut Core<Ids>, _: &Operation<'_>, _: &Outcome) {}
    fn prepare(_: &mut Core<Ids>) {}
}

#[test]
fn messages_with_ids_come_once_in_any_order() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Faulty::<_, false>::new(fabric, trouble(seed)));
    let mut engines = engines_with(mesh.collect(), Ids::default);
    for engine in &mut engines {
        engine.sizes.eager_max = engine.sizes.fragment;
    }
    exchange_of(&LENS, &mut engines, seed, 30);
    assert!(engines.iter().all(|engine| engine.core.policy.late > 0), "order was never changed");

    // What has come comes once more.
    let sent = engines[0].core.policy.next;
    let here = engines[1].core.policy.here.clone();
    for seq in (0..sent).filter(|&seq| here.contains(&(0, seq))) {
        let frame = Frame::Eager { msg: MsgHead { context: 3, seq, tag: seq.into() } };
        while transmit(&mut engines[0].fabric, 1, &frame, Source::Bytes(b"again")).is_err() {
            engines[1].progress();
        }
    }
    (0..1000).for_each(|_| _ = engines[1].progress());
    assert_eq!(engines[1].core.matcher.unexpected().count(), 0);
    assert_eq!(engines[1].core.policy.here, here);
}

/// The same with bodies that come as streams and in buffers that can be kept.
#[test]
fn bodies_of_every_kind_come_once_in_any_order() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Unordered::new(fabric, trouble(seed)));
    let mut engines = engines_with(mesh.collect(), Ids::default);
    for engine in &mut engines {
        engine.sizes.eager_max = engine.sizes.fragment;
    }
    exchange_of(&LENS, &mut engines, seed, 30);
}

impl Sends<Ids> for Ids {}
impl Replays<Ids> for Ids {}
impl Recovery<Ids> for Ids {}
impl Checkpoints<Ids> for Ids {}
