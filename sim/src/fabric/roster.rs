//! State of the processes of a job, as one process learns it.

use std::sync::{Arc, Mutex, PoisonError};
use taffrail_fabric::{Life, Membership, PeerId};

/// The verdicts that a process has not heard yet, as the network and the roster of the process share them.
#[derive(Clone, Default)]
pub(super) struct Verdicts(Arc<Mutex<Vec<(PeerId, Life)>>>);

impl Verdicts {
    pub(super) fn push(&self, verdict: (PeerId, Life)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(verdict);
    }

    fn take(&self) -> Vec<(PeerId, Life)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Membership that hears of a death, a restart or an end when the schedule [says so](super::Step::Verdict): before the
/// link breaks, or much later.
pub struct SimRoster {
    verdicts: Verdicts,
}

impl SimRoster {
    pub(super) fn new(verdicts: Verdicts) -> SimRoster {
        SimRoster { verdicts }
    }
}

impl Membership for SimRoster {
    fn poll(&mut self, verdict: &mut dyn FnMut(PeerId, Life)) {
        self.verdicts.take().into_iter().for_each(|(peer, life)| verdict(peer, life));
    }
}
