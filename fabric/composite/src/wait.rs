//! One wait for both fabrics.

use crate::Composite;
use crate::mutant::Mutant;
use crate::routes::SetupError;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use taffrail_fabric::{Arming, Fabric, Wait};

/// The set of both fabrics' descriptors, once ranks may be far. Before that a wait is one of the near fabric alone.
#[derive(Default)]
pub(crate) struct Watch(OnceCell<OwnedFd>);

impl Watch {
    /// From now on waits are for both.
    pub(crate) fn both(&self, near: &impl Wait, far: &impl Wait) -> Result<(), SetupError> {
        if self.is_for_both() {
            return Ok(());
        }
        let os = |call| move |errno| SetupError::Os { call, errno };
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(os("epoll_create1"))?;
        for fd in [near.fd(), far.fd()] {
            epoll::add(&set, fd, EventData::new_u64(0), EventFlags::IN).map_err(os("epoll_ctl"))?;
        }
        // It was empty.
        let _ = self.0.set(set);
        Ok(())
    }

    pub(crate) fn is_for_both(&self) -> bool {
        self.0.get().is_some()
    }
}

impl<Near: Fabric + Wait, Far: Fabric + Wait> Wait for Composite<Near, Far> {
    fn arm(&mut self) -> Arming {
        if self.near.arm() == Arming::Ready {
            return Arming::Ready;
        }
        if !self.watch.is_for_both() || Mutant::FarNotArmed.lives() {
            return Arming::Armed;
        }
        if self.far.arm() == Arming::Armed {
            return Arming::Armed;
        }
        self.near.disarm();
        self.far_has_something();
        Arming::Ready
    }

    fn disarm(&mut self) {
        self.near.disarm();
        if self.watch.is_for_both() {
            self.far.disarm();
        }
    }

    fn sleep(&mut self, limit: Duration) {
        let Some(set) = self.watch.0.get() else { return self.near.sleep(limit) };
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early, which callers reckon with.
        let _ = poll(&mut [PollFd::new(set, PollFlags::IN)], limit.as_ref());
        self.disarm();
        self.far_has_something();
    }

    /// Another one once a rank [leaves](Composite::leave_node) a node that had all ranks of the job.
    fn fd(&self) -> BorrowedFd<'_> {
        match self.watch.0.get() {
            Some(set) if !Mutant::NearDescriptor.lives() => set.as_fd(),
            _ => self.near.fd(),
        }
    }
}

impl<Near: Fabric, Far: Fabric> Composite<Near, Far> {
    /// The next poll is one of the far fabric as well.
    pub(crate) fn far_has_something(&mut self) {
        self.names.has_changed = true;
        self.is_far_active = true;
        self.turns.hurry();
    }
}
