//! Peers that are gone, for whoever gives their numbers to others.

use super::core::Core;
use super::request::{ANY, Requests, Stage};
use crate::{Data, Endpoint, Rank, Status};

/// Who is gone, and the request that tells it.
#[derive(Default)]
pub(crate) struct Departures {
    /// Somebody has asked for them once.
    is_watched: bool,
    /// The request that ends with the next.
    watch: Option<u32>,
    /// Peers that are gone and were not reported yet: their messages are still here, or no request watches.
    untold: Vec<Rank>,
}

impl Departures {
    /// Starts a request that ends when nothing of a peer is here any more; its status has the rank.
    pub(crate) fn watch(&mut self, requests: &mut Requests) -> u32 {
        let request = requests.start(Stage::Watching, ANY, std::ptr::null_mut(), 0);
        self.is_watched = true;
        self.watch = Some(request);
        request
    }

    /// A peer is gone.
    #[cold]
    pub(crate) fn gone(&mut self, rank: Rank) {
        if self.is_watched {
            self.untold.push(rank);
        }
    }
}

impl Endpoint {
    /// Tells whoever watches of the next peer that is gone and has left nothing.
    #[cold]
    pub(crate) fn tell_departure(&mut self) {
        let departures = &self.core.departures;
        if departures.watch.is_none() || departures.untold.is_empty() {
            return;
        }
        let next = departures.untold.iter().position(|&rank| !self.holds_something_of(rank));
        let Core { departures, requests, .. } = &mut self.core;
        if let (Some(at), Some(request)) = (next, departures.watch.take_if(|_| next.is_some())) {
            let source = departures.untold.remove(at);
            requests.get(request).status = Status { source, tag: 0, len: 0, data: Data::NONE };
            requests.end(request);
        }
    }
}
