//! How messages leave, when they do.

use super::state::{Event, From, Operation, Outgoing};
use super::{Defect, Faulty};
use crate::{BeforeLog, Fabric, Head, PeerId, Refused, Sent, Source, Token, UserBytes};
use std::collections::HashSet;

/// Messages to one peer that wait at a time.
const WAITING_MAX: usize = 8;
/// Polls that a message waits at most.
const POLLS_MAX: usize = 4;

impl<F: Fabric, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>
    Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    pub(super) fn send_or_defer(
        &mut self,
        to: PeerId,
        head: Head,
        source: Source<'_>,
    ) -> Result<Sent, Refused> {
        if self.state.refuses() || self.is_busy_for_another(to) {
            return Err(Refused::Busy);
        }
        let waiting = self.state.waiting.get(&to).copied().unwrap_or(0);
        if let Source::User(bytes, token) = source
            && waiting < WAITING_MAX
            && self.defers(to, bytes, waiting)
        {
            return Ok(self.defer(to, head, bytes, token));
        }
        // Nothing overtakes what waits.
        let result = match waiting {
            0 => self.send_now(to, head, source),
            _ => Err(Refused::Busy),
        };
        match result {
            Err(Refused::Busy) => self.state.without_room.insert(to),
            _ => self.state.without_room.remove(&to),
        };
        self.spoil_send(to, head, source, result)
    }

    /// No room towards a peer keeps all others waiting, by a defect.
    fn is_busy_for_another(&self, to: PeerId) -> bool {
        self.state.has(Defect::AllBusy) && self.state.without_room.iter().any(|&peer| peer != to)
    }

    /// Whether user memory is read later.
    fn defers(&mut self, to: PeerId, bytes: UserBytes, waiting: usize) -> bool {
        let state = &mut self.state;
        let defect = state.has(Defect::SentEarly) || state.has(Defect::SourceReadLate);
        let later = state.trouble().later && (waiting > 0 || state.random.bool());
        // Whatever must be refused is refused at once.
        let fits = bytes.len() <= self.inner.limits(to).max_message;
        let up = !self.state.ended.contains_key(&to);
        (defect || later) && fits && up
    }

    fn defer(&mut self, to: PeerId, head: Head, bytes: UserBytes, token: Token) -> Sent {
        let state = &mut self.state;
        let is_early = state.has(Defect::SentEarly);
        let is_late = state.has(Defect::SourceReadLate);
        let polls = if is_early || is_late { POLLS_MAX } else { state.random.usize(..POLLS_MAX) };
        if is_early {
            state.push(to, Event::Sent(token, Ok(())));
        }
        let from = From::User(bytes, (!is_early && !is_late).then_some(token));
        state.put_off(Outgoing { to, head, from, polls });
        if is_late { Sent::Now } else { Sent::Later }
    }

    fn send_now(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        let Source::User(bytes, token) = source else { return self.inner.send(to, head, source) };
        let own = self.state.start(Operation::Of(to, token));
        let result = self.inner.send(to, head, Source::User(bytes, own));
        if result != Ok(Sent::Later) {
            self.state.operations.remove(&own);
        }
        if result == Ok(Sent::Now) && self.state.has(Defect::SentForNow) {
            self.state.push(to, Event::Sent(token, Ok(())));
        }
        result
    }

    /// What defects make of the answer to a send.
    fn spoil_send(
        &mut self,
        to: PeerId,
        head: Head,
        source: Source<'_>,
        result: Result<Sent, Refused>,
    ) -> Result<Sent, Refused> {
        match &result {
            Err(Refused::Failed(_)) if self.state.has(Defect::AcceptWithoutLink) => Ok(Sent::Now),
            Err(Refused::Busy) if self.state.has(Defect::NeverBusy) => {
                self.send_copy(to, head, source).map_or(result, |()| Ok(Sent::Now))
            }
            Err(Refused::Busy) if self.state.spoils(Defect::SendWhenBusy) => {
                self.send_copy(to, head, source);
                result
            }
            _ => result,
        }
    }

    /// Sends a copy when there is room; of bytes of a log there is none.
    fn send_copy(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Option<()> {
        let copy = match source {
            Source::Bytes(bytes) => bytes.to_vec(),
            Source::Parts(parts) | Source::BeforeLog(&BeforeLog { parts, .. }) => parts.concat(),
            Source::Log(_) | Source::User(..) => return None,
        };
        self.state.put_off(Outgoing { to, head, from: From::Copy(copy), polls: 0 });
        Some(())
    }

    /// Sends what waits, in the order of each peer.
    pub(super) fn flush(&mut self) {
        let mut stuck = HashSet::new();
        for _ in 0..self.state.outgoing.len() {
            let Some(mut one) = self.state.outgoing.pop_front() else { break };
            let waits = one.polls > 0 || stuck.contains(&one.to);
            one.polls = one.polls.saturating_sub(1);
            if waits || self.is_refused_now(&one) {
                stuck.insert(one.to);
                self.state.outgoing.push_back(one);
            } else {
                self.state.waiting.entry(one.to).and_modify(|count| *count -= 1);
            }
        }
    }

    /// Sends one message, unless there is no room.
    fn is_refused_now(&mut self, one: &Outgoing) -> bool {
        let (bytes, token): (&[u8], _) = match &one.from {
            From::Copy(bytes) => (bytes, None),
            From::User(bytes, token) => {
                // SAFETY: the bytes stay until `sent`; by a defect longer, in tests that keep them.
                (unsafe { bytes.as_slice() }, *token)
            }
        };
        let result = match self.inner.send(one.to, one.head, Source::Bytes(bytes)) {
            Ok(_) => Ok(()),
            Err(Refused::Busy) => return true,
            Err(Refused::Failed(why)) => Err(why),
            Err(refused) => panic!("a message that was accepted is refused: {refused}"),
        };
        if let Some(token) = token {
            self.state.sent(one.to, token, result);
        }
        false
    }
}
