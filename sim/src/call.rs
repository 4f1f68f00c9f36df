//! Calls of a program, and their outcomes.
//!
//! A program is a future: each `await` hands one [`Call`] to the simulator and returns its
//! [`Outcome`]. The program has no other input, so that it is determined by its outcomes.

mod api;

pub use api::Api;
pub(crate) use api::pieces;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use taffrail_logging::{MsgId, Rank};
use taffrail_matching::Posting;

/// A request: the requests of a rank are counted.
pub type Req = usize;

/// The context of messages that carry the key of their sender's window, which is not the same in each execution: behind their
/// words, so that no program sees it.
pub const KEYS: u16 = 13;

/// The context of messages with a number beside their payload.
pub const NUMBERED: u16 = 14;

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
    /// Starts to send: a request for the end.
    Begin {
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
    /// Sends a buffer away, without a copy where that can be.
    Lend {
        /// Its receiver.
        to: Rank,
        /// The context.
        context: u16,
        /// The tag.
        tag: u64,
        /// What it carries.
        body: Body,
    },
    /// Posts a receive of a message in place: a view.
    PostView(Posting),
    /// Drops a view.
    Drop(Req),
    /// Posts a receive of many messages into one buffer of this length in bytes.
    PostMany(Posting, usize),
    /// The next message that such a receive has got, which is over.
    Landed(Req),
    /// Lets the end of a request be reported.
    Report(Req),
    /// The next end that is reported.
    NextEnded {
        /// What else was over at the last look, and nothing else.
        more: bool,
    },
    /// Sends an active message.
    Activate {
        /// Its target.
        to: Rank,
        /// The number that goes with it.
        header: u64,
        /// What it carries.
        words: [u64; 3],
    },
    /// The next active message that has arrived.
    NextActive,
    /// Ends that the window of this rank has a name.
    Hide,
    /// Exposes a window of this number of words to other ranks; registered memory, or a buffer.
    Expose(usize, bool),
    /// Starts to read words of the window of another rank.
    Get {
        /// Whose.
        from: Rank,
        /// The first word.
        at: usize,
        /// How many.
        count: usize,
        /// By the name of the window, not its key.
        named: bool,
    },
    /// Starts to write words to the window of another rank.
    Put {
        /// Whose.
        to: Rank,
        /// The first word.
        at: usize,
        /// What.
        words: Vec<u64>,
        /// By the name of the window, not its key.
        named: bool,
    },
    /// Starts to add to a word of the window of another rank.
    Add {
        /// Whose.
        to: Rank,
        /// Which word.
        at: usize,
        /// How much.
        value: u64,
        /// What was there before comes back.
        fetch: bool,
    },
    /// Reads words of the window of this rank: the first one, and how many.
    Load(usize, usize),
    /// Writes a word of the window of this rank.
    Store(usize, u64),
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
        /// All of it is here: known where messages are not logged.
        whole: bool,
    },
    /// Whether the receive was cancelled in time.
    Cancelled(bool),
    /// The end of the program of the receiver came first.
    Unreceived,
    /// The end of a request: with its message, if it is a receive.
    Ended(Req, Option<Message>),
    /// A message of a receive of many, which stays posted.
    Landed(Req, Message),
    /// There is no such memory, or not any more.
    Refused,
    /// Words of a window.
    Words(Vec<u64>),
    /// The call, or its request, has failed: this rank is gone.
    Failed(Failed),
}

/// A peer that is gone, as an error names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The peer.
    pub rank: Rank,
    /// It has died. Otherwise it has closed its endpoint.
    pub died: bool,
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

    /// Replays these outcomes from the start, and so restores the state that a program had after them.
    pub fn go_on_from(&mut self, told: &[Outcome]) -> Next {
        let first = self.go_on(None);
        told.iter().fold(first, |_, outcome| self.go_on(Some(outcome.clone())))
    }

    /// Runs to the next call; `outcome` is that of the call before, `None` at the start.
    pub fn go_on(&mut self, outcome: Option<Outcome>) -> Next {
        self.port.outcome.set(outcome);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Next::End(result),
            Poll::Pending => Next::Call(self.port.call.take().expect("it waits for a call")),
        }
    }
}

/// A hash of two words.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
