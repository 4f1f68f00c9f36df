//! The log segments of one process.

use super::ram::{Pages, Span};
use super::state::{Content, Net};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use taffrail_fabric::{BeforeLog, LogRange, MemoryError, Segment, SegmentId};

pub(super) struct Segments {
    len: usize,
    most: usize,
    own: Vec<Own>,
    /// Released segments; the one that is free the longest first.
    free: VecDeque<SegmentId>,
    /// Of other fabrics of the process.
    adopted: BTreeMap<u32, (Span, Rc<()>)>,
    /// Where the log is to have what was sent before it was written, and the bytes.
    promised: Vec<(Span, Vec<u8>, Rc<()>)>,
}

struct Own {
    pages: Arc<Pages>,
    is_taken: bool,
    /// Each message on the way has a clone.
    in_use: Rc<()>,
}

impl Segments {
    pub(super) fn new(len: usize, most: usize) -> Segments {
        Segments {
            len,
            most,
            own: Vec::new(),
            free: VecDeque::new(),
            adopted: BTreeMap::new(),
            promised: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn adopt(&mut self, segment: Segment) {
        self.adopted.insert(segment.id.0, (Span::of_bytes(segment.bytes), Rc::new(())));
    }

    /// A message from a segment.
    pub(super) fn content(&self, range: LogRange) -> Content {
        let (span, in_use) = self.span(range);
        let copy = span.read(0, range.len);
        Content::Log { span, copy, _in_use: in_use.clone() }
    }

    fn span(&self, LogRange { segment, at, len }: LogRange) -> (Span, &Rc<()>) {
        match self.adopted.get(&segment.0) {
            Some((span, in_use)) => (span.part(at, len), in_use),
            None => {
                let own = self.taken(segment);
                (Span::of_pages(&own.pages, self.len).part(at, len), &own.in_use)
            }
        }
    }

    /// A message that is to be written to its ranges before the next poll.
    pub(super) fn expect(&mut self, BeforeLog { parts, ranges }: &BeforeLog<'_>) {
        let bytes = parts.concat();
        let mut left = &bytes[..];
        for range in *ranges {
            let (here, behind) = left.split_at(range.len);
            let (span, in_use) = self.span(*range);
            let in_use = in_use.clone();
            self.promised.push((span, here.to_vec(), in_use));
            left = behind;
        }
        assert!(left.is_empty(), "ranges of the log for all but {} bytes", left.len());
    }

    /// # Panics
    /// If the log does not have what was sent before it was written.
    pub(super) fn check_promised(&mut self) {
        for (span, bytes, _) in self.promised.drain(..) {
            let is_there = span.read(0, bytes.len()) == bytes;
            assert!(is_there, "{} bytes were sent, and are not in the log", bytes.len());
        }
    }

    /// Whether a message from the segment is on the way.
    pub(super) fn in_flight(&self, segment: SegmentId) -> bool {
        let adopted = self.adopted.get(&segment.0).map(|(_, in_use)| in_use);
        let in_use = adopted.or_else(|| self.own.get(segment.0 as usize).map(|own| &own.in_use));
        in_use.is_some_and(|in_use| Rc::strong_count(in_use) > 1)
    }

    /// Whether a get or put of a peer reaches the segment.
    pub(super) fn is_reached(&self, segment: SegmentId, net: &Net, rank: usize) -> bool {
        let adopted = self.adopted.get(&segment.0).map(|(span, _)| span.clone());
        let own = self.own.get(segment.0 as usize);
        let span = adopted.or_else(|| own.map(|own| Span::of_pages(&own.pages, self.len)));
        span.is_some_and(|span| net.is_reached(rank, &span))
    }

    /// The released segment that is taken next, if one is free.
    pub(super) fn next(&self, is_free: impl Fn(SegmentId) -> bool) -> Option<SegmentId> {
        self.free.iter().copied().find(|&segment| is_free(segment))
    }

    /// Whether there are as many as there can be.
    pub(super) fn is_full(&self) -> bool {
        self.own.len() >= self.most
    }

    /// The answer to a call for which no segment is free.
    pub(super) fn none_free(&self) -> Result<Option<SegmentId>, MemoryError> {
        if !self.free.is_empty() {
            return Ok(None);
        }
        Err(MemoryError::Short {
            what: "log segments",
            need: self.len as u64,
            have: format!("all {} are in use", self.most),
            remedy: "release more",
        })
    }

    pub(super) fn take(&mut self, free: Option<SegmentId>) -> SegmentId {
        let segment = free.unwrap_or_else(|| {
            let pages = Pages::new(self.len).expect("memory for a segment");
            self.own.push(Own { pages, is_taken: false, in_use: Rc::new(()) });
            SegmentId(self.own.len() as u32 - 1)
        });
        self.free.retain(|&one| one != segment);
        self.own[segment.0 as usize].is_taken = true;
        segment
    }

    pub(super) fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        Span::of_pages(&self.taken(segment).pages, self.len).part(at, bytes.len()).write(0, bytes);
    }

    pub(super) fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.taken(segment).pages.slice(at, len)
    }

    pub(super) fn release(&mut self, segment: SegmentId) {
        self.taken(segment);
        self.own[segment.0 as usize].is_taken = false;
        self.free.push_back(segment);
    }

    /// # Panics
    /// If the segment is not taken.
    fn taken(&self, segment: SegmentId) -> &Own {
        let own = self.own.get(segment.0 as usize).filter(|own| own.is_taken);
        own.unwrap_or_else(|| panic!("segment {} was released, or never taken", segment.0))
    }
}
