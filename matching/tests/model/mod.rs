//! The rules of matching as plain lists that are walked from the front.

use taffrail_matching::{Arrival, Counts, Envelope, Posting};

#[derive(Default)]
pub struct Model {
    pub posted: Vec<(Posting, u32)>,
    pub unexpected: Vec<(Envelope, u64)>,
    pub claimed: Vec<(Envelope, u64)>,
    pub early: Vec<(Envelope, u64)>,
    expected: Vec<((u32, u16), u32)>,
}

fn fits(posting: &Posting, envelope: &Envelope) -> bool {
    let source = match posting.source {
        Some(source) => source == envelope.source,
        None => true,
    };
    let tag = (0..64).all(|bit| {
        let bit = 1u64 << bit;
        posting.ignore & bit != 0 || posting.tag & bit == envelope.tag & bit
    });
    source && tag && posting.context == envelope.context && posting.ident == envelope.ident
}

impl Model {
    pub fn expected(&self, source: u32, context: u16) -> u32 {
        let channel = self.expected.iter().find(|(channel, _)| *channel == (source, context));
        channel.map_or(0, |(_, seq)| *seq)
    }

    fn set(&mut self, source: u32, context: u16, seq: u32) {
        self.expected.retain(|(channel, _)| *channel != (source, context));
        self.expected.push(((source, context), seq));
    }

    pub fn set_expected(&mut self, source: u32, context: u16, seq: u32) -> Vec<(Envelope, u64)> {
        self.set(source, context, seq);
        remove_all(&mut self.early, |(e, _)| {
            (e.source, e.context) == (source, context) && distance(seq, e.seq) < 0
        })
    }

    pub fn arrive(&mut self, envelope: &Envelope) -> Arrival<u32> {
        let expected = self.expected(envelope.source, envelope.context);
        let ahead = distance(expected, envelope.seq);
        if ahead < 0 {
            return Arrival::Old { behind: ahead.unsigned_abs() as u32 };
        }
        if ahead > 0 {
            let channel = |e: &Envelope| (e.source, e.context, e.seq);
            return match self.early.iter().any(|(e, _)| channel(e) == channel(envelope)) {
                true => Arrival::Old { behind: 0 },
                false => Arrival::Early { ahead: ahead as u32 },
            };
        }
        self.set(envelope.source, envelope.context, expected.wrapping_add(1));
        match self.posted.iter().position(|(posting, _)| fits(posting, envelope)) {
            Some(at) if self.posted[at].0.multi => Arrival::Matched(self.posted[at].1),
            Some(at) => Arrival::Matched(self.posted.remove(at).1),
            None => Arrival::Unmatched,
        }
    }

    pub fn arrive_for(&mut self, posting: &Posting, envelope: &Envelope) -> bool {
        let expected = self.expected(envelope.source, envelope.context);
        let alone = self.posted.is_empty() && self.unexpected.is_empty();
        let taken = alone && envelope.seq == expected && fits(posting, envelope);
        if taken {
            self.set(envelope.source, envelope.context, expected.wrapping_add(1));
        }
        taken
    }

    pub fn release(&mut self, source: u32, context: u16) -> Option<(Envelope, u64)> {
        let expected = self.expected(source, context);
        let next =
            |(e, _): &(Envelope, u64)| (e.source, e.context, e.seq) == (source, context, expected);
        Some(self.early.remove(self.early.iter().position(next)?))
    }

    pub fn probe(&self, posting: &Posting) -> Option<(Envelope, u64)> {
        self.unexpected.iter().find(|(envelope, _)| fits(posting, envelope)).copied()
    }

    pub fn take(&mut self, posting: &Posting) -> Option<(Envelope, u64)> {
        let at = self.unexpected.iter().position(|(envelope, _)| fits(posting, envelope))?;
        Some(self.unexpected.remove(at))
    }

    pub fn claim(&mut self, posting: &Posting) -> Option<(Envelope, u64)> {
        let message = self.take(posting)?;
        self.claimed.push(message);
        Some(message)
    }

    pub fn take_message(&mut self, payload: u64) -> Option<(Envelope, u64)> {
        let mut lists = [&mut self.unexpected, &mut self.claimed].into_iter();
        lists.find_map(|list| {
            let at = list.iter().position(|(_, p)| *p == payload)?;
            Some(list.remove(at))
        })
    }

    pub fn cancel(&mut self, token: u32) -> Option<u32> {
        let at = self.posted.iter().position(|(_, t)| *t == token)?;
        Some(self.posted.remove(at).1)
    }

    pub fn fail(&mut self, source: u32) -> (Vec<u32>, Vec<(Envelope, u64)>) {
        let posted = remove_all(&mut self.posted, |(posting, _)| posting.source == Some(source));
        let early = remove_all(&mut self.early, |(envelope, _)| envelope.source == source);
        (posted.into_iter().map(|(_, token)| token).collect(), early)
    }

    pub fn counts(&self) -> Counts {
        let bytes = |list: &[(Envelope, u64)]| list.iter().map(|(envelope, _)| envelope.len).sum();
        Counts {
            posted: self.posted.len(),
            unexpected: self.unexpected.len(),
            claimed: self.claimed.len(),
            unexpected_bytes: bytes(&self.unexpected) + bytes(&self.claimed),
            early: self.early.len(),
            early_bytes: bytes(&self.early),
        }
    }
}

/// How far `to` is ahead of `from` in numbers that wrap.
fn distance(from: u32, to: u32) -> i64 {
    let ahead = (i64::from(to) - i64::from(from)).rem_euclid(1 << 32);
    if ahead < 1 << 31 { ahead } else { ahead - (1 << 32) }
}

fn remove_all<T: Copy>(list: &mut Vec<T>, gone: impl Fn(&T) -> bool) -> Vec<T> {
    let removed = list.iter().copied().filter(&gone).collect();
    list.retain(|item| !gone(item));
    removed
}
