//! A policy that the engine does not know, and that has no log: each rank keeps a copy of its state, and one that was killed
//! begins again with it. Its peers are suspended until then, and copies of what they send meanwhile leave then.

use super::*;
use crate::call::Call;
use crate::clock::Clock;
use crate::core::broken;
use crate::frame::{Frame, body};
use crate::peer::Destination;
use crate::{Data, Dest, Engine, NotNow, Sizes};
use std::collections::HashSet;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::task::Poll;
use taffrail_fabric::{Incarnation, Payload, PeerId};
use taffrail_logging::{Received, Restart, RestartPhase};
use taffrail_tcp::{Config, Connection, TcpFabric};

type Rank0Or1 = Engine<TcpFabric, Coordinated>;

/// Turns after which something is stuck.
const STUCK: usize = 200_000;

#[derive(Default)]
struct Coordinated {
    incarnation: u32,
    /// Peers that are suspended.
    away: HashSet<Rank>,
    /// Messages to them, which leave when they are there again.
    copies: Vec<(Dest, Vec<u8>)>,
    /// Peers that have said which incarnation they are.
    heard: Vec<(Rank, u32)>,
    wave: Option<Vec<u8>>,
    restored: Option<Vec<u8>>,
}

impl Policy for Coordinated {
    type First = Coordinated;
    type Second = Coordinated;

    fn is_second(&self) -> bool {
        false
    }

    fn route(&self, to: Rank) -> Route {
        if self.away.contains(&to) { Route::Kept } else { Route::Direct }
    }

    fn on_loss(&self, _: Rank, why: &Fault) -> OnLoss {
        if *why == Fault::Closed { OnLoss::Fail } else { OnLoss::Suspend }
    }

    fn takes_kind(&self, kind: u8) -> bool {
        kind != kind::DETERMINANTS
    }

    fn take_restored(&mut self) -> Option<Vec<u8>> {
        self.restored.take()
    }
}

impl RxPolicy<Coordinated> for Coordinated {
    fn admit_next(core: &mut Core<Coordinated>, message: MsgId) -> bool {
        core.numbers.count(message)
    }

    fn admit_other(_: &mut Core<Coordinated>, _: MsgId) -> Admit {
        Admit::OutOfOrder { expected: 0 }
    }

    fn matched(_: &mut Core<Coordinated>, _: u32, _: MsgId) {}
    fn received_directly(_: &mut Core<Coordinated>, _: bool, _: MsgId) {}
}

impl Calls<Coordinated> for Coordinated {
    const POLLS_END_ANY_SOURCE: bool = false;
    const USES_EMPTY_POLLS: bool = false;

    fn ask(_: &mut Core<Coordinated>, _: &Operation<'_>) -> Decision {
        Decision::Free
    }

    fn record(_: &mut Core<Coordinated>, _: &Operation<'_>, _: &Outcome) {}
    fn prepare(_: &mut Core<Coordinated>) {}
}

impl Sends<Coordinated> for Coordinated {
    fn begin_send<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>, to: Rank) -> Route {
        engine.core.policy.route(to)
    }

    fn keep<F: Fabric + SendMemory>(
        engine: &mut Engine<F, Coordinated>,
        to: &Dest,
        source: Source<'_>,
        _: usize,
    ) -> Result<(), NotNow> {
        let Source::Bytes(bytes) = source else { return Ok(()) };
        engine.core.policy.copies.push((*to, bytes.to_vec()));
        Ok(())
    }
}

impl Replays<Coordinated> for Coordinated {}

impl Recovery<Coordinated> for Coordinated {
    fn suspended(core: &mut Core<Coordinated>, rank: Rank, _: Vec<(MsgId, Destination)>) {
        core.policy.away.insert(rank);
        core.numbers.forget(rank);
    }

    fn resumes(core: &mut Core<Coordinated>, rank: Rank, _: u32) -> bool {
        core.policy.away.remove(&rank);
        true
    }

    fn reconnected<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>, rank: Rank) {
        let received = Received { channels: Vec::new(), missing: Vec::new() };
        let incarnation = engine.core.policy.incarnation;
        let (frame, body) =
            body::restart(&Restart::new(RestartPhase::First, incarnation, received));
        engine.tx().post_frame(rank, frame, &body);
        for (to, bytes) in std::mem::take(&mut engine.core.policy.copies) {
            assert_eq!(engine.send_now(&to, Source::Bytes(&bytes), bytes.len()).ok(), Some(true));
        }
    }

    fn restart_received(
        core: &mut Core<Coordinated>,
        from: Rank,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let restart = body::read_restart(payload)?;
        if restart.phase != RestartPhase::First {
            return Err(broken("RESTART", "RESTART1", "another"));
        }
        core.policy.heard.push((from, restart.incarnation));
        Ok(())
    }

    fn begin_exchange<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>) {
        let me = engine.rank();
        (0..engine.size()).filter(|&rank| rank != me).for_each(|rank| {
            Self::reconnected(engine, rank);
        });
    }

    fn begin_to_leave<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>) -> bool {
        engine.begin_to_finalize();
        let me = engine.rank();
        for rank in (0..engine.size()).filter(|&rank| rank != me) {
            engine.tx().post_frame(rank, Frame::Finalize, &[]);
        }
        true
    }

    fn have_all_left<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>) -> bool {
        engine.core.all_finished(engine.rank())
    }
}

impl Checkpoints<Coordinated> for Coordinated {
    fn begin_checkpoint<F: Fabric + SendMemory>(
        engine: &mut Engine<F, Coordinated>,
    ) -> Result<bool, Error> {
        Ok(engine.core.policy.away.is_empty())
    }

    fn checkpoint<F: Fabric + SendMemory>(
        engine: &mut Engine<F, Coordinated>,
        state: &[IoSlice<'_>],
    ) -> Result<bool, Error> {
        let is_quiet = !engine.tx.has_backlog();
        if is_quiet {
            engine.core.policy.wave = Some(state.iter().flat_map(|part| part.to_vec()).collect());
        }
        Ok(is_quiet)
    }

    fn resume<F: Fabric + SendMemory>(engine: &mut Engine<F, Coordinated>) -> Result<(), NotNow> {
        let Coordinated { wave, restored, .. } = &mut engine.core.policy;
        restored.clone_from(wave);
        Ok(())
    }
}

fn connection(peer: Rank, incarnation: u32, socket: UnixStream) -> Connection {
    let socket = OwnedFd::from(socket);
    Connection { peer: PeerId(peer), incarnation: Incarnation(incarnation), socket }
}

fn engine(me: Rank, link: Connection, policy: Coordinated) -> Rank0Or1 {
    let fabric = TcpFabric::new(PeerId(me), 2, vec![link], Config::default()).unwrap();
    let sizes = Sizes {
        fragment: 1024,
        rndv_fragment: 2048,
        by_peer: false,
        logged_fragment: 1024,
        eager_max: 8192,
        way: None,
        unexpected: 1 << 20,
        unexpected_max: usize::MAX,
    };
    let mut engine = Engine::new(fabric, policy, 2, sizes, Clock::new(std::time::Instant::now));
    engine.resume().unwrap();
    engine.begin_exchange();
    engine
}

fn send(engine: &mut Rank0Or1, to: Rank, bytes: &[u8]) {
    let to = Dest { rank: to, context: 0, tag: 7, data: Data::NONE };
    assert!(engine.send_now(&to, Source::Bytes(bytes), bytes.len()).unwrap());
}

/// Makes progress with both until something is so.
fn until(engines: [&mut Rank0Or1; 2], mut is_so: impl FnMut([&mut Rank0Or1; 2]) -> bool) {
    let [first, second] = engines;
    for _ in 0..STUCK {
        first.progress();
        second.progress();
        if is_so([first, second]) {
            return;
        }
    }
    panic!("something is stuck");
}

/// Receives a message of rank `from`.
fn receive(engine: &mut Rank0Or1, from: Rank, into: &mut [u8; 2]) -> u32 {
    let from = Pattern { source: Some(from), context: 0, tag: 7, ignore: 0 };
    // SAFETY: the tests finish the request before the memory goes.
    unsafe { engine.start_recv(from, into.as_mut_ptr(), into.len()) }.unwrap()
}

fn is_over(engine: &mut Rank0Or1, request: u32) -> bool {
    engine.core.requests.get(request).stage.is_over()
}

#[test]
fn a_peer_that_was_killed_is_suspended_and_resumed_without_a_log() {
    let (here, there) = UnixStream::pair().unwrap();
    let mut survivor = engine(0, connection(1, 0, here), Coordinated::default());
    let mut victim = engine(1, connection(0, 0, there), Coordinated::default());
    let mut bytes = [0; 2];
    let first = receive(&mut victim, 0, &mut bytes);
    send(&mut survivor, 1, b"a1");
    until([&mut survivor, &mut victim], |[_, victim]| is_over(victim, first));
    victim.core.requests.finish(first).unwrap();
    assert_eq!(&bytes, b"a1");

    // Both take a wave.
    for engine in [&mut survivor, &mut victim] {
        assert!(engine.begin_checkpoint().unwrap());
        let state = [IoSlice::new(b"wave "), IoSlice::new(&bytes)];
        let mut call = Call::new(Operation::Checkpoint(&state));
        assert!(matches!(engine.advance(&mut call), Poll::Ready(Ok(Outcome::Done))));
    }

    // The receive of the survivor outlives the victim, and what it sends meanwhile waits.
    let mut answer = [0; 2];
    let waiting = receive(&mut survivor, 1, &mut answer);
    let wave = victim.core.policy.wave.take();
    victim.fabric.abandon_in_child();
    drop(victim);
    for _ in 0..STUCK {
        survivor.progress();
        if survivor.core.peers[1].is_away() {
            break;
        }
    }
    assert!(survivor.core.peers[1].is_away() && !is_over(&mut survivor, waiting));
    assert!(!survivor.begin_checkpoint().unwrap(), "no wave without the victim");
    send(&mut survivor, 1, b"b1");
    send(&mut survivor, 1, b"b2");
    assert_eq!(survivor.core.policy.copies.len(), 2);

    let (here, there) = UnixStream::pair().unwrap();
    let policy = Coordinated { incarnation: 1, wave, ..Coordinated::default() };
    let mut victim = engine(1, connection(0, 0, there), policy);
    assert_eq!(victim.core.policy.take_restored().unwrap(), b"wave a1");
    survivor.fabric.add_connection(connection(1, 1, here)).unwrap();
    let mut again = [[0; 2]; 2];
    let receives = again.each_mut().map(|into| receive(&mut victim, 0, into));
    send(&mut victim, 0, b"c1");
    until([&mut survivor, &mut victim], |[survivor, victim]| {
        is_over(survivor, waiting) && receives.iter().all(|&request| is_over(victim, request))
    });
    assert_eq!((&again, &answer), (&[*b"b1", *b"b2"], b"c1"));
    assert!(survivor.core.policy.heard.contains(&(1, 1)));

    // Both leave, and neither before the other.
    assert!(survivor.begin_to_leave());
    let mut call = Call::new(Operation::Leave);
    assert!(survivor.advance(&mut call).is_pending());
    assert!(victim.begin_to_leave());
    until([&mut survivor, &mut victim], |[survivor, victim]| {
        [survivor, victim].into_iter().all(Coordinated::have_all_left)
    });
}
