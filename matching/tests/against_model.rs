//! Random sequences of all operations, on the engine and on the model, must give the same results.

mod model;

use model::Model;
use proptest::prelude::*;
use proptest::sample::select;
use taffrail_matching::{Arrival, Data, Envelope, Matcher, MessageId, PostId, Posted, Posting};

#[derive(Clone, Debug)]
enum Op {
    Post(Posting),
    Arrive(Envelope),
    /// The same for a receive that is not posted; it arrives as usual if that does not take it.
    ArriveFor {
        posting: Posting,
        envelope: Envelope,
    },
    /// Cancels the receive that got the handle of this index (modulo), which may be stale.
    Cancel(usize),
    Probe(Posting),
    Claim(Posting),
    Take(Posting),
    /// As `Cancel`, for messages.
    TakeMessage(usize),
    Fail(u32),
}

const SOURCES: u32 = 3;
const CONTEXTS: u16 = 2;

fn tag() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..3u64, 2 => select(vec![0x100, 0x101, 1 << 63, u64::MAX])]
}

fn ignore() -> impl Strategy<Value = u64> {
    // More masks than the engine keeps classes and indexes for.
    let rare = vec![1, 2, 3, 0xff, 0xff00, 1 << 63, u64::MAX << 32, !1];
    prop_oneof![6 => Just(0), 3 => Just(u64::MAX), 3 => select(rare)]
}

fn ident() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(0), 1 => 1..3u64]
}

fn posting() -> impl Strategy<Value = Posting> {
    let source = prop_oneof![2 => (0..SOURCES).prop_map(Some), 1 => Just(None)];
    let multi = prop::bool::weighted(0.1);
    (source, 0..CONTEXTS, tag(), ignore(), ident(), multi).prop_map(
        |(source, context, tag, ignore, ident, multi)| Posting {
            source,
            context,
            tag,
            ignore,
            ident,
            multi,
        },
    )
}

fn envelope() -> impl Strategy<Value = Envelope> {
    // Numbers of all kinds: matching does not look at them.
    (0..SOURCES, 0..CONTEXTS, tag(), any::<u32>(), 0..100u64, ident()).prop_map(
        |(source, context, tag, seq, len, ident)| Envelope {
            source,
            context,
            tag,
            seq,
            len,
            ident,
            data: Data::NONE,
        },
    )
}

fn op(posts: u32, arrivals: u32) -> impl Strategy<Value = Op> {
    prop_oneof![
        posts => posting().prop_map(Op::Post),
        arrivals => envelope().prop_map(Op::Arrive),
        arrivals.div_ceil(4) => (posting(), envelope())
            .prop_map(|(posting, envelope)| Op::ArriveFor { posting, envelope }),
        8 => any::<usize>().prop_map(Op::Cancel),
        10 => posting().prop_map(Op::Probe),
        3 => posting().prop_map(Op::Claim),
        3 => posting().prop_map(Op::Take),
        5 => any::<usize>().prop_map(Op::TakeMessage),
        1 => (0..SOURCES).prop_map(Op::Fail),
    ]
}

#[derive(Default)]
struct Pair {
    engine: Matcher<u32, u64>,
    model: Model,
    receives: Vec<(PostId, u32)>,
    messages: Vec<(MessageId, u64)>,
    next: u32,
}

impl Pair {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Post(posting) => self.post(posting)?,
            Op::Arrive(envelope) => self.arrive(&envelope)?,
            Op::ArriveFor { posting, envelope } => {
                let taken = self.engine.is_idle() && posting.takes(&envelope);
                prop_assert_eq!(taken, self.model.arrive_for(&posting, &envelope));
                if !taken {
                    self.arrive(&envelope)?;
                }
            }
            Op::Cancel(index) if !self.receives.is_empty() => {
                let (id, token) = self.receives[index % self.receives.len()];
                prop_assert_eq!(self.engine.cancel(id), self.model.cancel(token));
            }
            Op::Probe(posting) => {
                let probed = self.engine.probe(&posting).map(|(_, e, u)| (*e, *u));
                prop_assert_eq!(probed, self.model.probe(&posting));
            }
            Op::Claim(posting) => {
                let claimed = self.engine.claim(&posting);
                let expected = self.model.claim(&posting);
                prop_assert_eq!(claimed.map(|(_, e)| e), expected.map(|(e, _)| e));
                self.messages.extend(claimed.zip(expected).map(|((id, _), (_, u))| (id, u)));
            }
            Op::Take(posting) => {
                prop_assert_eq!(self.engine.take(&posting), self.model.take(&posting));
            }
            Op::TakeMessage(index) if !self.messages.is_empty() => {
                let (id, payload) = self.messages[index % self.messages.len()];
                prop_assert_eq!(self.engine.take_message(id), self.model.take_message(payload));
            }
            Op::Cancel(_) | Op::TakeMessage(_) => {}
            Op::Fail(source) => {
                prop_assert_eq!(self.engine.fail(source), self.model.fail(source));
            }
        }
        prop_assert_eq!(self.engine.counts(), self.model.counts());
        Ok(())
    }

    fn post(&mut self, posting: Posting) -> Result<(), TestCaseError> {
        let token = self.number();
        let expected = self.model.take(&posting);
        match self.engine.post(posting, token) {
            Posted::Matched(envelope, payload) => {
                prop_assert_eq!(Some((envelope, payload)), expected);
            }
            Posted::Queued(id) => {
                prop_assert_eq!(None, expected);
                self.model.posted.push((posting, token));
                self.receives.push((id, token));
            }
        }
        Ok(())
    }

    fn arrive(&mut self, envelope: &Envelope) -> Result<(), TestCaseError> {
        let arrival = self.engine.arrive(envelope);
        prop_assert_eq!(arrival, self.model.arrive(envelope));
        let payload = u64::from(self.number());
        match arrival {
            Arrival::Matched(_) => {}
            Arrival::Unmatched => {
                let id = self.engine.store_unexpected(envelope, payload);
                self.messages.push((id, payload));
                self.model.unexpected.push((*envelope, payload));
            }
        }
        Ok(())
    }

    fn compare_reports(&self) -> Result<(), TestCaseError> {
        let posted: Vec<_> = self.engine.posted().iter().map(|w| (w.posting, w.token)).collect();
        let bare = |(p, token): &(Posting, u32)| (Posting { tag: p.tag & !p.ignore, ..*p }, *token);
        prop_assert_eq!(posted, self.model.posted.iter().map(bare).collect::<Vec<_>>());

        let unexpected: Vec<_> = self.engine.unexpected().map(|(_, e, u)| (*e, *u)).collect();
        prop_assert_eq!(&unexpected, &self.model.unexpected);
        for source in 0..SOURCES {
            let of_source: Vec<_> =
                self.engine.unexpected_from(source).map(|(_, e, u)| (*e, *u)).collect();
            let mut expected = unexpected.clone();
            expected.retain(|(envelope, _)| envelope.source == source);
            prop_assert_eq!(of_source, expected);
        }
        for (number, envelope, payload) in self.engine.unexpected() {
            prop_assert!(self.messages.contains(&(number, *payload)), "{number:?} of {envelope:?}");
        }

        let in_order = |mut list: Vec<(Envelope, u64)>| {
            list.sort_by_key(|(_, payload)| *payload);
            list
        };
        let claimed = self.engine.claimed().map(|(_, e, u)| (*e, *u)).collect();
        prop_assert_eq!(in_order(claimed), in_order(self.model.claimed.clone()));
        Ok(())
    }
}

fn run(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut pair = Pair::default();
    for (number, op) in ops.into_iter().enumerate() {
        pair.step(op)?;
        if number % 32 == 0 {
            pair.compare_reports()?;
        }
    }
    pair.compare_reports()
}

proptest! {
    #[test]
    fn balanced(ops in prop::collection::vec(op(40, 40), 1..300)) {
        run(ops)?;
    }

    #[test]
    fn many_receives_wait(ops in prop::collection::vec(op(100, 30), 1..600)) {
        run(ops)?;
    }

    #[test]
    fn many_messages_wait(ops in prop::collection::vec(op(20, 120), 1..600)) {
        run(ops)?;
    }

    #[test]
    fn hardly_anything_waits(ops in prop::collection::vec(op(5, 2), 1..60)) {
        run(ops)?;
    }
}
