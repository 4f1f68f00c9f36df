//! The calls, as a program makes them.

use super::{Body, Call, Failed, Message, Outcome, Port, Req, mix};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use taffrail_logging::Rank;
use taffrail_matching::Posting;

/// The calls, as a program sees them.
pub struct Api {
    pub(super) port: Rc<Port>,
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

    /// A call that starts something.
    async fn request(&self, call: Call) -> Req {
        match self.call(call).await {
            Outcome::Request(req) => req,
            other => unreachable!("{other:?}"),
        }
    }

    /// Posts a receive.
    pub async fn post(&self, posting: Posting) -> Req {
        self.request(Call::Post(posting)).await
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
            Outcome::Seen { name, tag, .. } => Some((name.source, tag)),
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

    /// Starts to send.
    pub async fn begin(
        &self,
        to: Rank,
        context: u16,
        tag: u64,
        words: [u64; 3],
        sync: bool,
    ) -> Req {
        self.request(Call::Begin { to, context, tag, body: body(words, tag), sync }).await
    }

    /// Waits for the end of a send: whether its message was received.
    pub async fn sent(&self, req: Req) -> bool {
        self.call(Call::Wait(req)).await == Outcome::Done
    }

    /// Lends a message.
    pub async fn lend(&self, to: Rank, context: u16, tag: u64, words: [u64; 3]) {
        self.call(Call::Lend { to, context, tag, body: body(words, tag) }).await;
    }

    /// Posts a receive of a message in place.
    pub async fn post_view(&self, posting: Posting) -> Req {
        self.request(Call::PostView(posting)).await
    }

    /// Drops a view.
    pub async fn drop_view(&self, req: Req) {
        self.call(Call::Drop(req)).await;
    }

    /// Posts a receive of many messages.
    pub async fn post_many(&self, posting: Posting, room: usize) -> Req {
        self.request(Call::PostMany(posting, room)).await
    }

    /// Waits until a receive of many messages is over; or has been cancelled, if that was in time.
    pub async fn is_full(&self, req: Req) {
        self.call(Call::Wait(req)).await;
    }

    /// The next message of a receive of many, which is over.
    pub async fn landed(&self, req: Req) -> Option<Message> {
        match self.call(Call::Landed(req)).await {
            Outcome::Landed(_, message) => Some(message),
            _ => None,
        }
    }

    /// Lets the end of a request be reported.
    pub async fn report(&self, req: Req) {
        self.call(Call::Report(req)).await;
    }

    /// The next reported completion, or the next message of a receive of many; with `more` only one that the last poll has
    /// found. Whether the request is complete.
    pub async fn next_ended(&self, more: bool) -> Option<(Req, Option<Message>, bool)> {
        match self.call(Call::NextEnded { more }).await {
            Outcome::Ended(req, message) => Some((req, message, true)),
            Outcome::Landed(req, message) => Some((req, Some(message), false)),
            _ => None,
        }
    }

    /// Exposes a window of `words` words.
    pub async fn expose(&self, words: usize, registered: bool) {
        self.call(Call::Expose(words, registered)).await;
    }

    /// Starts to read words of the window of another rank.
    pub async fn get(&self, from: Rank, at: usize, count: usize, named: bool) -> Req {
        self.request(Call::Get { from, at, count, named }).await
    }

    /// Starts to write words to the window of another rank.
    pub async fn put(&self, to: Rank, at: usize, words: &[u64], named: bool) -> Req {
        self.request(Call::Put { to, at, words: words.to_vec(), named }).await
    }

    /// Starts to add to a word of the window of another rank.
    pub async fn add(&self, to: Rank, at: usize, value: u64, fetch: bool) -> Req {
        self.request(Call::Add { to, at, value, fetch }).await
    }

    /// Waits for a get: whether it was refused.
    pub async fn is_refused(&self, req: Req) -> bool {
        self.call(Call::Wait(req)).await == Outcome::Refused
    }

    /// Ends that the window of this rank has a name.
    pub async fn hide(&self) {
        self.call(Call::Hide).await;
    }

    /// Sends an active message.
    pub async fn activate(&self, to: Rank, header: u64, words: [u64; 3]) {
        self.call(Call::Activate { to, header, words }).await;
    }

    /// The next active message.
    pub async fn next_active(&self) -> Option<Message> {
        match self.call(Call::NextActive).await {
            Outcome::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Waits for a get, put or addition: the words that have come.
    pub async fn words(&self, req: Req) -> Vec<u64> {
        match self.call(Call::Wait(req)).await {
            Outcome::Words(words) => words,
            _ => Vec::new(),
        }
    }

    /// Words of the window of this rank.
    pub async fn load(&self, at: usize, count: usize) -> Vec<u64> {
        match self.call(Call::Load(at, count)).await {
            Outcome::Words(words) => words,
            other => unreachable!("{other:?}"),
        }
    }

    /// Writes a word of the window of this rank.
    pub async fn store(&self, at: usize, word: u64) {
        self.call(Call::Store(at, word)).await;
    }

    /// As [`begin`](Self::begin), to a peer that may be gone.
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn try_begin(
        &self,
        to: Rank,
        (context, tag): (u16, u64),
        words: [u64; 3],
        sync: bool,
    ) -> Result<Req, Failed> {
        match self.call(Call::Begin { to, context, tag, body: body(words, tag), sync }).await {
            Outcome::Request(req) => Ok(req),
            Outcome::Failed(failed) => Err(failed),
            other => unreachable!("{other:?}"),
        }
    }

    /// As [`wait`](Self::wait), for a send as well, which has no message.
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn try_wait(&self, req: Req) -> Result<Option<Message>, Failed> {
        ended(self.call(Call::Wait(req)).await)
    }

    /// As [`test`](Self::test).
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn try_test(&self, req: Req) -> Result<Option<Message>, Failed> {
        ended(self.call(Call::Test(req)).await)
    }

    /// As [`claim`](Self::claim).
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn try_claim(&self, posting: Posting) -> Result<Option<Req>, Failed> {
        match self.call(Call::Claim(posting)).await {
            Outcome::Request(req) => Ok(Some(req)),
            Outcome::Failed(failed) => Err(failed),
            _ => Ok(None),
        }
    }

    /// Whether a probe has seen a message, all of which is here.
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn try_probe(&self, posting: Posting) -> Result<bool, Failed> {
        match self.call(Call::Probe(posting)).await {
            Outcome::Seen { whole, .. } => Ok(whole),
            Outcome::Failed(failed) => Err(failed),
            _ => Ok(false),
        }
    }

    /// Does something else for one step.
    pub async fn compute(&self) {
        self.call(Call::Compute).await;
    }
}

fn ended(outcome: Outcome) -> Result<Option<Message>, Failed> {
    match outcome {
        Outcome::Message(message) => Ok(Some(message)),
        Outcome::Failed(failed) => Err(failed),
        _ => Ok(None),
    }
}

/// What a message carries, in as many pieces as the words ask for.
fn body(words: [u64; 3], tag: u64) -> Body {
    Body { words, pieces: pieces(words[0], tag) }
}

/// In how many pieces a message with this first word travels.
pub(crate) fn pieces(word: u64, tag: u64) -> u8 {
    1 + (mix(word, tag) % 3) as u8
}
