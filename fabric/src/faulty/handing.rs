//! How what has arrived is handed over.

use super::state::{Event, GARBAGE, Held, Rest, State};
use super::{Defect, Faulty};
use crate::{Body, Fabric, Fault, Head, Lease, LinkEvent, Payload, PeerId, Sink, Take};

/// Receive buffers that the sink can keep at a time.
const LEASES_MAX: usize = 32;
/// As much is handed over by one poll at the most, if it is late.
const LATE_MAX: usize = 4;
/// As much is taken in before something is handed over, if it is late.
const HELD_MAX: usize = 64;

/// How a body is handed over.
enum Way {
    Whole,
    Stream,
    Leased,
}

impl<F: Fabric, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>
    Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    /// Takes in by `call` what the fabric below has, and hands something over.
    pub(super) fn progress<S: Sink>(
        &mut self,
        sink: &mut S,
        call: impl FnOnce(&mut F, &mut State) -> usize,
    ) -> usize {
        if !self.state.trouble().late || self.state.queue.len() < HELD_MAX {
            call(&mut self.inner, &mut self.state);
        }
        self.state.lose_patience();
        self.state.scribble();
        self.flush();
        // What is kept here has not been handed over.
        let mut calls = self.state.move_rests(sink);
        let mut budget = match self.state.trouble().late {
            true => self.state.random.usize(..=LATE_MAX),
            false => usize::MAX,
        };
        while budget > 0
            && let Some(held) = self.state.pick(Self::ORDERED)
        {
            budget -= 1;
            calls += self.hand_over(held, sink);
        }
        calls
    }

    fn hand_over<S: Sink>(&mut self, Held { peer, event }: Held, sink: &mut S) -> usize {
        match event {
            Event::Message(head, bytes) => self.hand_message(peer, head, bytes, sink),
            Event::Sent(token, result) => sink.sent(token, result),
            Event::Moved(token, result) => sink.moved(token, result),
            Event::Link(event) => sink.link(peer, event),
        }
        1
    }

    fn way(&mut self, len: usize) -> Way {
        let random = self.state.random.u8(..3);
        let has_lease = LEASING && self.state.leases.len() < LEASES_MAX;
        let streams = STREAMING && len > 0;
        match random {
            0 | 1 if streams && !(has_lease && random == 1) => Way::Stream,
            0 | 1 if has_lease => Way::Leased,
            _ => Way::Whole,
        }
    }

    fn hand_message<S: Sink>(&mut self, from: PeerId, head: Head, bytes: Vec<u8>, sink: &mut S) {
        match self.way(bytes.len()) {
            Way::Whole => {
                let take = sink.message(from, head, Body::Whole(Payload::of(&bytes)));
                assert_eq!(take, Take::Done, "the answer to a whole message");
            }
            Way::Stream => {
                let here = self.state.random.usize(..bytes.len());
                let left = bytes.len() - here;
                let body = Body::Stream { here: Payload::of(&bytes[..here]), left };
                match sink.message(from, head, body) {
                    Take::Done => {}
                    Take::Rest(into, token) => {
                        let bytes = bytes[here..].to_vec();
                        self.state.rests.push(Rest { peer: from, bytes, into, done: 0, token });
                    }
                    Take::Keep(lease) => panic!("{lease:?} is to be kept, and {from} streams"),
                }
            }
            Way::Leased => {
                self.state.last_lease += 1;
                let lease = self.state.last_lease;
                let buffer = self.state.leases.entry(lease).or_insert(bytes.into());
                match sink.message(from, head, Body::Leased(Payload::of(buffer), Lease(lease))) {
                    Take::Done => self.state.retire(lease),
                    Take::Keep(kept) => assert_eq!(kept, Lease(lease), "the lease that is kept"),
                    Take::Rest(..) => {
                        panic!("all of a message of {from} is here, and a rest is asked for")
                    }
                }
            }
        }
    }
}

impl State {
    /// Writes to a receive buffer that the sink keeps, by a defect.
    fn scribble(&mut self) {
        if self.has(Defect::LeaseReused)
            && let Some(buffer) = self.leases.values_mut().next()
        {
            buffer.fill(GARBAGE);
        }
    }

    /// Continues with rests of messages.
    fn move_rests<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut ended = 0;
        for mut rest in std::mem::take(&mut self.rests) {
            if self.is_moved(&mut rest) {
                let times = match self.faults.defect {
                    Some(Defect::RestNever) => 0,
                    Some(Defect::RestTwice) => 2,
                    _ => 1,
                };
                (0..times).for_each(|_| sink.moved(rest.token, Ok(())));
                ended += times;
            } else {
                self.rests.push(rest);
            }
        }
        ended
    }

    /// Moves a part of a rest. Whether it has ended.
    fn is_moved(&mut self, rest: &mut Rest) -> bool {
        let fits = rest.bytes.len().min(rest.into.len());
        let part = self.random.usize(..=fits - rest.done).max(1).min(fits - rest.done);
        let mut end = rest.done + part;
        rest.done = end;
        if end == fits && self.has(Defect::RestShort) {
            end = end.saturating_sub(1);
        }
        if end == fits && self.has(Defect::RestTooLong) && rest.bytes.len() > fits {
            end += 1;
        }
        let start = (rest.done - part).min(end);
        // SAFETY: inside the memory that the sink has given until `moved`; by a defect a byte beyond it, in tests that
        // have one.
        unsafe {
            let from = rest.bytes.as_ptr().add(start);
            from.copy_to_nonoverlapping(rest.into.as_ptr().add(start), end - start);
        }
        rest.done == fits
    }

    /// Takes the next thing to be handed over out of the queue.
    fn pick(&mut self, ordered: bool) -> Option<Held> {
        // For each peer: whether a message, the change of a link, and the end of something are in front.
        let mut before: Vec<(PeerId, bool, bool, bool)> = Vec::new();
        if !self.has(Defect::RestInterrupted) {
            before.extend(self.rests.iter().map(|rest| (rest.peer, true, true, false)));
        }
        let mut free = Vec::new();
        for (at, held) in self.queue.iter().enumerate() {
            let of_peer = before.iter().position(|&(peer, ..)| peer == held.peer);
            let of_peer = of_peer.unwrap_or_else(|| {
                before.push((held.peer, false, false, false));
                before.len() - 1
            });
            let (_, message, link, end) = &mut before[of_peer];
            let is_free = match held.event {
                Event::Sent(..) | Event::Moved(..) => {
                    *end = true;
                    true
                }
                Event::Message(..) => {
                    let blocked = *link || (ordered && *message);
                    *message = true;
                    !blocked
                }
                Event::Link(_) => {
                    let blocked = *link || *message || *end;
                    *link = true;
                    !blocked
                }
            };
            if is_free {
                free.push(at);
                if ordered && !self.trouble().reorder {
                    break;
                }
            }
        }
        let at = *free.get(self.random.usize(..free.len().max(1)))?;
        self.queue.remove(at)
    }

    /// Drops what waits of a peer that is disconnected, and ends what is under way with it.
    pub(super) fn drop_messages(&mut self, peer: PeerId, why: &Fault) {
        self.last.remove(&peer);
        self.queue.retain(|held| held.peer != peer || !matches!(held.event, Event::Message(..)));
        for held in &mut self.queue {
            if held.peer == peer && matches!(held.event, Event::Link(_)) {
                held.event = Event::Link(LinkEvent::Broken(why.clone()));
            }
        }
        for rest in std::mem::take(&mut self.rests) {
            if rest.peer == peer {
                // In front of the end of the link.
                let event = Event::Moved(rest.token, Err(why.clone()));
                self.queue.push_front(Held { peer, event });
            } else {
                self.rests.push(rest);
            }
        }
    }
}
