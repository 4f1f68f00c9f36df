//! Checkpoints, restarts, and the end of the program: what the API asks of the policy.

use crate::policy::protocol::{Checkpoints, Recovery};
use crate::policy::{Policy, by_policy};
use crate::{Engine, Error, NotNow};
use taffrail_fabric::{Fabric, SendMemory};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Resumes from the checkpoint of a process before this one, if there is one: before the exchange with the others.
    ///
    /// # Errors
    /// [`Error::Setup`] when what the process before has left cannot be read, [`Error::Memory`] when it does not fit.
    /// [`NotNow::Waits`] while the disk takes what does not fit into memory: the next call continues. Nothing is
    /// polled meanwhile.
    pub fn resume(&mut self) -> Result<(), NotNow> {
        by_policy!(self.core.policy, resume(self))
    }

    /// Begins the exchange of a rank that was started again: with those that are linked with it, or of which it has something.
    pub fn begin_exchange(&mut self) {
        by_policy!(self.core.policy, begin_exchange(self));
    }

    /// Begins to take a checkpoint, which [`Operation::Checkpoint`](crate::call::Operation::Checkpoint) writes. `false` when
    /// none is taken now.
    ///
    /// # Errors
    /// When none can be taken, or something is under way.
    pub fn begin_checkpoint(&mut self) -> Result<bool, Error> {
        by_policy!(self.core.policy, begin_checkpoint(self))
    }

    /// Says to all other ranks that the program is over. `false` when this rank need not wait for theirs to be over.
    pub fn begin_to_leave(&mut self) -> bool {
        by_policy!(self.core.policy, begin_to_leave(self))
    }

    /// This rank takes no restarted peer in any more.
    pub fn leave(&mut self) {
        by_policy!(self.core.policy, leave(self));
    }
}
