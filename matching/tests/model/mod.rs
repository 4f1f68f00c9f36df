//! The rules of matching as plain lists that are walked from the front.

use taffrail_matching::{Arrival, Counts, Envelope, Posting};

#[derive(Default)]
pub struct Model {
    pub posted: Vec<(Posting, u32)>,
    pub unexpected: Vec<(Envelope, u64)>,
    pub claimed: Vec<(Envelope, u64)>,
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
    pub fn arrive(&mut self, envelope: &Envelope) -> Arrival<u32> {
        match self.posted.iter().position(|(posting, _)| fits(posting, envelope)) {
            Some(at) if self.posted[at].0.multi => Arrival::Matched(self.posted[at].1),
            Some(at) => Arrival::Matched(self.posted.remove(at).1),
            None => Arrival::Unmatched,
        }
    }

    pub fn arrive_for(&self, posting: &Posting, envelope: &Envelope) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty() && fits(posting, envelope)
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

    pub fn fail(&mut self, source: u32) -> Vec<u32> {
        let is_named = |(posting, _): &(Posting, u32)| posting.source == Some(source);
        let (named, others): (Vec<_>, _) = self.posted.drain(..).partition(is_named);
        self.posted = others;
        named.into_iter().map(|(_, token)| token).collect()
    }

    pub fn counts(&self) -> Counts {
        let bytes =
            |list: &[(Envelope, u64)]| list.iter().map(|(envelope, _)| envelope.len).sum::<u64>();
        Counts {
            posted: self.posted.len(),
            unexpected: self.unexpected.len(),
            claimed: self.claimed.len(),
            unexpected_bytes: bytes(&self.unexpected) + bytes(&self.claimed),
        }
    }
}
