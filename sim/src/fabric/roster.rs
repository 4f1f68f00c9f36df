//! Who of the job lives, as one process hears it.

use super::state::Net;
use std::cell::RefCell;
use std::rc::Rc;
use taffrail_fabric::{Life, LinkEvent, Membership, PeerId};

/// Membership that hears of a death, a restart or an end when the schedule [says so](super::Step::Verdict): before the
/// link breaks, or much later. A link that breaks says nothing.
pub struct SimRoster {
    net: Rc<RefCell<Net>>,
    rank: usize,
}

impl SimRoster {
    pub(super) fn new(net: Rc<RefCell<Net>>, rank: usize) -> SimRoster {
        SimRoster { net, rank }
    }
}

impl Membership for SimRoster {
    fn link(&mut self, _: PeerId, _: &LinkEvent) -> Option<Life> {
        None
    }

    fn poll(&mut self, mut verdict: impl FnMut(PeerId, Life)) {
        let verdicts = std::mem::take(&mut self.net.borrow_mut().processes[self.rank].verdicts);
        verdicts.into_iter().for_each(|(peer, life)| verdict(peer, life));
    }
}
