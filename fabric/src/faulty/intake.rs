//! What comes from the fabric below, and what defects make of it.

use super::Defect;
use super::state::{Event, Operation, State};
use crate::{Body, Fault, Head, LinkEvent, PeerId, Sink, Take, Token, UserBuf};
use std::time::{Duration, Instant};

/// Silence after which a peer is given up, by a defect.
const SILENCE: Duration = Duration::from_millis(5);

impl Sink for State {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        match body {
            Body::Whole(payload) | Body::Leased(payload, _) => {
                self.arrived(from, head, payload.to_vec());
                Take::Done
            }
            Body::Stream { here, left } => {
                let mut bytes = here.to_vec();
                bytes.resize(here.len() + left, 0);
                let rest = &mut bytes[here.len()..];
                // SAFETY: the bytes are moved only when the rest has ended, and what they lie in never.
                let into = unsafe { UserBuf::new(rest.as_mut_ptr(), rest.len()) };
                Take::Rest(into, self.start(Operation::Rest(from, head, bytes)))
            }
        }
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        match self.operations.remove(&token) {
            Some(Operation::Of(peer, token)) => State::sent(self, peer, token, result),
            _ => panic!("the send {token:?} of the fabric below has ended, and is not under way"),
        }
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        match self.operations.remove(&token) {
            Some(Operation::Of(peer, token)) => self.completed(peer, token, result),
            Some(Operation::Rest(from, head, bytes)) => {
                // A message that does not become whole does not arrive.
                if result.is_ok() {
                    self.arrived(from, head, bytes);
                }
            }
            None => panic!("{token:?} of the fabric below has ended, and is not under way"),
        }
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        let why = match &event {
            LinkEvent::Up(_) => {
                self.ended.remove(&peer);
                self.disconnected.remove(&peer);
                return self.push(peer, Event::Link(event));
            }
            LinkEvent::Closed => Fault::Closed,
            LinkEvent::Broken(why) => why.clone(),
        };
        if self.ended.insert(peer, why).is_none() || self.disconnected.contains(&peer) {
            self.end(peer, event);
        }
    }
}

impl State {
    fn arrived(&mut self, from: PeerId, mut head: Head, mut bytes: Vec<u8>) {
        let len = bytes.len();
        if self.is_muted(from) || self.spoils(Defect::Lose) {
            return;
        }
        if len > 100 && self.spoils(Defect::Corrupt) {
            bytes[len / 2] ^= 0x10;
        }
        if len > 0 && self.spoils(Defect::Truncate) {
            bytes.pop();
        }
        if self.has(Defect::ForgetBit) {
            head.tag &= u64::MAX >> 1;
        }
        if self.has(Defect::EndOfSilent) {
            self.heard.insert(from, Instant::now());
        }
        if self.concerns(from) && self.faults.defect.is_some_and(Defect::is_of_last_message) {
            if let Some((head, bytes)) = self.last.insert(from, (head, bytes)) {
                self.push(from, Event::Message(head, bytes));
            }
            return;
        }
        if self.spoils(Defect::Duplicate) {
            self.push(from, Event::Message(head, bytes.clone()));
        }
        self.push(from, Event::Message(head, bytes));
        let count = self.queue.len();
        if count > 1 && self.spoils(Defect::Reorder) {
            self.queue.swap(count - 1, count - 2);
        }
    }

    /// Whether a defect suppresses messages of this peer.
    fn is_muted(&self, from: PeerId) -> bool {
        (self.has(Defect::StallAfterEnd) && !self.ended.is_empty())
            || (self.has_of(Defect::EndOfSilent, from) && self.ended.contains_key(&from))
    }

    fn completed(&mut self, peer: PeerId, token: Token, result: Result<(), Fault>) {
        if self.has(Defect::FailWithoutEnd) && result.is_err() {
            return;
        }
        if self.spoils(Defect::CompleteTwice) {
            self.push(peer, Event::Moved(token, result.clone()));
        }
        self.push(peer, Event::Moved(token, result));
    }

    /// The link with a peer has ended.
    fn end(&mut self, peer: PeerId, event: LinkEvent) {
        let last = self.last.remove(&peer).map(|(head, bytes)| Event::Message(head, bytes));
        let defect = self.faults.defect.filter(|_| self.concerns(peer));
        match (defect, last) {
            (Some(Defect::EndNever), _) => {}
            (Some(Defect::EndTwice), _) => {
                self.push(peer, Event::Link(event.clone()));
                self.push(peer, Event::Link(event));
            }
            (Some(Defect::EndOfAnother), _) => self.push(PeerId(peer.0 + 1), Event::Link(event)),
            (Some(Defect::EndMisnamed), _) => {
                let event = match event {
                    LinkEvent::Closed => LinkEvent::Broken(Fault::Died),
                    _ => LinkEvent::Closed,
                };
                self.push(peer, Event::Link(event));
            }
            (Some(Defect::LastAfterEnd), Some(last)) => {
                self.push(peer, Event::Link(event));
                self.push(peer, last);
            }
            (Some(Defect::LastTwice), Some(Event::Message(head, bytes))) => {
                self.push(peer, Event::Message(head, bytes.clone()));
                self.push(peer, Event::Message(head, bytes));
                self.push(peer, Event::Link(event));
            }
            (Some(Defect::LastTorn), Some(Event::Message(head, mut bytes))) => {
                if bytes.pop().is_none() {
                    bytes.push(0);
                }
                self.push(peer, Event::Message(head, bytes));
                self.push(peer, Event::Link(event));
            }
            _ => self.push(peer, Event::Link(event)),
        }
    }

    /// Ends the links with silent peers, by a defect.
    pub(super) fn lose_patience(&mut self) {
        if !self.has(Defect::EndOfSilent) {
            return;
        }
        let heard = self.heard.iter().filter(|(_, at)| at.elapsed() > SILENCE);
        let silent: Vec<PeerId> = heard.map(|(&peer, _)| peer).collect();
        for peer in silent {
            if !self.concerns(peer) {
                continue;
            }
            if self.ended.insert(peer, Fault::Died).is_none() {
                self.push(peer, Event::Link(LinkEvent::Broken(Fault::Died)));
            }
        }
    }
}
