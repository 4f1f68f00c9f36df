//! What a program can ask of its rank, and what it is told.
//!
//! A program is a future: each `await` hands one [`Call`] to the simulator and goes on with its
//! [`Outcome`]. It knows nothing else, so it is determined by its outcomes.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use taffrail_logging::{MsgId, Rank};
use taffrail_matching::Posting;

/// A request: those of a rank are counted.
pub type Req = usize;

/// What a message carries; it travels in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// The bytes.
    pub words: [u64; 3],
    /// In how many pieces they travel: 1 to 3.
    pub pieces: u8,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Sends; never waits, also if it is synchronous: then its end is waited for.
    Send {
        /// Its receiver.
        to: Rank,
        /// The context.
        context: u16,
        /// The tag.
        tag: u64,
        /// What it carries.
        body: Body,
        /// Whether it is synchronous.
        sync: bool,
    },
    /// Waits until a synchronous message is matched.
    Matched {
        /// Its receiver.
        to: Rank,
        /// The context.
        context: u16,
        /// The number in the channel.
        seq: u32,
    },
    /// Posts a receive.
    Post(Posting),
    /// Waits until a request is over.
    Wait(Req),
    /// Whether a request is over.
    Test(Req),
    /// Waits until one of several is over.
    WaitAny(Vec<Req>),
    /// The message that a receive posted now would get.
    Probe(Posting),
    /// Takes that message, and makes a request of it.
    Claim(Posting),
    /// Cancels a receive, if it has no message yet.
    Cancel(Req),
    /// Anything else.
    Compute,
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which one it is.
    pub name: MsgId,
    /// Its tag.
    pub tag: u64,
    /// What it carries.
    pub words: [u64; 3],
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is numbered; programs need this only to wait for the match of a synchronous message.
    Sent {
        /// The number in the channel.
        seq: u32,
    },
    /// The request of a receive or a claim.
    Request(Req),
    /// The request is over.
    Message(Message),
    /// The one at this place is over.
    Any(usize, Message),
    /// A poll has found nothing.
    Nothing,
    /// A probe has seen this message.
    Seen {
        /// Which one it is.
        name: MsgId,
        /// Its tag.
        tag: u64,
    },
    /// Whether the receive was cancelled in time.
    Cancelled(bool),
}

/// Where calls and outcomes pass between a program and the simulator.
#[derive(Default)]
pub struct Port {
    call: Cell<Option<Call>>,
    outcome: Cell<Option<Outcome>>,
}

/// A program that runs.
pub struct Program {
    port: Rc<Port>,
    future: Pin<Box<dyn Future<Output = u64>>>,
}

/// What a program does next.
pub enum Next {
    /// It asks.
    Call(Call),
    /// It has ended, with this result.
    End(u64),
}

impl Program {
    /// The start of a program.
    pub fn new<F: Future<Output = u64> + 'static>(start: impl FnOnce(Api) -> F) -> Self {
        let port = Rc::new(Port::default());
        let future = Box::pin(start(Api { port: port.clone() }));
        Program { port, future }
    }

    /// Goes on to where it was when it had been told all this, which is all that its state depends on.
    pub fn go_on_from(&mut self, told: &[Outcome]) -> Next {
        let first = self.go_on(None);
        told.iter().fold(first, |_, outcome| self.go_on(Some(outcome.clone())))
    }

    /// Goes on to the next call; with the outcome of the one before, but for the first.
    pub fn go_on(&mut self, outcome: Option<Outcome>) -> Next {
        self.port.outcome.set(outcome);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Next::End(result),
            Poll::Pending => Next::Call(self.port.call.take().expect("it waits for a call")),
        }
    }
}

/// The calls, as a program sees them.
pub struct Api {
    port: Rc<Port>,
}

impl Api {
    async fn call(&self, call: Call) -> Outcome {
        self.port.call.set(Some(call));
        poll_fn(|_| match self.port.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        })
        .await
    }

    /// Sends; in as many pieces as the words ask for.
    pub async fn send(&self, to: Rank, context: u16, tag: u64, words: [u64; 3]) {
        let sync = false;
        self.call(Call::Send { to, context, tag, body: body(words, tag), sync }).await;
    }

    /// Starts to send a synchronous message: the call that waits until it is matched.
    pub async fn start_sync(&self, to: Rank, context: u16, tag: u64, words: [u64; 3]) -> Call {
        let sync = true;
        match self.call(Call::Send { to, context, tag, body: body(words, tag), sync }).await {
            Outcome::Sent { seq } => Call::Matched { to, context, seq },
            other => unreachable!("{other:?}"),
        }
    }

    /// Waits until the messages of these calls are matched.
    pub async fn matched(&self, calls: impl IntoIterator<Item = Call>) {
        for call in calls {
            self.call(call).await;
        }
    }

    /// Posts a receive.
    pub async fn post(&self, posting: Posting) -> Req {
        match self.call(Call::Post(posting)).await {
            Outcome::Request(req) => req,
            other => unreachable!("{other:?}"),
        }
    }

    /// Waits for a request.
    pub async fn wait(&self, req: Req) -> Message {
        match self.call(Call::Wait(req)).await {
            Outcome::Message(message) => message,
            other => unreachable!("{other:?}"),
        }
    }

    /// Posts a receive and waits for it.
    pub async fn recv(&self, posting: Posting) -> Message {
        let req = self.post(posting).await;
        self.wait(req).await
    }

    /// Whether a request is over.
    pub async fn test(&self, req: Req) -> Option<Message> {
        match self.call(Call::Test(req)).await {
            Outcome::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Waits for one of several: its place among them.
    pub async fn wait_any(&self, reqs: &[Req]) -> (usize, Message) {
        match self.call(Call::WaitAny(reqs.to_vec())).await {
            Outcome::Any(place, message) => (place, message),
            other => unreachable!("{other:?}"),
        }
    }

    /// The source and the tag of a message that is here.
    pub async fn probe(&self, posting: Posting) -> Option<(Rank, u64)> {
        match self.call(Call::Probe(posting)).await {
            Outcome::Seen { name, tag } => Some((name.source, tag)),
            _ => None,
        }
    }

    /// Claims a message that is here.
    pub async fn claim(&self, posting: Posting) -> Option<Req> {
        match self.call(Call::Claim(posting)).await {
            Outcome::Request(req) => Some(req),
            _ => None,
        }
    }

    /// Cancels a receive: whether it came in time.
    pub async fn cancel(&self, req: Req) -> bool {
        self.call(Call::Cancel(req)).await == Outcome::Cancelled(true)
    }

    /// Does something else for one step.
    pub async fn compute(&self) {
        self.call(Call::Compute).await;
    }
}

/// What a message carries, in as many pieces as the words ask for.
fn body(words: [u64; 3], tag: u64) -> Body {
    Body { words, pieces: 1 + (mix(words[0], tag) % 3) as u8 }
}

/// A hash of two words.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
