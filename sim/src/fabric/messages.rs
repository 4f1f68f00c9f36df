//! How messages get from one process to another.

use super::coverage::Situation;
use super::ram::Span;
use super::state::{
    Arrival, Content, Link, Message, Net, Process, Ready, Rest, Sending, State, What,
};
use super::watch::Frame;
use super::{Amount, Mutant};
use taffrail_fabric::{Fault, Head, Refused, Sent, Token};

/// One message in this many is spoilt by a mutant.
const SPOILT: u64 = 5;

impl Net {
    /// Accepts a message, or says why not.
    pub(super) fn send(
        &mut self,
        (from, to): (usize, usize),
        head: Head,
        content: Content,
        token: Option<Token>,
    ) -> Result<Sent, Refused> {
        let (got, limit) = (content.len(), self.settings.max_message);
        if got > limit {
            return Err(Refused::TooLong { got, limit });
        }
        if self.end(from, to).link == Link::Unasked {
            return Err(self.call(from, to, self.end(from, to).incarnation));
        }
        if let Some(fault) = self.end(from, to).fault() {
            return Err(Refused::Failed(fault));
        }
        let channel = self.channel(from, to);
        let is_full = channel.waiting >= self.settings.capacity && !self.has(Mutant::NeverBusy);
        if is_full || channel.is_jammed {
            self.reach(Situation::Busy);
            if self.has(Mutant::SentWhenBusy) {
                self.launch((from, to), head, content, None);
            }
            return Err(Refused::Busy);
        }
        if self.end(from, to).ended.is_some() {
            self.reach(Situation::SentOnBroken);
        }
        Ok(self.launch((from, to), head, content, token))
    }

    fn launch(
        &mut self,
        (from, to): (usize, usize),
        head: Head,
        content: Content,
        token: Option<Token>,
    ) -> Sent {
        let (number, len) = (self.number(), content.len());
        let kind = content.kind();
        let content = if token.is_some() { content } else { content.owned_if_user() };
        let is_later = matches!(content, Content::User { .. });
        self.say(|| {
            format!("{from}>{to} #{number} {kind} {len}{}", ["", " later"][usize::from(is_later)])
        });
        if let Some(watch) = &self.watch {
            let frame = Frame { number, from, to, head: &head, payload: content.bytes() };
            watch.borrow_mut().leaves(&frame);
        }
        if let (true, Some(token)) = (is_later, token) {
            let result = self.has(Mutant::SentEarly).then_some(Ok(()));
            let incarnation = self.end(from, to).incarnation;
            self.sends.insert(number, Sending { from, to, incarnation, token, result });
        }
        self.end_mut(from, to).was_used = true;
        // Not of a process that has come after the one that the sender's link is with.
        self.end_mut(to, from).was_used |= self.end(to, from).is_up();
        let of = self.processes[from].incarnation;
        let is_lost = self.has(Mutant::MessageLost) && number.is_multiple_of(SPOILT);
        let channel = self.channel_mut(from, to);
        channel.waiting += 1;
        let epoch = channel.epoch;
        let message = Message { number, head, len, content, epoch, of, has_failed: false };
        match is_lost {
            true => self.source_done(number, Ok(())),
            false => channel.flight.push_back(message),
        }
        if is_later { Sent::Later } else { Sent::Now }
    }

    /// A message on the way arrives, or its beginning does.
    pub(super) fn carry(&mut self, (from, to): (usize, usize), at: usize, amount: Amount) {
        let Some(mut message) = self.channel_mut(from, to).flight.remove(at) else { return };
        self.note_carry((from, to), at, &message);
        if self.has(Mutant::MessageTorn) && message.number.is_multiple_of(SPOILT) {
            message.len = message.len.saturating_sub(1);
        }
        let in_place = self.settings.in_place && matches!(message.content, Content::Log { .. });
        let count = part(amount, message.len);
        let here = if in_place { Vec::new() } else { self.read(&message, 0, count) };
        let mut arrival = Arrival { message, here, in_place };
        if arrival.is_whole() {
            self.source_done(arrival.message.number, Ok(()));
            if !in_place {
                arrival.message.content = Content::Owned(Vec::new());
            }
        }
        if self.has(Mutant::MessageDoubled)
            && arrival.message.number.is_multiple_of(SPOILT)
            && arrival.is_whole()
        {
            self.push(to, from, What::Arrival(arrival.doubled()));
        }
        self.push(to, from, What::Arrival(arrival));
    }

    fn note_carry(&mut self, (from, to): (usize, usize), at: usize, message: &Message) {
        if at > 0 {
            self.reach(Situation::Overtaken);
        }
        let fronts = (0..self.count()).filter(|&other| other != from);
        let mut fronts = fronts.filter_map(|other| self.channel(other, to).flight.front());
        if fronts.any(|front| front.number < message.number) {
            self.reach(Situation::ChannelsCrossed);
        }
        let sender = &self.processes[from];
        let is_dead = sender.incarnation != message.of || sender.state == State::Dead;
        if is_dead {
            self.reach(Situation::DeadArrived);
        } else if !self.end(from, to).is_up() {
            self.reach(Situation::ArrivedOnBroken);
        }
        if message.has_failed {
            self.reach(Situation::FailedYetArrived);
        }
    }

    /// More bytes of a message arrive that has begun to arrive.
    pub(super) fn more(&mut self, (from, to): (usize, usize), amount: Amount) {
        if let Some(rest) = self.processes[to].rests.remove(&from) {
            return self.more_of_rest((from, to), rest, amount);
        }
        let place = self.processes[to].ready.iter().position(|ready| ready.is_part_of(from));
        let Some(place) = place else { return };
        let Some(Ready { peer, what: What::Arrival(mut arrival) }) =
            self.processes[to].ready.remove(place)
        else {
            return;
        };
        let at = arrival.here.len();
        let count = part(amount, arrival.message.len - at);
        let bytes = self.read(&arrival.message, at, count);
        arrival.here.extend(bytes);
        if arrival.is_whole() {
            self.source_done(arrival.message.number, Ok(()));
            arrival.message.content = Content::Owned(Vec::new());
        }
        self.processes[to].ready.insert(place, Ready { peer, what: What::Arrival(arrival) });
    }

    fn more_of_rest(&mut self, (from, to): (usize, usize), mut rest: Rest, amount: Amount) {
        let count = part(amount, rest.message.len - rest.here);
        let bytes = self.read(&rest.message, rest.here, count);
        if let Some((into, _)) = &rest.into {
            let at = (rest.here - rest.begins).min(into.len());
            let fits = bytes.len().min(into.len() - at);
            into.write(at, &bytes[..fits]);
            if fits < bytes.len() && self.has(Mutant::RestTooLong) {
                into.write_beyond(!bytes[fits]);
            }
        }
        rest.here += count;
        if rest.here < rest.message.len {
            self.processes[to].rests.insert(from, rest);
            return;
        }
        self.source_done(rest.message.number, Ok(()));
        self.give_room((from, to), rest.message.epoch);
        if let Some((_, token)) = rest.into {
            self.push_first(to, from, What::Moved(token, Ok(())));
        }
    }

    /// Reads a part of a message where it lies, and checks that it is what was sent.
    pub(super) fn read(&mut self, message: &Message, at: usize, len: usize) -> Vec<u8> {
        let (rule, span, copy) = match &message.content {
            Content::Owned(bytes) => return bytes[at..at + len].to_vec(),
            Content::Log { span, copy, .. } => ("kept-buffers", span, copy),
            Content::User { span, copy } => ("source unchanged until sent", span, copy),
        };
        let bytes = span.read(at, len);
        if bytes != copy[at..at + len] {
            let text = format!("message #{} was overwritten before it was read", message.number);
            self.violated(rule, text);
        }
        bytes
    }

    /// The source of a message is not read any more.
    pub(super) fn source_done(&mut self, number: u64, result: Result<(), Fault>) {
        if let Some(send) = self.sends.get_mut(&number) {
            send.result.get_or_insert(result);
        }
    }

    /// The end of a send reaches its sender. If its message may still arrive, it does so from a copy.
    pub(super) fn sent(&mut self, number: u64) {
        let Some(send) = self.sends.remove(&number) else { return };
        if self.has(Mutant::SentNever) && number.is_multiple_of(SPOILT) {
            return;
        }
        let result = send.result.unwrap_or(Ok(()));
        if !self.has(Mutant::SentEarly) {
            self.copy_sources((send.from, send.to), |message| message.number == number);
        }
        self.reach(match result {
            Ok(()) => Situation::LaterCompletion,
            Err(_) => Situation::LaterFailed,
        });
        if self.has(Mutant::SentTwice) && number.is_multiple_of(SPOILT) {
            self.push(send.from, send.to, What::Sent(send.token, result.clone()));
        }
        self.push(send.from, send.to, What::Sent(send.token, result));
    }

    /// Copies what messages of a channel would read from the memory of their sender.
    pub(super) fn copy_sources(
        &mut self,
        (from, to): (usize, usize),
        which: impl Fn(&Message) -> bool,
    ) {
        let mut changed = Vec::new();
        let mut copy = |message: &mut Message| {
            if let (true, Content::User { span, copy }) = (which(message), &message.content) {
                let bytes = span.read(0, span.len());
                if bytes != *copy {
                    changed.push(message.number);
                }
                (message.content, message.has_failed) = (Content::Owned(bytes), true);
            }
        };
        self.channel_mut(from, to).flight.iter_mut().for_each(&mut copy);
        let process = &mut self.processes[to];
        process.rests.get_mut(&from).into_iter().for_each(|rest| copy(&mut rest.message));
        for ready in &mut process.ready {
            if let (true, What::Arrival(arrival)) = (ready.peer == from, &mut ready.what) {
                copy(&mut arrival.message);
            }
        }
        for number in changed {
            let text = format!("message #{number} was overwritten before its end was reported");
            self.violated("source unchanged until sent", text);
        }
    }

    /// A message has left the channel.
    pub(super) fn give_room(&mut self, (from, to): (usize, usize), epoch: u32) {
        let channel = self.channel_mut(from, to);
        if channel.epoch == epoch {
            channel.waiting = channel.waiting.saturating_sub(1);
        }
    }

    /// What the next poll hands over first, if anything.
    pub(super) fn next_ready(&mut self, rank: usize) -> Option<Ready> {
        let is_free = self.has(Mutant::RestInterrupted);
        let Process { ready, rests, .. } = &mut self.processes[rank];
        let place = ready.iter().position(|one| match one.what {
            What::Arrival(_) => {
                is_free && !one.is_part_of(one.peer) || !rests.contains_key(&one.peer)
            }
            What::Link(_) => !rests.contains_key(&one.peer),
            What::Sent(..) | What::Moved(..) => true,
        })?;
        ready.remove(place)
    }

    /// Drops what is on the way from one process to another, since the receiver's link has ended.
    pub(super) fn cut_channel(&mut self, (from, to): (usize, usize)) {
        if self.has(Mutant::ArrivesAfterEnd) || self.has(Mutant::OldIncarnation) {
            return;
        }
        // A sender that has not noticed the end has no more room than before.
        let notices = !self.lives(from) || !self.end(from, to).is_up();
        let is_free = notices && !self.has(Mutant::RoomLost);
        let channel = self.channel_mut(from, to);
        let lost: Vec<Message> = channel.flight.drain(..).collect();
        if notices {
            channel.epoch += 1;
            channel.is_jammed = false;
        }
        if is_free {
            channel.waiting = 0;
        }
        for message in lost {
            self.reach(Situation::LostWithLink);
            self.source_done(message.number, Err(lost_link()));
        }
    }

    /// Drops the beginning of a message of which the rest cannot come any more.
    pub(super) fn cut_rest(&mut self, (from, to): (usize, usize)) {
        let process = &mut self.processes[to];
        if let Some(place) = process.ready.iter().position(|ready| ready.is_part_of(from))
            && let Some(Ready { what: What::Arrival(part), .. }) = process.ready.remove(place)
        {
            self.source_done(part.message.number, Err(lost_link()));
            self.reach(Situation::LostWithLink);
        }
        let Some(rest) = self.processes[to].rests.remove(&from) else { return };
        self.source_done(rest.message.number, Err(lost_link()));
        self.reach(Situation::LostWithLink);
        let sender = &self.processes[from];
        if sender.state == State::Dead || sender.incarnation != rest.message.of {
            self.reach(Situation::DiedMidStream);
        }
        let Some((_, token)) = rest.into else { return };
        let what = What::Moved(token, Err(lost_link()));
        if self.has(Mutant::EndBeforeRest) {
            self.push(to, from, what);
        } else if !self.has(Mutant::RestNever) {
            self.push_first(to, from, what);
        }
    }

    /// Whether the beginning of a message is here and its rest is not.
    pub(super) fn has_part(&self, from: usize, to: usize) -> bool {
        let process = &self.processes[to];
        process.rests.contains_key(&from)
            || process.ready.iter().any(|ready| ready.is_part_of(from))
    }
}

pub(super) fn lost_link() -> Fault {
    Fault::Lost("the link has ended".into())
}

/// The part of `left` bytes that an amount stands for.
pub(super) fn part(amount: Amount, left: usize) -> usize {
    match amount {
        Amount::Head => 0,
        Amount::Part => left.div_ceil(4),
        Amount::All => left,
    }
}

impl Ready {
    /// The beginning of a message of this peer.
    fn is_part_of(&self, from: usize) -> bool {
        self.peer == from && matches!(&self.what, What::Arrival(arrival) if !arrival.is_whole())
    }
}

impl Arrival {
    /// The same once more, for a mutant. Nothing of it is left to be read.
    fn doubled(&self) -> Arrival {
        let Message { number, head, len, epoch, of, .. } = self.message;
        let here = match &self.message.content {
            Content::Log { copy, .. } => copy.clone(),
            _ => self.here.clone(),
        };
        let content = Content::Owned(Vec::new());
        let message = Message { number, head, len, content, epoch, of, has_failed: false };
        Arrival { message, here, in_place: false }
    }
}

impl Content {
    pub(super) fn of_user(span: Span) -> Content {
        let copy = span.read(0, span.len());
        Content::User { span, copy }
    }

    fn len(&self) -> usize {
        match self {
            Content::Owned(bytes) => bytes.len(),
            Content::Log { span, .. } | Content::User { span, .. } => span.len(),
        }
    }

    /// Its bytes, as they were when it was sent.
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Owned(bytes) => bytes,
            Content::Log { copy, .. } | Content::User { copy, .. } => copy,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Content::Owned(_) => "bytes",
            Content::Log { .. } => "log",
            Content::User { .. } => "user",
        }
    }

    fn owned_if_user(self) -> Content {
        match self {
            Content::User { copy, .. } => Content::Owned(copy),
            other => other,
        }
    }
}
