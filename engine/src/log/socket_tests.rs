//! Two ranks over a pair of sockets, both logged. One of them is killed, again and again: its sockets close without a
//! word, and its next process has its events and nothing else.

use super::host::vectors::{EventVec, ReplayedVec, SpillMap, Vectors, config};
use super::host::{LogParts, LoggingConfig};
use super::*;
use crate::call::{Call, Operation, Outcome};
use crate::clock::Clock;
use crate::policy::calls::Decision;
use crate::{Data, Dest, Engine, Pattern, Sizes};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::task::Poll;
use taffrail_fabric::{Fabric, Incarnation, PeerId, SendMemory};
use taffrail_logging::Event;
use taffrail_tcp::{Config, Connection, TcpFabric};

type Rank0Or1 = Engine<TcpFabric, Logging<Vectors>>;

/// Messages of rank 0, each of which is answered.
const MESSAGES: usize = 60;
/// Messages that may be without an answer.
const AHEAD: usize = 5;
/// One of 1500 bytes leaves whole, and, if fragments are short, has two of them in the log.
const LENS: [usize; 6] = [8, 0, 300, 1500, 5000, 90_000];
/// Bytes of a fragment. Of a short one that is sent before it is logged the fabric has a copy, of a long one its places in the log.
const SHORT: usize = 1 << 10;
const LONG: usize = 80 << 10;
/// Most leave before they are logged, in several fragments, and several of them are more than the socket takes: one that is killed
/// has sent what no log has, of a message in part.
const ANSWER_LENS: [usize; 5] = [16, 1500, 90_000, 5000, 200_000];
const MOST: usize = 200_000;
/// Turns without an end after which something is stuck.
const STUCK: usize = 200_000;

fn connection(peer: Rank, incarnation: u32, socket: UnixStream) -> Connection {
    let socket = OwnedFd::from(socket);
    Connection { peer: PeerId(peer), incarnation: Incarnation(incarnation), socket }
}

/// The engine of a rank whose processes before have written these events.
fn engine(
    me: Rank,
    link: Connection,
    incarnation: u32,
    events: Vec<Event>,
    piece: usize,
) -> Rank0Or1 {
    let fabric = TcpFabric::new(PeerId(me), 2, vec![link], Config::default()).unwrap();
    let logged = (1..).zip(&events).map(|(clock, &event)| LoggedEvent { clock, event });
    let parts = LogParts {
        replayed: ReplayedVec(logged.collect()),
        events: EventVec { events, capacity: 1 << 20, stable_at_once: true, ..EventVec::default() },
        gated: true,
        held: None,
        spill: SpillMap::default(),
        checkpoints: None,
        restart: None,
    };
    let config = LoggingConfig { incarnation, ..config([0, 1], fabric.segment_len()) };
    let log = Logging::open(&config, parts, me, fabric.segment_len()).unwrap();
    let sizes = Sizes {
        fragment: piece,
        rndv_fragment: 2 * piece,
        by_peer: false,
        logged_fragment: piece,
        eager_max: (8 * SHORT).max(piece / 4 * 5),
        way: None,
        unexpected: 1 << 20,
        unexpected_max: usize::MAX,
    };
    let mut engine = Engine::new(fabric, log, 2, sizes, Clock::new(std::time::Instant::now));
    engine.resume().unwrap();
    engine.begin_exchange();
    engine
}

/// What a state becomes by a message, and by how often it was asked for in vain: no program determines that.
fn next_state(state: u64, asked: u64, bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(5);
    bytes.iter().fold(mix(state, asked), |sum, &byte| mix(sum, byte.into()))
}

fn message(k: usize) -> Vec<u8> {
    (0..LENS[k % LENS.len()]).map(|at| (at * 7 + k) as u8).collect()
}

/// The answer to message `k`: the state, how often the message was asked for in vain, and bytes that follow from both.
fn answer(k: usize, state: u64, asked: u64) -> Vec<u8> {
    let mut bytes = [state.to_le_bytes(), asked.to_le_bytes()].concat();
    let more = ANSWER_LENS[k % ANSWER_LENS.len()] - bytes.len();
    bytes.extend((0..more).map(|at| (at as u64 * 5).wrapping_add(state) as u8));
    bytes
}

/// Sends that are under way.
#[derive(Default)]
struct Sends(Vec<(u32, Box<[u8]>)>);

impl Sends {
    fn start(&mut self, engine: &mut Rank0Or1, tag: u64, bytes: Vec<u8>, sync: bool) {
        let to = Dest { rank: 1 - engine.rank(), context: 3, tag, data: Data::NONE };
        let bytes = bytes.into_boxed_slice();
        // SAFETY: the bytes are here until the request is finished, or nothing uses its engine any more.
        let request = unsafe { engine.start_send(to, bytes.as_ptr(), bytes.len(), sync) };
        self.0.push((request.unwrap(), bytes));
    }

    fn finish(&mut self, engine: &mut Rank0Or1) {
        self.0.retain(|(request, _)| {
            let is_over = engine.core.requests.get(*request).stage.is_over();
            if is_over {
                engine.core.requests.finish(*request).unwrap();
            }
            !is_over
        });
    }
}

/// A receive that is under way, and where it puts its message.
struct Receive {
    request: u32,
    bytes: Box<[u8]>,
}

impl Receive {
    fn start(engine: &mut Rank0Or1, source: Option<Rank>, room: usize) -> Receive {
        let mut bytes = vec![0; room].into_boxed_slice();
        let from = Pattern { source, context: 3, tag: 0, ignore: u64::MAX };
        // SAFETY: as above.
        let request = unsafe { engine.start_recv(from, bytes.as_mut_ptr(), room) };
        Receive { request: request.unwrap(), bytes }
    }
}

/// Rank 0: sends, and checks that each answer follows from the one before.
struct Client {
    engine: Rank0Or1,
    sends: Sends,
    sent: usize,
    receive: Receive,
    states: Vec<u64>,
}

impl Client {
    fn step(&mut self) {
        let Client { engine, sends, sent, receive, states } = self;
        if *sent < MESSAGES && *sent < states.len() + AHEAD {
            sends.start(engine, *sent as u64, message(*sent), *sent % 4 == 3);
            *sent += 1;
        }
        engine.progress();
        sends.finish(engine);
        if engine.core.requests.get(receive.request).stage.is_over() {
            let status = engine.core.requests.finish(receive.request).unwrap();
            let k = states.len();
            assert_eq!(status.tag, k as u64, "each answer once");
            let got = &receive.bytes[..status.len];
            let word = |at: usize| u64::from_le_bytes(got[at..at + 8].try_into().unwrap());
            let before = states.last().copied().unwrap_or(0);
            assert_eq!(word(0), next_state(before, word(8), &message(k)));
            assert!(got == answer(k, word(0), word(8)), "answer {k} is whole");
            states.push(word(0));
            *receive = Receive::start(engine, Some(1), MOST);
        }
    }
}

/// Rank 1: answers each message with its state and with how often it has asked for the message in vain.
struct Server {
    engine: Rank0Or1,
    sends: Sends,
    receive: Receive,
    decided: Option<Decision>,
    state: u64,
    asked: u64,
}

impl Server {
    fn start(mut engine: Rank0Or1) -> Server {
        let receive = Receive::start(&mut engine, None, 100_000);
        Server { engine, sends: Sends::default(), receive, decided: None, state: 0, asked: 0 }
    }

    fn step(&mut self) {
        let Server { engine, sends, receive, decided, state, asked } = self;
        engine.progress();
        sends.finish(engine);
        let requests = [engine.handle(receive.request)];
        let operation = Operation::Test(&requests);
        let mut call = match decided.take() {
            Some(decision) => Call::decided(operation, decision),
            None => Call::new(operation),
        };
        match engine.advance(&mut call) {
            Poll::Pending => *decided = call.decision(),
            Poll::Ready(Ok(Outcome::Completed((_, status)))) => {
                let status = status.unwrap();
                *state = next_state(*state, *asked, &receive.bytes[..status.len]);
                let answer = answer(status.tag as usize, *state, *asked);
                sends.start(engine, status.tag, answer, false);
                *asked = 0;
                *receive = Receive::start(engine, None, 100_000);
            }
            Poll::Ready(Ok(_)) => *asked += 1,
            Poll::Ready(Err(error)) => panic!("{error}"),
        }
    }

    /// Ends as a killed process does. Its events, which are all that is left.
    fn kill(mut self) -> Vec<Event> {
        // The kernel closes what it had, and nobody says goodbye.
        self.engine.fabric.abandon_in_child();
        self.engine.core.policy.events.sink.events.clone()
    }
}

/// What becomes of the link when a run has this many answers.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// Rank 1 is killed.
    Kill,
    /// The link is cut, and made anew between the same two processes.
    Cut,
}

/// Takes a new connection, and hears of it before anything is sent over it.
fn connect(engine: &mut Rank0Or1, connection: Connection) {
    engine.fabric.add_connection(connection).unwrap();
    engine.progress();
}

/// Runs the program. How many turns it took; `None` if it was stuck.
fn run(rng: &mut fastrand::Rng, trouble: Trouble, piece: usize) -> Option<usize> {
    let (here, there) = UnixStream::pair().unwrap();
    let mut engine0 = engine(0, connection(1, 0, here), 0, Vec::new(), piece);
    let receive = Receive::start(&mut engine0, Some(1), MOST);
    let mut client =
        Client { engine: engine0, sends: Sends::default(), sent: 0, receive, states: Vec::new() };
    let mut server = Server::start(engine(1, connection(0, 0, there), 0, Vec::new(), piece));
    let mut incarnation = 0;
    let mut next = rng.usize(1..12);
    for turn in 0..STUCK {
        if client.states.len() == MESSAGES && client.sends.0.is_empty() {
            return Some(turn);
        }
        (0..rng.usize(0..3)).for_each(|_| client.step());
        (0..rng.usize(0..3)).for_each(|_| server.step());
        if client.states.len() < next || client.states.len() == MESSAGES {
            continue;
        }
        next += rng.usize(1..12);
        let (here, there) = UnixStream::pair().unwrap();
        if trouble == Trouble::Kill {
            let events = server.kill();
            // Rank 0 may go on, and send, before it hears of the kill or of the next process.
            (0..rng.usize(0..20)).for_each(|_| client.step());
            incarnation += 1;
            server = Server::start(engine(1, connection(0, 0, there), incarnation, events, piece));
        } else {
            connect(&mut server.engine, connection(0, 0, there));
        }
        connect(&mut client.engine, connection(1, incarnation, here));
    }
    None
}

/// Runs the program ten times, with random sizes and moments.
fn ten_runs(trouble: Trouble) {
    let mut rng = fastrand::Rng::with_seed(crate::tests::seed());
    for number in 0..10 {
        let piece = if number % 2 == 0 { SHORT } else { LONG };
        run(&mut rng, trouble, piece).expect("nothing is stuck");
    }
}

#[test]
fn a_rank_that_is_killed_is_where_it_was() {
    ten_runs(Trouble::Kill);
}

#[test]
fn a_link_that_is_lost_is_made_anew() {
    ten_runs(Trouble::Cut);
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use taffrail_logging::mutants::{Mutant, select};

    /// Whether any of a few runs fails with a mutant.
    fn is_found(mutant: Mutant, trouble: Trouble) -> bool {
        let seed = crate::tests::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        select(Some(mutant)).unwrap();
        let found = (0..20).any(|_| {
            !matches!(catch_unwind(AssertUnwindSafe(|| run(&mut rng, trouble, SHORT))), Ok(Some(_)))
        });
        select(None).unwrap();
        found
    }

    #[test]
    fn a_kill_finds_what_is_delivered_twice() {
        assert!(is_found(Mutant::DuplicatesDelivered, Trouble::Kill));
    }

    #[test]
    fn a_cut_finds_that_nothing_is_settled() {
        assert!(is_found(Mutant::LostLinkNotSettled, Trouble::Cut));
    }
}
