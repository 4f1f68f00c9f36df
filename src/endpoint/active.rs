//! Active messages.

use crate::engine::call::Operation;
use crate::{AmMessage, Endpoint, Error, Rank, Transport};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What runs when an active message arrives.
pub(crate) type Handler<F> = Box<dyn FnMut(&mut Endpoint<F>, AmMessage<'_>) + Send>;

impl<F: Transport> Endpoint<F> {
    /// Sends an active message: `handler` runs at the target when it makes progress. Active
    /// messages of one sender arrive in the order sent.
    ///
    /// # Errors
    /// [`Error::TooLong`], and as [`send`](Self::send).
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let add = sum.clone();
    /// endpoint.on_am(3, move |_, message| {
    ///     add.fetch_add(message.header + message.payload.len() as u64, Ordering::Relaxed);
    /// });
    /// endpoint.send_am(0, 3, 40, b"ab")?;
    /// while sum.load(Ordering::Relaxed) == 0 {
    ///     endpoint.progress();
    /// }
    /// assert_eq!(sum.load(Ordering::Relaxed), 42);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn send_am(
        &mut self,
        to: Rank,
        handler: u16,
        header: u64,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.complete(Operation::SendActive { to, handler, header, payload }).map(drop)
    }

    /// Says what runs when an active message for `handler` arrives. It may use the endpoint.
    pub fn on_am(
        &mut self,
        handler: u16,
        run: impl FnMut(&mut Endpoint<F>, AmMessage<'_>) + Send + 'static,
    ) {
        self.handlers.insert(handler, Box::new(run));
    }

    /// Runs the handlers of what has arrived. A handler that makes progress itself does not get
    /// into another: those messages wait until it returns.
    #[cold]
    pub(crate) fn handle_active(&mut self) -> usize {
        if std::mem::replace(&mut self.handling, true) {
            return 0;
        }
        let mut handled = 0;
        while let Some((source, handler, header, payload)) = self.engine.next_active() {
            match self.handlers.remove(&handler) {
                Some(mut run) => {
                    let message = AmMessage { source, header, payload: &payload };
                    let ended = catch_unwind(AssertUnwindSafe(|| run(self, message)));
                    self.handlers.entry(handler).or_insert(run);
                    if let Err(panic) = ended {
                        self.handling = false;
                        resume_unwind(panic);
                    }
                }
                None => tracing::warn!(handler, source, "active message without a handler"),
            }
            handled += 1;
        }
        self.handling = false;
        handled
    }
}
