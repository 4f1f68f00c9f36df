//! Programs. Each is a function of the outcomes of its calls.
//!
//! Nearly everything that a program has seen goes into a word of state that its messages carry: if a
//! replay differs anywhere, the contents of messages differ soon. The *result* of a program does not
//! depend on chance, and is compared with that of a run without failures.

mod beside;
mod burst;
mod deterministic;
mod failures;
mod memory;
mod random;
mod reported;
mod synchronous;

use crate::call::{Api, Call, Program, mix};
use taffrail_logging::Rank;
use taffrail_matching::Posting;

/// A program of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Workload {
    /// A token goes round.
    Ring,
    /// A master hands tasks to ranks that are done: receives from any source.
    Master,
    /// One rank probes for the messages of all others, which test for its answers.
    Probe,
    /// Everybody waits for any of its receives.
    WaitAny,
    /// Everybody exchanges with its neighbours.
    Stencil,
    /// Everybody exchanges with everybody.
    AllToAll,
    /// Receives that are cancelled and posted again.
    Impatient,
    /// Random graphs of messages, received in random ways.
    Random,
    /// Sums of what comes from any source: send-deterministic.
    Sums,
    /// Requests answered in the order in which they come: channel-deterministic.
    Server,
    /// Ends of sends, receives and receives of many that are reported in their order.
    Reported,
    /// Synchronous sends, of which the last are not received.
    Synchronous,
    /// Tests, probes and receives beside each other.
    Polls,
    /// Gets, puts and additions in the memory of reached ranks, messages to the others.
    Windows,
    /// Messages that are lent and kept.
    Loans,
    /// Active messages, and numbers beside the payload of messages. Not logged.
    Beside,
    /// Senders that are far ahead of their receiver.
    Burst,
    /// Everybody exchanges with each peer that lives, and leaves out those that have died. Not logged.
    Tolerant,
    /// One rank receives from any source until no sender is left. Not logged.
    Gather,
}

/// The workloads of most profiles.
pub const ALL: [Workload; 15] = [
    Workload::Ring,
    Workload::Master,
    Workload::Probe,
    Workload::WaitAny,
    Workload::Stencil,
    Workload::AllToAll,
    Workload::Impatient,
    Workload::Random,
    Workload::Sums,
    Workload::Server,
    Workload::Reported,
    Workload::Synchronous,
    Workload::Polls,
    Workload::Windows,
    Workload::Loans,
];

/// The context of messages that say that their sender has come to the end.
const MEET: u16 = 12;

/// The place of a rank in a job.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Itself.
    pub me: Rank,
    /// How many there are.
    pub ranks: u32,
    /// How long the program is.
    pub rounds: u32,
    /// Selects one of the random workloads.
    pub variant: u64,
    /// The ranks with memory that it reaches: a bit for each.
    pub reached: u32,
}

impl Workload {
    /// Whether the programs continue when a peer has died. Others end with the first error.
    pub(crate) fn tolerates_failures(self) -> bool {
        matches!(self, Workload::Tolerant | Workload::Gather)
    }

    /// The program of a rank.
    pub fn start(self, place: Place) -> Program {
        match self {
            Workload::Ring => Program::new(|api| ring(api, place)),
            Workload::Master if place.me == 0 => Program::new(|api| master(api, place)),
            Workload::Master => Program::new(|api| worker(api, place)),
            Workload::Probe if place.me == 0 => Program::new(|api| prober(api, place)),
            Workload::Probe => Program::new(|api| tester(api, place)),
            Workload::WaitAny => Program::new(|api| wait_any(api, place)),
            Workload::Stencil => Program::new(|api| stencil(api, place)),
            Workload::AllToAll => Program::new(|api| all_to_all(api, place)),
            Workload::Impatient => Program::new(|api| impatient(api, place)),
            Workload::Random => Program::new(|api| random::random(api, place)),
            Workload::Sums => Program::new(|api| deterministic::sums(api, place)),
            Workload::Server if place.me == 0 => {
                Program::new(|api| deterministic::server(api, place))
            }
            Workload::Server => Program::new(|api| deterministic::client(api, place)),
            Workload::Reported => Program::new(|api| reported::reported(api, place)),
            Workload::Synchronous => Program::new(|api| synchronous::synchronous(api, place)),
            Workload::Polls => Program::new(|api| synchronous::polls(api, place)),
            Workload::Windows => Program::new(|api| memory::windows(api, place)),
            Workload::Loans => Program::new(|api| memory::loans(api, place)),
            Workload::Burst => Program::new(|api| burst::burst(api, place)),
            Workload::Beside => Program::new(|api| beside::beside(api, place)),
            Workload::Tolerant => Program::new(|api| failures::tolerant(api, place)),
            Workload::Gather if place.me == 0 => Program::new(|api| failures::gather(api, place)),
            Workload::Gather => Program::new(|api| failures::contribute(api, place)),
        }
    }
}

fn from(source: Rank, tag: u64) -> Posting {
    Posting { source: Some(source), tag, ..Posting::default() }
}

fn from_any(tag: u64) -> Posting {
    Posting { tag, ..Posting::default() }
}

impl Place {
    fn right(&self) -> Rank {
        (self.me + 1) % self.ranks
    }

    fn left(&self) -> Rank {
        (self.me + self.ranks - 1) % self.ranks
    }

    /// Whether messages of this round are synchronous: in some rounds of half of the variants.
    fn is_sync(&self, round: u64) -> bool {
        self.variant % 2 == 1 && mix(self.variant, round).is_multiple_of(2)
    }

    /// Starts to send, in some rounds synchronously: the call that waits until the message is matched, if it is to be
    /// waited for.
    async fn send(&self, api: &Api, to: Rank, tag: (u16, u64), words: [u64; 3]) -> Option<Call> {
        let (context, tag) = tag;
        if self.is_sync(words[0]) {
            return Some(api.start_sync(to, context, tag, words).await);
        }
        api.send(to, context, tag, words).await;
        None
    }

    /// Waits until all others have come here.
    async fn meet(&self, api: &Api) {
        for peer in self.others() {
            api.send(peer, MEET, 0, [0; 3]).await;
        }
        for peer in self.others() {
            api.recv(Posting { context: MEET, ..from(peer, 0) }).await;
        }
    }

    fn others(self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).filter(move |&rank| rank != self.me)
    }
}

async fn ring(api: Api, place: Place) -> u64 {
    let mut state = u64::from(place.me);
    for round in 0..place.rounds.into() {
        if place.me == 0 {
            let sent = place.send(&api, place.right(), (0, 0), [round, state, 0]).await;
            api.matched(sent).await;
        }
        let message = api.recv(from(place.left(), 0)).await;
        state = mix(state, message.words[1]);
        if place.me != 0 {
            let words = [message.words[0], state, 0];
            let sent = place.send(&api, place.right(), (0, 0), words).await;
            api.matched(sent).await;
        }
    }
    state
}

const TASK: u64 = 0;
const END: u64 = 1;
const DONE: u64 = 2;

async fn master(api: Api, place: Place) -> u64 {
    let tasks = u64::from(place.rounds * (place.ranks + 1));
    let (mut next, mut state, mut sum) = (0, 0, 0_u64);
    for worker in place.others() {
        api.send(worker, 0, TASK, [next, state, 0]).await;
        next += 1;
    }
    let mut under_way = next;
    while under_way > 0 {
        let message = api.recv(from_any(DONE)).await;
        let worker = message.name.source;
        sum = sum.wrapping_add(message.words[0]);
        state = mix(mix(state, message.words[1]), worker.into());
        if next < tasks {
            api.send(worker, 0, TASK, [next, state, 0]).await;
            next += 1;
        } else {
            api.send(worker, 0, END, [0, state, 0]).await;
            under_way -= 1;
        }
    }
    sum
}

async fn worker(api: Api, place: Place) -> u64 {
    let mut state = 0;
    loop {
        let task = Posting { source: Some(0), ignore: END, ..Posting::default() };
        let message = api.recv(task).await;
        state = mix(state, message.words[1]);
        if message.tag == END {
            return 0;
        }
        api.compute().await;
        let words = [mix(message.words[0], 7), state, 0];
        let sent = place.send(&api, 0, (0, DONE), words).await;
        api.matched(sent).await;
    }
}

async fn prober(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (0, 0_u64);
    for _ in 0..place.rounds * (place.ranks - 1) {
        let (source, tag) = loop {
            match api.probe(Posting { ignore: 1, ..from_any(0) }).await {
                Some(seen) => break seen,
                None => state = mix(state, 1),
            }
        };
        // What a probe has seen can be claimed, whatever has happened since.
        let message = match state % 2 {
            0 => api.recv(from(source, tag)).await,
            _ => {
                let req = api.claim(from(source, tag)).await;
                api.wait(req.expect("a probe has seen it")).await
            }
        };
        state = mix(mix(state, message.words[1]), source.into());
        sum = sum.wrapping_add(message.words[0]);
        api.send(source, 1, 0, [message.words[0], state, 0]).await;
    }
    sum
}

async fn tester(api: Api, place: Place) -> u64 {
    let mut state = place.me.into();
    for round in 0..place.rounds {
        let token = mix(place.me.into(), round.into());
        let tag = u64::from(round & 1);
        let sent = place.send(&api, 0, (0, tag), [token, state, 0]).await;
        let answer = api.post(Posting { context: 1, ..from(0, 0) }).await;
        let message = loop {
            match api.test(answer).await {
                Some(message) => break message,
                None => state = mix(state, 2),
            }
        };
        state = mix(state, message.words[1]);
        api.matched(sent).await;
    }
    0
}

async fn wait_any(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    for round in 0..place.rounds.into() {
        let mut posted = Vec::new();
        for peer in place.others() {
            posted.push(api.post(from(peer, round)).await);
        }
        let mut sent = Vec::new();
        for peer in place.others() {
            let token = mix(place.me.into(), round);
            sent.extend(place.send(&api, peer, (0, round), [token, state, 0]).await);
        }
        while !posted.is_empty() {
            let (index, message) = api.wait_any(&posted).await;
            posted.remove(index);
            sum = sum.wrapping_add(message.words[0]);
            state = mix(mix(state, message.words[1]), message.name.source.into());
        }
        api.matched(sent).await;
    }
    sum
}

async fn stencil(api: Api, place: Place) -> u64 {
    let mut state = place.me.into();
    for round in 0..u64::from(place.rounds) * 2 {
        let left = api.post(from(place.left(), 2 * round)).await;
        let right = api.post(from(place.right(), 2 * round + 1)).await;
        let to_right = place.send(&api, place.right(), (0, 2 * round), [round, state, 0]).await;
        let to_left = place.send(&api, place.left(), (0, 2 * round + 1), [round, state, 1]).await;
        let (left, right) = (api.wait(left).await, api.wait(right).await);
        state = mix(mix(state, left.words[1]), right.words[1]);
        api.matched(to_left.into_iter().chain(to_right)).await;
    }
    state
}

async fn all_to_all(api: Api, place: Place) -> u64 {
    let mut state = place.me.into();
    for round in 0..u64::from(place.rounds) {
        let mut posted = Vec::new();
        for peer in place.others() {
            posted.push(api.post(Posting { context: 1, ..from(peer, 0) }).await);
        }
        let mut sent = Vec::new();
        for peer in place.others() {
            sent.extend(place.send(&api, peer, (1, 0), [round, state, peer.into()]).await);
        }
        for req in posted {
            state = mix(state, api.wait(req).await.words[1]);
        }
        api.matched(sent).await;
    }
    state
}

async fn impatient(api: Api, place: Place) -> u64 {
    let (mut state, mut sum) = (place.me.into(), 0_u64);
    for round in 0..u64::from(place.rounds) * 2 {
        let token = mix(place.me.into(), round);
        let sent = place.send(&api, place.right(), (0, round), [token, state, 0]).await;
        let message = loop {
            let any = round % 2 == 1;
            let posting = if any { from_any(round) } else { from(place.left(), round) };
            let req = api.post(posting).await;
            let mut found = None;
            for _ in 0..state % 3 {
                found = found.or(api.test(req).await);
                if found.is_some() {
                    break;
                }
                state = mix(state, 3);
            }
            if let Some(message) = found {
                break message;
            }
            if !api.cancel(req).await {
                break api.wait(req).await;
            }
            state = mix(state, 4);
        };
        sum = sum.wrapping_add(message.words[0]);
        state = mix(state, message.words[1]);
        api.matched(sent).await;
    }
    sum
}
