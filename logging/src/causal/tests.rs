//! Determinants against a model that knows everything: who depends on what, and what is stable.

use super::*;
use crate::Event;
use proptest::prelude::*;

const RANKS: usize = 4;
/// Room for events that are not stable.
const ROOM: u64 = 1000;

/// Something that happens. Numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Chance decides something for a rank.
    Event(usize),
    Send(usize, usize),
    /// The next frame of a connection comes.
    Arrive(usize, usize),
    /// The event logger makes a cut of all ranks.
    Cut,
    /// A rank sees how far it goes.
    Acknowledge(usize),
    /// A connection is lost, with all that is on its way.
    Lose(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let rank = || 0..RANKS;
    prop_oneof![
        4 => rank().prop_map(Step::Event),
        4 => (rank(), rank()).prop_map(|(a, b)| Step::Send(a, b)),
        6 => (rank(), rank()).prop_map(|(a, b)| Step::Arrive(a, b)),
        1 => Just(Step::Cut),
        2 => rank().prop_map(Step::Acknowledge),
        1 => (rank(), rank()).prop_map(|(a, b)| Step::Lose(a, b)),
    ]
}

/// How many events of each rank something may depend on.
type Past = [u64; RANKS];

enum Frame {
    Determinants(Vec<u8>),
    Message(Past),
}

struct Model {
    ranks: Vec<Causal>,
    pasts: Vec<Past>,
    /// Of each rank, its events and their pasts.
    events: Vec<Vec<(LoggedEvent, Past)>>,
    lines: Vec<VecDeque<Frame>>,
    stable: Past,
    /// Bytes of a frame.
    most: usize,
}

impl Model {
    fn new(most: usize) -> Self {
        Model {
            ranks: (0..RANKS as u32).map(|me| Causal::new(me, RANKS as u32, ROOM)).collect(),
            pasts: vec![[0; RANKS]; RANKS],
            events: vec![Vec::new(); RANKS],
            lines: (0..RANKS * RANKS).map(|_| VecDeque::new()).collect(),
            stable: [0; RANKS],
            most,
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Event(rank) => {
                let clock = self.events[rank].len() as u64 + 1;
                let event = Event::Found { polls: clock as u32, index: rank as u32 };
                let event = LoggedEvent { clock, event };
                self.ranks[rank].wrote(&event);
                self.pasts[rank][rank] = clock;
                self.events[rank].push((event, self.pasts[rank]));
            }
            Step::Send(from, to) if from != to => {
                let line = &mut self.lines[from * RANKS + to];
                while let Some(bytes) = self.ranks[from].next_piggyback(to as u32, self.most) {
                    prop_assert!(bytes.len() <= self.most);
                    line.push_back(Frame::Determinants(bytes));
                }
                prop_assert!(!self.ranks[from].has_news_for(to as u32));
                line.push_back(Frame::Message(self.pasts[from]));
            }
            Step::Arrive(from, to) => match self.lines[from * RANKS + to].pop_front() {
                Some(Frame::Determinants(bytes)) => {
                    prop_assert_eq!(self.ranks[to].received(from as u32, &bytes), Ok(()));
                }
                Some(Frame::Message(past)) => self.deliver(to, past)?,
                None => {}
            },
            Step::Cut => self.stable = std::array::from_fn(|rank| self.events[rank].len() as u64),
            Step::Acknowledge(rank) => self.ranks[rank].stable(rank as u32, self.stable[rank]),
            Step::Lose(a, b) if a != b => {
                for (from, to) in [(a, b), (b, a)] {
                    self.lines[from * RANKS + to].clear();
                    self.ranks[from].lost(to as u32);
                }
            }
            Step::Send(..) | Step::Lose(..) => {}
        }
        self.ranks.iter().try_for_each(|rank| {
            let open = (0..RANKS as u32).map(|of| rank.held_of(of).count()).sum::<usize>();
            prop_assert_eq!(open, rank.open);
            prop_assert!(rank.held.len() <= 2 * open + 65, "what is stable is dropped");
            Ok(())
        })
    }

    /// *determinant-before-effect*.
    fn deliver(&mut self, to: usize, past: Past) -> Result<(), TestCaseError> {
        for (rank, &clock) in past.iter().enumerate() {
            let known = self.ranks[to].knows(rank as u32, clock) || clock <= self.stable[rank];
            prop_assert!(known, "rank {to} depends on event {clock} of rank {rank}");
            self.pasts[to][rank] = clock.max(self.pasts[to][rank]);
        }
        Ok(())
    }

    /// Some ranks die, with all that they know. What is put together of their events must have all that
    /// the others depend on, and all that it depends on itself.
    fn kill(&self, dead: &[bool]) -> Result<(), TestCaseError> {
        let alive = || (0..RANKS).filter(|&rank| !dead[rank]);
        let mut gathered = [0; RANKS];
        for rank in 0..RANKS {
            gathered[rank] = self.events[rank].len();
            if !dead[rank] {
                continue;
            }
            let mut again = Causal::new(rank as u32, RANKS as u32, ROOM);
            again.stable(rank as u32, self.stable[rank]);
            for survivor in alive() {
                prop_assert_eq!(again.adopt(&self.ranks[survivor].all_held(u64::MAX)), Ok(()));
            }
            let events: Vec<_> = again.held_of(rank as u32).map(|d| (d.clock, d.event())).collect();
            let behind = self.events[rank].iter().skip(self.stable[rank] as usize);
            let original: Vec<_> = behind.map(|(event, _)| (event.clock, event.event)).collect();
            prop_assert_eq!(&events[..], &original[..events.len()], "not what it was");
            let count = self.stable[rank] as usize + events.len();
            // It can say what it depends on before it has received it again.
            if let Some((_, past)) = self.events[rank][..count].last() {
                for (of, &clock) in past.iter().enumerate() {
                    let known = again.knows(of as u32, clock) || clock <= self.stable[of];
                    prop_assert!(known, "rank {rank} does not know event {clock} of {of}");
                }
            }
            gathered[rank] = count;
        }
        for rank in 0..RANKS {
            for survivor in alive() {
                prop_assert!(self.pasts[survivor][rank] <= gathered[rank] as u64, "an orphan");
            }
            for (_, past) in &self.events[rank][..gathered[rank]] {
                let whole = (0..RANKS).all(|other| past[other] <= gathered[other] as u64);
                prop_assert!(whole, "an event depends on one that is lost");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_message_comes_before_what_it_depends_on_and_no_survivor_is_an_orphan(
        steps in prop::collection::vec(step(), 1..250),
        frame in 1_usize..4,
        dead: [bool; RANKS],
    ) {
        let mut model = Model::new(frame * DETERMINANT + 7);
        for one in steps {
            model.step(one)?;
            model.kill(&dead)?;
        }
    }

    // Who wants to do harm knows how to make a checksum.
    #[test]
    fn what_a_peer_makes_up_takes_no_more_than_its_room(
        all in prop::collection::vec(
            (0..4_u32, prop_oneof![0..12_u64, Just(1 << 40), u64::MAX - 3..=u64::MAX], 0..6_u32),
            1..60,
        ),
        adopted: bool,
    ) {
        const MOST: u64 = 4;
        let mut victim = Causal::new(0, 3, MOST);
        victim.wrote(&nothing(1));
        for (rank, clock, open) in all {
            let event = Event::Nothing { polls: 1 };
            let bytes = Determinant::new(rank, &LoggedEvent { clock, event }).encode(open);
            let before = victim.open;
            let taken = if adopted { victim.adopt(&bytes) } else { victim.received(1, &bytes) };
            if taken.is_err() {
                prop_assert!(victim.open <= before, "what is refused is not kept");
            }
            for of in 0..3 {
                let clocks: Vec<u64> = victim.held_of(of).map(|d| d.clock).collect();
                prop_assert!(clocks.len() as u64 <= MOST, "{clocks:?}");
                prop_assert!(clocks.windows(2).all(|two| two[0] + 1 == two[1]), "{clocks:?}");
            }
            prop_assert!(adopted || victim.held_of(0).count() == 1, "its own are its own");
            let mut sent = 0;
            while let Some(bytes) = victim.next_piggyback(2, DETERMINANT) {
                sent += bytes.len() / DETERMINANT;
            }
            prop_assert!(sent <= victim.open);
        }
    }

    #[test]
    fn whatever_comes_is_believed_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200), flip: prop::sample::Index, by in 1_u8..,
    ) {
        let mut one = Causal::new(0, 3, ROOM);
        let refused = one.received(1, &bytes).is_err();
        prop_assert!(refused, "nobody hits a checksum by chance");
        // A bit of what a peer has sent: what it does not change must be harmless.
        let mut peer = Causal::new(1, 3, ROOM);
        for clock in 1..=3 {
            peer.wrote(&LoggedEvent { clock, event: Event::Nothing { polls: 1 } });
        }
        let mut sent = peer.next_piggyback(0, 1000).expect("three determinants");
        let at = flip.index(sent.len());
        sent[at] ^= by;
        let taken = one.received(1, &sent);
        // Only how many of the first are open may be something else and still make sense.
        prop_assert!(taken.is_err() || (at % DETERMINANT) / 4 == 1, "{at}: {taken:?}");
        prop_assert!(one.open <= 3);
    }
}

fn nothing(clock: u64) -> LoggedEvent {
    LoggedEvent { clock, event: Event::Nothing { polls: clock as u32 } }
}

#[test]
fn nothing_is_sent_twice_or_to_who_has_it() {
    let (mut a, mut b) = (Causal::new(0, 3, ROOM), Causal::new(1, 3, ROOM));
    assert!(!a.has_news_for(1), "a program without events pays nothing");
    a.wrote(&nothing(1));
    let bytes = a.next_piggyback(1, 100).expect("one event");
    assert_eq!(bytes.len(), DETERMINANT);
    assert_eq!(a.next_piggyback(1, 100), None);
    assert_eq!(b.received(0, &bytes), Ok(()));
    assert_eq!(b.next_piggyback(0, 100), None, "it is of this rank");
    assert_eq!(b.next_piggyback(2, 100), Some(bytes.clone()), "passed on as it came");
    // The third rank sends it to the first and the second: both have it.
    let mut c = Causal::new(2, 3, ROOM);
    assert_eq!(c.received(1, &bytes), Ok(()));
    assert_eq!((c.next_piggyback(0, 100), c.next_piggyback(1, 100)), (None, None));
    c.lost(1);
    assert_eq!(c.next_piggyback(1, 100), Some(bytes), "its next incarnation has nothing");
    assert_eq!(a.counters(), Counters { messages: 0, created: 1, piggybacked: 1 });
}

#[test]
fn what_is_stable_is_not_passed_on() {
    let (mut a, mut b) = (Causal::new(0, 3, ROOM), Causal::new(1, 3, ROOM));
    for clock in 1..=4 {
        a.wrote(&nothing(clock));
    }
    a.stable(0, 2);
    let bytes = a.next_piggyback(1, 1000).expect("two are not stable");
    assert_eq!(bytes.len(), 2 * DETERMINANT);
    assert_eq!(b.received(0, &bytes), Ok(()));
    assert!(b.knows(0, 4) && !b.knows(0, 5));
    assert_eq!(b.held_of(0).map(|d| d.clock).collect::<Vec<_>>(), [3, 4]);
    // That they are stable is heard with the next.
    a.stable(0, 4);
    a.wrote(&nothing(5));
    let bytes = a.next_piggyback(1, 1000).expect("one");
    assert_eq!(b.received(0, &bytes), Ok(()));
    assert_eq!(b.held_of(0).map(|d| d.clock).collect::<Vec<_>>(), [5]);
    assert_eq!((b.open, b.held.len()), (1, 1));
}

#[test]
fn what_no_peer_sends_is_refused() {
    let (mut a, mut b) = (Causal::new(0, 2, ROOM), Causal::new(1, 2, 4));
    for clock in 1..=6 {
        a.wrote(&nothing(clock));
    }
    let bytes = a.next_piggyback(1, 1000).expect("six");
    let one = |k: usize| bytes[k * DETERMINANT..][..DETERMINANT].to_vec();
    assert_eq!(b.received(0, &[]), Err(CausalError::Length { got: 0 }));
    assert_eq!(b.received(0, &bytes[1..]), Err(CausalError::Length { got: 239 }));
    let mut of_nobody = one(0);
    of_nobody[0] = 2;
    assert_eq!(b.received(0, &of_nobody), Err(CausalError::Rank { got: 2, ranks: 2 }));
    let mut damaged = one(0);
    damaged[30] ^= 1;
    assert!(matches!(b.received(0, &damaged), Err(CausalError::Record { rank: 0, .. })));
    for got in [0, 2, u32::MAX] {
        let mut open = one(0);
        open[4..8].copy_from_slice(&got.to_le_bytes());
        let wrong = CausalError::Open { rank: 0, clock: 1, got, most: 1 };
        assert_eq!(b.received(0, &open), Err(wrong));
    }
    let many = CausalError::Open { rank: 0, clock: 5, got: 5, most: 4 };
    assert_eq!(b.received(0, &bytes), Err(many), "there is no room for that many");
    assert_eq!(b.open, 4, "what was before that is kept");
    let mut left_out = one(5);
    left_out[4] = 1;
    assert_eq!(b.received(0, &left_out), Ok(()), "those before are stable");
    let mut b = Causal::new(1, 2, ROOM);
    assert_eq!(b.received(0, &one(1)), Err(CausalError::Gap { rank: 0, expected: 1, got: 2 }));
    // Nobody knows events of this rank that it has not written.
    let mut twin = Causal::new(1, 2, ROOM);
    twin.wrote(&nothing(1));
    let own = twin.next_piggyback(0, 100).expect("one");
    assert_eq!(b.received(0, &own), Err(CausalError::Gap { rank: 1, expected: 0, got: 1 }));
    b.wrote(&nothing(1));
    assert_eq!(b.received(0, &own), Ok(()));
}

/// A rank whose ring is full has an event that waits for room. What it says of that one leaves when there is room; so then no more
/// events are open than a ring holds.
#[test]
fn an_event_that_waits_for_room_is_taken() {
    let mut behind = Causal::new(0, 2, 2);
    (1..=3).for_each(|clock| behind.wrote(&nothing(clock)));
    let queued = behind.next_piggyback(1, 200).expect("three events");
    let mut peer = Causal::new(1, 2, 2);
    assert_eq!(peer.received(0, &queued), Ok(()));
    assert!(peer.knows(0, 3));
    // Nobody depends on the one that waits.
    assert_eq!(behind.all_held(2).len(), 2 * DETERMINANT);
    let mut again = Causal::new(1, 2, 2);
    assert_eq!(again.adopt(&behind.all_held(2)), Ok(()));
    assert!(again.knows(0, 2) && !again.knows(0, 3));
}

#[test]
fn survivors_that_contradict_each_other_are_found_out() {
    let survivor = |polls| {
        let mut survivor = Causal::new(1, 2, ROOM);
        let mut dead = Causal::new(0, 2, ROOM);
        dead.stable(0, 2);
        dead.wrote(&LoggedEvent { clock: 3, event: Event::Nothing { polls } });
        let bytes = dead.next_piggyback(1, 100).expect("one event");
        assert_eq!(survivor.received(0, &bytes), Ok(()));
        survivor.all_held(u64::MAX)
    };
    let mut again = Causal::new(0, 2, ROOM);
    again.stable(0, 2);
    assert_eq!(again.adopt(&survivor(7)), Ok(()));
    assert_eq!(again.adopt(&survivor(7)), Ok(()));
    assert_eq!(again.adopt(&survivor(8)), Err(CausalError::Differ { rank: 0, clock: 3 }));
    assert_eq!(again.held_of(0).map(|d| d.clock).collect::<Vec<_>>(), [3]);
    let mut again = Causal::new(0, 2, ROOM);
    again.stable(0, 1);
    let gap = CausalError::Gap { rank: 0, expected: 2, got: 3 };
    assert_eq!(again.adopt(&survivor(7)), Err(gap));
    assert_eq!(again.adopt(&[0; 3]), Err(CausalError::Length { got: 3 }));
}
