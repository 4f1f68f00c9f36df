//! Checkpoints that a program takes of itself.

use crate::engine::call::Operation;
use crate::engine::policy::Policy;
use crate::{Endpoint, Error, Transport};
use std::io::IoSlice;

impl<F: Transport> Endpoint<F> {
    /// Takes a checkpoint: from now on, whoever takes this rank's place if it is killed goes on from here.
    /// `state` is what the program needs for that; its successor asks for it with
    /// [`restored`](Self::restored). Messages that have come and were not received yet, and where the rank
    /// is with its messages, belong to the checkpoint without more ado. Once it is taken, other ranks drop
    /// what they have logged for this one.
    ///
    /// Each rank takes its checkpoints when it likes: nothing is agreed upon with others (MPICH-V2, section
    /// 4.6). It costs the writing of `state` to memory.
    ///
    /// A program that takes checkpoints asks for [`restored`](Self::restored) before it communicates, and
    /// does not use [`Job::barrier`](crate::Job::barrier) behind the first: its successor does not come by
    /// those before it, of which the launcher keeps the count.
    ///
    /// Returns whether it was taken. Where messages are not logged there is nobody to go on, and while a
    /// rank is being replayed it takes none: both is no error, so that a program can do the same in each
    /// case.
    ///
    /// # Errors
    /// [`Error::Pending`] while operations are under way, [`Error::NotLogged`] where the set of this rank
    /// has other members, or with causal logging, [`Error::Memory`] when there is no room for it; what was
    /// taken before is what counts then.
    ///
    /// ```
    /// use std::io::IoSlice;
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let restored = endpoint.restored();
    /// let first = restored.map_or(0, |state| u64::from_le_bytes(state.try_into().unwrap()));
    /// for iteration in first..10 {
    ///     // ... communicate and compute ...
    ///     endpoint.checkpoint(&[IoSlice::new(&(iteration + 1).to_le_bytes())])?;
    /// }
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn checkpoint(&mut self, state: &[IoSlice<'_>]) -> Result<bool, Error> {
        self.check_process()?;
        if !self.engine.begin_checkpoint()? {
            return Ok(false);
        }
        self.complete(Operation::Checkpoint(state)).map(|_| true)
    }

    /// What the program gave to the checkpoint that this process goes on from, if it goes on from one: once.
    pub fn restored(&mut self) -> Option<Vec<u8>> {
        self.engine.core.policy.take_restored()
    }
}
