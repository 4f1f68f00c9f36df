//! Single situations, step by step.

use super::memory::{Ram, pattern};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail_fabric::{
    Body, Fabric, Fault, Head, Incarnation, LinkEvent, LogRange, PeerId, Refused, SendMemory, Sent,
    Sink, Source, Take, Token,
};
use taffrail_sim::fabric::{Amount, Settings, SimFabric, SimNet, Step};

type Net = SimNet<true, true, false>;
type Simulated = SimFabric<true, true, false>;

const ALL: Amount = Amount::All;

/// Writes down what it is given.
#[derive(Default)]
struct Seen {
    messages: Vec<Vec<u8>>,
    ended: Vec<(Token, bool)>,
    links: Vec<LinkEvent>,
}

impl Sink for Seen {
    fn message(&mut self, _: PeerId, _: Head, body: Body<'_>) -> Take {
        self.messages.push(body.here().to_vec());
        Take::Done
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        self.ended.push((token, result.is_ok()));
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.ended.push((token, result.is_ok()));
    }

    fn link(&mut self, _: PeerId, event: LinkEvent) {
        self.links.push(event);
    }
}

fn two() -> (Net, Simulated, Simulated) {
    let net = Net::new(2, Settings::small());
    let (a, b) = (net.open(0), net.open(1));
    (net, a, b)
}

fn polled(fabric: &mut Simulated) -> Seen {
    let mut seen = Seen::default();
    while fabric.poll(&mut seen) > 0 {}
    seen
}

/// Does all that can happen of this kind.
fn all(net: &Net, which: impl Fn(&Step) -> bool) -> usize {
    let mut count = 0;
    while let Some(step) = net.possible().into_iter().find(|step| which(step)) {
        assert!(net.step(step));
        count += 1;
    }
    count
}

#[test]
fn a_segment_is_used_while_a_peer_gets_from_it() {
    let (net, mut a, mut b) = two();
    let segment = a.take().expect("memory").expect("a segment");
    a.write(segment, 0, b"logged");
    let memory = a.segment(segment).bytes;
    let key = a.bare_key(PeerId(1), memory).expect("bare keys are offered");
    let into = Ram::new(&[0; 6]);
    b.get(PeerId(0), &key, 0, into.buf(), Token(9)).expect("it is offered");
    a.release(segment);
    assert!(a.uses(segment));
    assert_ne!(a.take().expect("memory").expect("another segment"), segment);
    let parts = all(&net, |step| matches!(step, Step::Move(_, Amount::Part)));
    assert_eq!(parts, 5, "2, 1, 1, 1 and 1 of 6 bytes");
    assert_eq!(all(&net, |step| matches!(step, Step::Moved(_))), 1);
    assert_eq!(polled(&mut b).ended, [(Token(9), true)]);
    assert_eq!(into.all(), b"logged");
    assert!(!a.uses(segment));
    assert_eq!(a.take().expect("memory").expect("it is free again"), segment);
}

#[test]
fn a_segment_of_another_fabric_is_used_until_its_message_is_carried() {
    let (net, mut a, mut b) = two();
    // The owner is a fabric of the same process, in another network.
    let mut owner = Net::new(1, Settings::small()).open(0);
    let segment = owner.take().expect("memory").expect("a segment");
    owner.write(segment, 0, &pattern(1, 20));
    a.adopt(owner.segment(segment)).expect("it is adopted");
    let range = LogRange { segment, at: 4, len: 16 };
    assert_eq!(a.send(PeerId(1), Head::default(), Source::Log(range)), Ok(Sent::Now));
    assert!(a.uses(segment));
    assert!(net.step(Step::Carry { from: 0, to: 1, at: 0, amount: ALL }));
    assert!(!a.uses(segment));
    assert_eq!(polled(&mut b).messages, [pattern(1, 20)[4..].to_vec()]);
}

#[test]
fn a_segment_that_is_written_too_early_is_reported() {
    let (net, mut a, _b) = two();
    let segment = a.take().expect("memory").expect("a segment");
    a.write(segment, 0, b"before");
    let range = LogRange { segment, at: 0, len: 6 };
    a.send(PeerId(1), Head::default(), Source::Log(range)).expect("room");
    a.write(segment, 3, b"!");
    assert!(net.violations().is_empty(), "nobody has read it yet");
    net.step(Step::Carry { from: 0, to: 1, at: 0, amount: ALL });
    let violations = net.violations();
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].rule, "kept-buffers");
}

#[test]
fn a_step_that_is_not_possible_is_skipped() {
    let (net, ..) = two();
    for step in [
        Step::Carry { from: 0, to: 1, at: 0, amount: ALL },
        Step::More { from: 0, to: 1, amount: ALL },
        Step::Sent(1),
        Step::Move(1, ALL),
        Step::Moved(1),
        Step::Notice { rank: 0, peer: 1 },
        Step::Connect(0, 1),
        Step::Verdict { to: 0, of: 1, newest: false },
        Step::Free { from: 0, to: 1 },
        Step::Restart(1),
        Step::Kill { rank: 7, lingers: true },
    ] {
        assert!(!net.step(step), "{step}");
    }
    assert!(net.possible().iter().all(|step| !step.is_calm()), "nothing happens by itself");
}

#[test]
fn a_link_heals_between_the_same_incarnations() {
    let (net, mut a, mut b) = two();
    a.send(PeerId(1), Head::default(), Source::Bytes(b"lost")).expect("room");
    assert!(net.step(Step::Break(0, 1)));
    a.send(PeerId(1), Head::default(), Source::Bytes(b"too")).expect("it has not noticed");
    assert!(net.step(Step::Notice { rank: 0, peer: 1 }));
    let late = a.send(PeerId(1), Head::default(), Source::Bytes(b"late"));
    assert!(matches!(late, Err(Refused::Failed(Fault::Lost(_)))), "{late:?}");
    assert!(!net.step(Step::Connect(0, 1)), "the other end has not noticed");
    assert!(net.step(Step::Notice { rank: 1, peer: 0 }));
    assert!(net.step(Step::Connect(0, 1)));
    for fabric in [&mut a, &mut b] {
        let seen = polled(fabric);
        assert!(seen.messages.is_empty());
        let ended = |event: &LinkEvent| matches!(event, LinkEvent::Broken(Fault::Lost(_)));
        assert!(ended(&seen.links[0]), "{:?}", seen.links);
        assert_eq!(seen.links[1..], [LinkEvent::Up(Incarnation(0))]);
    }
    a.send(PeerId(1), Head::default(), Source::Bytes(b"again")).expect("a link");
    assert!(net.step(Step::Carry { from: 0, to: 1, at: 0, amount: ALL }));
    assert_eq!(polled(&mut b).messages, [b"again"]);
}

#[test]
fn a_dead_process_calls_nothing_and_closes_nothing() {
    let (net, a, mut b) = two();
    assert!(net.step(Step::Kill { rank: 0, lingers: false }));
    let call = || a.drained(PeerId(1), Incarnation(0));
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    drop(a);
    assert!(net.step(Step::Notice { rank: 1, peer: 0 }));
    let links = polled(&mut b).links;
    assert!(matches!(links[..], [LinkEvent::Broken(Fault::Lost(_))]), "{links:?}");
}
