//! Peers that are gone, for whoever gives their numbers to others.

use super::request::{ANY, Requests, Stage};
use crate::Rank;
use std::collections::VecDeque;

/// Who is gone, and the request that tells it.
#[derive(Default)]
pub(crate) struct Departures {
    /// Somebody has asked for them once.
    is_watched: bool,
    /// The request that ends with the next.
    watch: Option<u32>,
    /// Those of whom no request has told.
    untold: VecDeque<Rank>,
}

impl Departures {
    /// Starts a request that ends when a peer is gone; its status has the rank.
    pub(crate) fn watch(&mut self, requests: &mut Requests) -> u32 {
        let request = requests.start(Stage::Watching, ANY, std::ptr::null_mut(), 0);
        self.is_watched = true;
        self.watch = Some(request);
        request
    }

    /// A peer is gone.
    #[cold]
    pub(crate) fn gone(&mut self, rank: Rank, requests: &mut Requests) {
        if self.is_watched {
            self.untold.push_back(rank);
            self.tell(requests);
        }
    }

    /// Tells of the next peer, if there is one and somebody asks.
    pub(crate) fn tell(&mut self, requests: &mut Requests) {
        if self.untold.is_empty() {
            return;
        }
        if let (Some(request), Some(rank)) = (self.watch.take(), self.untold.pop_front()) {
            let status = &mut requests.get(request).status;
            *status = crate::Status { source: rank, tag: 0, len: 0, data: crate::Data::NONE };
            requests.end(request);
        }
    }
}
