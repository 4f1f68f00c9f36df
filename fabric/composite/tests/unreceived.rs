//! What is counted for messages that nobody has received, against the memory that they take.

#[path = "common/sizes.rs"]
mod sizes;

use sizes::SIZES;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use taffrail_engine::call::{Call, Operation, Outcome};
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::vectors::{Vectors, config, parts};
use taffrail_engine::policy::{NoLogging, Policy};
use taffrail_engine::{Clock, Data, Dest, Engine, Pattern, Sizes};
use taffrail_fabric::SendMemory;
use taffrail_fabric::conformance::CountingHeap;
use taffrail_fabric::loopback::{Loopback, mesh};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// Held by the test that measures: the heap is that of the whole process.
static MEASURES: Mutex<()> = Mutex::new(());

const MESSAGES: u64 = 15_000;

const LENS: [usize; 4] = [0, 8, 100, 1000];

/// An index, and the words of the heap.
const MORE: usize = 56 + 32;

/// The memory that received messages may leave, and that of their events.
const LEFT: usize = 3 << 19;
const EVENTS: usize = 1 << 19;

fn engine<P: Policy>(fabric: Loopback, policy: P) -> Engine<Loopback, P> {
    // They are all taken in whole.
    let sizes = Sizes { unexpected: 1 << 30, ..SIZES };
    let mut engine = Engine::new(fabric, policy, 2, sizes, Clock::new(std::time::Instant::now));
    engine.open();
    engine
}

/// A log of rank 1, another set than rank 0.
fn log(segment: usize) -> Box<Logging<Vectors>> {
    Box::new(Logging::open(&config([0, 1], segment), parts(), 1, segment).unwrap())
}

/// Whether nobody has sent this.
fn probe<P: Policy>(receiver: &mut Engine<Loopback, P>) {
    let nothing = Pattern::new(0, u64::MAX);
    let found = receiver.advance(&mut Call::new(Operation::Probe(&nothing)));
    assert!(matches!(found, Poll::Ready(Ok(Outcome::Nothing))));
}

fn receive<P: Policy>(receiver: &mut Engine<Loopback, P>, tag: u64, into: &mut [u8]) {
    let from = Pattern::new(0, tag);
    // SAFETY: the buffer outlives the receive, which completes here.
    let request = unsafe { receiver.start_recv(from, into.as_mut_ptr(), into.len()) }.unwrap();
    let request = [receiver.handle(request)];
    let ended = receiver.advance(&mut Call::new(Operation::Test(&request)));
    let Poll::Ready(Ok(Outcome::Completed((0, Ok(status))))) = ended else {
        panic!("message {tag}")
    };
    assert_eq!(status.len, into.len());
}

fn to(tag: u64) -> Dest {
    Dest { rank: 1, context: 0, tag, data: Data::NONE }
}

/// Both have what they need from the first message on.
fn first_message<P: Policy>(
    sender: &mut Engine<Loopback, NoLogging>,
    receiver: &mut Engine<Loopback, P>,
) {
    sender.send_copy(to(0), &[7]).unwrap();
    receive(receiver, 0, &mut [0]);
}

/// The memory that messages of `len` bytes take which a rank with this policy has not received, and what is counted for them, in bytes a
/// message. If it `probes`, they stand in an index as well.
fn costs<P: Policy>(len: usize, probes: bool, policy: impl Fn(usize) -> P) -> (usize, usize) {
    let [near, far] = <[Loopback; 2]>::try_from(mesh(2)).ok().unwrap();
    let mut sender = engine(near, NoLogging);
    let policy = policy(far.segment_len());
    let mut receiver = engine(far, policy);
    let mut bytes = vec![7; len];
    first_message(&mut sender, &mut receiver);
    let before = CountingHeap::bytes();
    for tag in 0..MESSAGES {
        sender.send_copy(to(tag), &bytes).unwrap();
        receiver.progress();
        if probes {
            probe(&mut receiver);
        }
    }
    let taken = CountingHeap::bytes() - before;
    let counted = receiver.unreceived_bytes();
    (0..MESSAGES).for_each(|tag| receive(&mut receiver, tag, &mut bytes));
    assert_eq!(receiver.unreceived_bytes(), 0);
    let left = CountingHeap::bytes() - before;
    println!("{len} bytes: {taken} taken, {counted} counted, {left} afterwards");
    assert!(left < LEFT + EVENTS, "{left} bytes");
    (taken / MESSAGES as usize, counted / MESSAGES as usize)
}

/// What is counted is no less than what is taken, and at the most an index and the words of the heap more.
fn assert_counted(len: usize, (taken, counted): (usize, usize)) {
    assert!(
        (taken..taken + MORE).contains(&counted),
        "{len} bytes: {taken} taken, {counted} counted"
    );
}

#[test]
fn what_nobody_has_received_is_counted_for_what_it_takes() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for len in LENS {
        for probes in [false, true] {
            assert_counted(len, costs(len, probes, |_| NoLogging));
            assert_counted(len, costs(len, probes, |segment| Some(log(segment))));
        }
    }
}

/// What received messages have left is given back while others wait: also while others come, longer ones now and then.
#[test]
fn received_messages_leave_little_while_others_wait() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for (probes, between) in [(false, 0), (true, 0), (false, 10), (true, 10)] {
        let [near, far] = <[Loopback; 2]>::try_from(mesh(2)).ok().unwrap();
        let (mut sender, mut receiver) = (engine(near, NoLogging), engine(far, NoLogging));
        first_message(&mut sender, &mut receiver);
        let before = CountingHeap::bytes();
        for tag in 0..MESSAGES {
            sender.send_copy(to(tag), &[7; 8]).unwrap();
            receiver.progress();
        }
        if probes {
            probe(&mut receiver);
        }
        for tag in 0..MESSAGES - 1 {
            receive(&mut receiver, tag, &mut [0; 8]);
            if between > 0 && tag % between == 0 {
                sender.send_copy(to(MESSAGES + tag), &[7; 1000]).unwrap();
                receiver.progress();
            }
            assert_given_back(&receiver, before);
        }
        for tag in 0..MESSAGES / 4 {
            sender.send_copy(to(2 * MESSAGES + tag), &[7; 3000]).unwrap();
            receiver.progress();
            assert_given_back(&receiver, before);
        }
    }
}

/// That messages which wait take what is counted for them, and received ones little.
fn assert_given_back<P: Policy>(receiver: &Engine<Loopback, P>, before: usize) {
    let taken = CountingHeap::bytes().saturating_sub(before);
    let counted = receiver.unreceived_bytes();
    assert!(taken < counted + LEFT, "{taken} taken, {counted} counted");
}

/// An active message whose handler is to run.
#[test]
fn active_messages_are_counted_for_what_they_take() {
    let _alone = MEASURES.lock().unwrap_or_else(PoisonError::into_inner);
    for len in LENS {
        let [near, far] = <[Loopback; 2]>::try_from(mesh(2)).ok().unwrap();
        let (mut sender, mut receiver) = (engine(near, NoLogging), engine(far, NoLogging));
        let payload = &vec![7; len][..];
        first_message(&mut sender, &mut receiver);
        let before = CountingHeap::bytes();
        for header in 0..MESSAGES {
            let active = Operation::SendActive { to: 1, handler: 1, header, payload };
            assert!(sender.advance(&mut Call::new(active)).is_ready());
            receiver.progress();
        }
        let taken = (CountingHeap::bytes() - before) / MESSAGES as usize;
        assert_counted(len, (taken, receiver.unreceived_bytes() / MESSAGES as usize));
        while receiver.next_active().is_some() {}
        assert_eq!(receiver.unreceived_bytes(), 0);
        let left = CountingHeap::bytes().saturating_sub(before);
        assert!(left < LEFT, "{left} bytes");
    }
}
