//! State of the processes of a job, as one process learns it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use taffrail_fabric::{Life, Membership, PeerId};

/// The verdicts that a process has not heard yet, as the network and the roster of the process share them.
#[derive(Clone, Default)]
pub(super) struct Verdicts {
    unheard: Arc<Mutex<Vec<(PeerId, Life)>>>,
    /// Its process has said that its program is over, which others have not heard of yet.
    finalizing: Arc<AtomicBool>,
    /// Its process looks at them.
    is_open: bool,
}

impl Verdicts {
    pub(super) fn push(&self, verdict: (PeerId, Life)) {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner).push(verdict);
    }

    /// From now on its process looks at them.
    pub(super) fn open(&mut self) -> Verdicts {
        self.is_open = true;
        self.clone()
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether its process has said so since this was asked last.
    pub(super) fn takes_finalizing(&self) -> bool {
        self.finalizing.swap(false, Ordering::Relaxed)
    }

    pub(super) fn are_heard(&self) -> bool {
        !self.is_open || self.unheard.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether its process is still to hear of a restart that was handed over.
    pub(super) fn hide_a_restart(&self) -> bool {
        let unheard = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        unheard.iter().any(|(_, life)| matches!(life, Life::Restarted(_)))
    }

    fn take(&self) -> Vec<(PeerId, Life)> {
        std::mem::take(&mut self.unheard.lock().unwrap_or_else(PoisonError::into_inner))
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

    fn finalizing(&mut self) {
        self.verdicts.finalizing.store(true, Ordering::Relaxed);
    }

    fn is_settled(&self) -> bool {
        self.verdicts.are_heard()
    }
}
