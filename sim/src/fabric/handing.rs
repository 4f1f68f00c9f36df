//! What a poll hands over to the sink.

use super::Mutant;
use super::coverage::Situation;
use super::ram::Span;
use super::sim_fabric::SimFabric;
use super::state::{Arrival, Content, Ready, Rest, What};
use taffrail_fabric::{Body, Head, Lease, Payload, PeerId, Sink, Take};

impl<const ORDERED: bool, const STREAMS: bool, const LEASES: bool>
    SimFabric<ORDERED, STREAMS, LEASES>
{
    /// Hands one thing over.
    pub(super) fn hand_over<S: Sink>(&mut self, Ready { peer, what }: Ready, sink: &mut S) {
        if let What::Arrival(Arrival { message, .. }) = &what {
            let watch = self.with(|net| net.watch.clone());
            watch.iter().for_each(|watch| {
                watch.borrow_mut().arrives(message.number, peer, self.rank);
            });
        }
        match what {
            What::Arrival(arrival) if arrival.is_whole() => self.message(peer, arrival, sink),
            What::Arrival(arrival) => self.beginning(peer, arrival, sink),
            What::Sent(token, result) => sink.sent(token, result),
            What::Moved(token, result) => sink.moved(token, result),
            What::Link(event) => {
                self.with(|net| net.reported(self.rank, peer, &event));
                sink.link(PeerId(peer as u32), event);
            }
        }
    }

    fn message<S: Sink>(&mut self, peer: usize, arrival: Arrival, sink: &mut S) {
        let Arrival { message, here, in_place } = arrival;
        let (from, len) = (PeerId(peer as u32), message.len);
        let lease = LEASES && len > self.limits.inline && !in_place;
        let is_full = self.leases.count() >= self.with(|net| net.settings.leases);
        if lease && is_full {
            self.with(|net| net.reach(Situation::LeasesUsedUp));
        }
        let how = ["whole", "leased"][usize::from(lease && !is_full)];
        self.with(|net| net.say(|| format!("{} has #{} {how} {len}", self.rank, message.number)));
        let take = match (&message.content, lease && !is_full) {
            (Content::Log { span, .. }, _) if in_place => {
                // Read in place, and checked once more as it is now.
                self.with(|net| net.read(&message, 0, len));
                sink.message(from, message.head, Body::Whole(span.part(0, len).payload()))
            }
            (_, true) => self.lease(from, message.head, &here, sink),
            _ => sink.message(from, message.head, Body::Whole(Payload::of(&here))),
        };
        assert_eq!(take, Take::Done, "the answer to a message that is whole");
        self.with(|net| net.give_room((peer, self.rank), message.epoch));
    }

    /// Hands a message over in a receive buffer that the sink may keep.
    fn lease<S: Sink>(&mut self, from: PeerId, head: Head, here: &[u8], sink: &mut S) -> Take {
        if self.with(|net| net.has(Mutant::LeaseReused)) {
            self.leases.overwrite_one();
        }
        let (name, buffer) = self.leases.buffer(here);
        match sink.message(from, head, Body::Leased(buffer.payload(), Lease(name))) {
            Take::Keep(Lease(kept)) => {
                assert_eq!(kept, name, "the lease of a message");
                self.leases.keep(name, buffer);
                self.with(|net| net.reach(Situation::LeaseKept));
                Take::Done
            }
            take => {
                self.leases.retire(buffer);
                take
            }
        }
    }

    /// Hands the beginning of a message over.
    fn beginning<S: Sink>(&mut self, peer: usize, arrival: Arrival, sink: &mut S) {
        let Arrival { message, here, .. } = arrival;
        let left = message.len - here.len();
        let situation =
            if here.is_empty() { Situation::StreamHead } else { Situation::StreamSplit };
        self.with(|net| {
            net.reach(situation);
            net.say(|| format!("{} has #{} {} and {left}", self.rank, message.number, here.len()));
        });
        let body = Body::Stream { here: Payload::of(&here), left };
        let into = match sink.message(PeerId(peer as u32), message.head, body) {
            Take::Done => None,
            Take::Rest(into, token) => Some((Span::of_buf(into), token)),
            Take::Keep(_) => panic!("the answer to the beginning of a message is to keep a lease"),
        };
        self.with(|net| {
            match &into {
                None => net.reach(Situation::StreamDropped),
                Some((into, _)) if into.len() < left => net.reach(Situation::RestCut),
                Some(_) => {}
            }
            let rest = Rest { message, here: here.len(), begins: here.len(), into };
            net.processes[self.rank].rests.insert(peer, rest);
        });
    }
}
