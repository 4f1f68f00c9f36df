//! What has become of operations that were started.

use crate::engine::multi::Landed;
use crate::{Endpoint, Error, Request, Status};

impl Endpoint {
    /// The result of an operation, or `None` while it is not over. Makes progress. A multi-receive
    /// is not over for it before [`landed`](Self::landed) has told of every message; `wait` does
    /// not care.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    #[inline]
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.check_process()?;
        if let Some(status) = self.try_finish(request)? {
            return Ok(Some(status));
        }
        self.turn();
        self.try_finish(request)
    }

    /// Waits until an operation is over.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    #[inline]
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> {
        self.check_process()?;
        self.core.requests.look(request)?;
        self.wait_for(request.index)
    }

    /// Waits until one of several operations is over. Returns which, and its status.
    ///
    /// # Errors
    /// Those of the operation that ended, and [`Error::StaleRequest`] for any.
    ///
    /// # Panics
    /// If there are none.
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, Status), Error> {
        self.check_process()?;
        assert!(!requests.is_empty(), "waiting for the first of no operations never ends");
        self.wait_first(requests)
    }

    /// Waits until all of several operations are over.
    ///
    /// # Errors
    /// The first error in the order of the list; the other operations are over all the same.
    pub fn wait_all(&mut self, requests: &[Request]) -> Result<(), Error> {
        let mut result = Ok(());
        for &request in requests {
            result = result.and(self.wait(request).map(drop));
        }
        result
    }

    /// Cancels a receive, if no message has matched it. It is then over with [`Error::Cancelled`],
    /// which is still to be taken by [`test`](Self::test) or [`wait`](Self::wait). Sends are not
    /// cancelled. `false` when nothing was done.
    ///
    /// # Errors
    /// [`Error::StaleRequest`].
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> {
        self.check_process()?;
        self.cancel_request(request)
    }

    /// The next message that a multi-receive has got. Makes progress when there is none.
    ///
    /// # Errors
    /// What has become of that message; [`Error::StaleRequest`].
    pub fn landed(&mut self, request: Request) -> Result<Option<Landed>, Error> {
        self.check_process()?;
        if let Some(landed) = self.next_landed(request)? {
            return Ok(Some(landed));
        }
        self.turn();
        self.next_landed(request)
    }
}
