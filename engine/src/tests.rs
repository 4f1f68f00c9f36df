//! The engine over fabrics of every kind: what is sent arrives, whole and in order, however the fabric hands it over.

pub(crate) mod finished;
mod flow;
mod former;
mod leased;

use super::policy::{NoLogging, Policy};
use super::{Engine, Sizes};
use crate::clock::Clock;
use crate::{Data, Dest, Pattern, Rank};
use std::io::IoSliceMut;
use taffrail_fabric::faulty::{Faults, Faulty, Leasing, Mixed, Streaming, Trouble};
use taffrail_fabric::loopback::mesh;
use taffrail_fabric::{Fabric, Life, Membership, PeerId, SendMemory, Source};
use taffrail_logging::PeerNumbers;

pub(crate) type Plain<F> = Engine<F, NoLogging>;

/// Verdicts that are handed over at the next look.
pub(crate) struct Verdicts(pub(crate) Vec<(PeerId, Life)>);

impl Membership for Verdicts {
    fn poll(&mut self, verdict: &mut dyn FnMut(PeerId, Life)) {
        self.0.drain(..).for_each(|(peer, life)| verdict(peer, life));
    }
}

/// Lengths around every limit of the fabrics and of [`engines`].
const LENS: [usize; 9] = [0, 1, 8, 63, 200, 1500, 5000, 40_000, 300_000];
/// Turns without an end after which something is stuck.
const STUCK: usize = 2_000_000;

pub(crate) fn engines<F: Fabric + SendMemory>(mesh: Vec<F>) -> Vec<Plain<F>> {
    engines_with(mesh, || NoLogging)
}

pub(crate) fn engines_with<F: Fabric + SendMemory, P: Policy>(
    mesh: Vec<F>,
    policy: impl Fn() -> P,
) -> Vec<Engine<F, P>> {
    let size = mesh.len() as u32;
    let engine = |fabric: F| {
        let limits = fabric.limits(fabric.me());
        let fragment = 1024.min(limits.max_message - 8);
        let sizes = Sizes {
            fragment,
            rndv_fragment: (2 * fragment).min(limits.max_message - 8),
            by_peer: false,
            logged_fragment: fragment,
            eager_max: 8192,
            way: None,
            unexpected: 1 << 20,
            unexpected_max: usize::MAX,
        };
        Engine::new(fabric, policy(), size, sizes, Clock::new(std::time::Instant::now))
    };
    mesh.into_iter().map(engine).collect()
}

/// A message of the test, and where it is received.
struct Message {
    from: Rank,
    to: Rank,
    tag: u64,
    sync: bool,
    any_source: bool,
    scattered: bool,
    sent: Vec<u8>,
    /// The memory that it is sent from: used for something else as soon as its send is over.
    source: Vec<u8>,
    got: Vec<u8>,
    requests: (Option<u32>, Option<u32>),
}

impl Message {
    fn random(rng: &mut fastrand::Rng, size: u32, tag: u64, lens: &[usize]) -> Message {
        let len = *rng.choice(lens).unwrap() + rng.usize(0..3);
        let sent: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
        Message {
            from: rng.u32(0..size),
            to: rng.u32(0..size),
            tag,
            sync: rng.u8(..) < 40,
            any_source: rng.bool(),
            scattered: rng.u8(..) < 60,
            source: sent.clone(),
            sent,
            got: vec![0; len],
            requests: (None, None),
        }
    }

    fn send<F: Fabric + SendMemory, P: Policy>(&mut self, engines: &mut [Engine<F, P>]) {
        let to = Dest { rank: self.to, context: 3, tag: self.tag, data: Data::NONE };
        let engine = &mut engines[self.from as usize];
        // SAFETY: the message outlives its requests: both are finished before it is dropped.
        let started =
            unsafe { engine.start_send(to, self.source.as_ptr(), self.source.len(), self.sync) };
        self.requests.0 = Some(started.unwrap());
    }

    fn receive<F: Fabric + SendMemory, P: Policy>(&mut self, engines: &mut [Engine<F, P>]) {
        let source = (!self.any_source).then_some(self.from);
        let from = Pattern { source, context: 3, tag: self.tag, ignore: 0 };
        let engine = &mut engines[self.to as usize];
        let len = self.got.len();
        // SAFETY: as above.
        let started = unsafe {
            if self.scattered {
                let (first, rest) = self.got.split_at_mut(len / 3);
                let (second, third) = rest.split_at_mut(rest.len() / 2);
                let mut into = [first, second, third].map(IoSliceMut::new);
                engine.start_recv_vectored(from, &mut into)
            } else {
                engine.start_recv(from, self.got.as_mut_ptr(), len)
            }
        };
        self.requests.1 = Some(started.unwrap());
    }

    fn is_over<F: Fabric + SendMemory, P: Policy>(&mut self, engines: &mut [Engine<F, P>]) -> bool {
        let over = |engine: &mut Engine<F, P>, request: Option<u32>| {
            engine.core.requests.get(request.unwrap()).stage.is_over()
        };
        let is_sent = over(&mut engines[self.from as usize], self.requests.0);
        if is_sent {
            self.source.fill(0xee);
        }
        is_sent && over(&mut engines[self.to as usize], self.requests.1)
    }

    fn check<F: Fabric + SendMemory, P: Policy>(self, engines: &mut [Engine<F, P>]) {
        let finish = |engine: &mut Engine<F, P>, request: Option<u32>| {
            engine.core.requests.finish(request.unwrap()).unwrap()
        };
        finish(&mut engines[self.from as usize], self.requests.0);
        let status = finish(&mut engines[self.to as usize], self.requests.1);
        assert_eq!((status.source, status.tag), (self.from, self.tag));
        assert_eq!(status.len, self.sent.len());
        assert!(self.sent == self.got, "message {} of {} bytes", self.tag, self.sent.len());
    }
}

/// Whether all are over; each is asked.
fn are_over<F: Fabric + SendMemory, P: Policy>(
    messages: &mut [Message],
    engines: &mut [Engine<F, P>],
) -> bool {
    let mut all = true;
    for message in messages {
        all &= message.is_over(engines);
    }
    all
}

/// Random messages, of which some are received before and some after they are sent.
fn exchange<F: Fabric + SendMemory>(mesh: Vec<F>, seed: u64, rounds: usize) {
    let mut engines = engines(mesh);
    exchange_between(&mut engines, seed, rounds);
}

fn exchange_between<F: Fabric + SendMemory, P: Policy>(
    engines: &mut [Engine<F, P>],
    seed: u64,
    rounds: usize,
) {
    exchange_of(&LENS, engines, seed, rounds);
}

/// As [`exchange_between`], of messages of about these lengths.
pub(crate) fn exchange_of<F: Fabric + SendMemory, P: Policy>(
    lens: &[usize],
    engines: &mut [Engine<F, P>],
    seed: u64,
    rounds: usize,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let size = engines.len() as u32;
    for round in 0..rounds {
        let mut messages: Vec<Message> = (0..20)
            .map(|k| Message::random(&mut rng, size, (round * 20 + k) as u64, lens))
            .collect();
        // Each message is sent, and received, at a moment of its own.
        let mut steps: Vec<usize> = (0..messages.len()).flat_map(|k| [k, k]).collect();
        rng.shuffle(&mut steps);
        for step in steps {
            let message = &mut messages[step];
            match message.requests {
                (None, None) if rng.bool() => message.send(engines),
                (None, None) | (Some(_), None) => message.receive(engines),
                (None, Some(_)) => message.send(engines),
                (Some(_), Some(_)) => unreachable!("two steps for each"),
            }
            if rng.bool() {
                engines.iter_mut().for_each(|engine| _ = engine.progress());
            }
        }
        let mut turns = 0;
        while !are_over(&mut messages, engines) {
            engines.iter_mut().for_each(|engine| _ = engine.progress());
            turns += 1;
            assert!(turns < STUCK, "round {round} of seed {seed} is stuck");
        }
        messages.into_iter().for_each(|message| message.check(engines));
    }
    assert!(engines.iter().all(|engine| engine.core.requests.under_way().next().is_none()));
}

/// A seed for this run, printed if the test fails.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("TAFFRAIL_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("repeat with TAFFRAIL_SEED={seed}");
    seed
}

pub(crate) fn trouble(seed: u64) -> Faults {
    Faults::trouble(Trouble::all(seed))
}

/// Every protocol, while the numbers of its channel come round to 0.
#[test]
fn numbers_wrap_around() {
    const START: u32 = u32::MAX - 5;
    let mut engines = engines(mesh(2));
    for engine in &mut engines {
        for peer in 0..2 {
            let PeerNumbers { sent, expected } = engine.core.numbers.of_mut(peer);
            [sent, expected].into_iter().for_each(|numbers| numbers.set(3, START));
        }
    }
    exchange_between(&mut engines, seed(), 10);
    let next = |from: usize, to: u32| engines[from].core.numbers.of(to).expected.next(3);
    assert!(
        (0..2).all(|from| (0..2).all(|to| next(from, to) < 200)),
        "all channels have come round"
    );
}

#[test]
fn over_loopback() {
    exchange(mesh(3), seed(), 20);
}

#[test]
fn over_a_fabric_in_trouble() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Faulty::<_>::new(fabric, trouble(seed)));
    exchange(mesh.collect(), seed, 20);
}

#[test]
fn over_a_fabric_that_streams() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Streaming::new(fabric, trouble(seed)));
    exchange(mesh.collect(), seed, 30);
}

#[test]
fn over_a_fabric_that_leases() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Leasing::new(fabric, trouble(seed)));
    exchange(mesh.collect(), seed, 20);
}

#[test]
fn over_a_fabric_with_bodies_of_every_kind() {
    let seed = seed();
    let mesh = mesh(3).into_iter().map(|fabric| Mixed::new(fabric, trouble(seed)));
    exchange(mesh.collect(), seed, 30);
}

#[test]
fn over_sockets() {
    exchange(taffrail_tcp::over_unix(3, taffrail_tcp::Config::default()).unwrap(), seed(), 30);
    exchange(taffrail_tcp::over_tcp(3, taffrail_tcp::Config::default()).unwrap(), seed(), 30);
}

/// The rest of a message comes into memory that is named when it is matched, piece by piece.
#[test]
fn over_sockets_whose_messages_all_are_streams() {
    let config = taffrail_tcp::Config { whole: 16, ..taffrail_tcp::Config::default() };
    exchange(taffrail_tcp::over_unix(2, config).unwrap(), seed(), 30);
}

/// What was sent is in a socket's queue, and lost if the fabric goes now.
#[test]
fn a_rank_finalises_when_the_fabric_has_sent_everything() {
    let mesh = taffrail_tcp::over_unix(2, taffrail_tcp::Config::default()).unwrap();
    let mut engines = engines(mesh);
    let bytes = [7; 1000];
    let mut sent = 0;
    while engines[0].fabric.flushed(PeerId(1)) {
        let to = Dest { rank: 1, context: 3, tag: sent, data: Data::NONE };
        assert!(engines[0].send_now(&to, Source::Bytes(&bytes), bytes.len()).unwrap());
        sent += 1;
    }
    engines[0].begin_to_finalize();
    assert!(!engines[0].tx.has_backlog() && !engines[0].is_finalized());
    let mut turns = 0;
    while !engines[0].is_finalized() {
        engines.iter_mut().for_each(|engine| _ = engine.progress());
        turns += 1;
        assert!(turns < STUCK);
    }
    assert!(engines[0].fabric.flushed(PeerId(1)));
    engines.remove(0);
    while engines[0].core.matcher.unexpected().count() < sent as usize {
        engines[0].progress();
    }
}
