//! Active messages.

use crate::{AmMessage, Endpoint, Error, Rank};

impl Endpoint {
    /// Sends an active message: `handler` runs at the target when it makes progress. Active
    /// messages of one sender arrive in the order sent.
    ///
    /// # Errors
    /// [`Error::TooLong`], and as [`send`](Self::send).
    pub fn send_am(
        &mut self,
        to: Rank,
        handler: u16,
        header: u64,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.send_active(to, handler, header, payload)
    }

    /// Says what runs when an active message for `handler` arrives. It may use the endpoint.
    pub fn on_am(
        &mut self,
        handler: u16,
        run: impl FnMut(&mut Endpoint, AmMessage<'_>) + Send + 'static,
    ) {
        self.handlers.insert(handler, Box::new(run));
    }
}
