//! Non-blocking operations on borrowed buffers.

use crate::engine::loan::ReturnQueue;
use crate::{Dest, Ended, Endpoint, Error, JobFabric, Pattern, Request, Status, Transport};
use std::marker::PhantomData;

/// Where non-blocking operations on buffers borrowed for `'env` are started; see
/// [`Endpoint::scope`].
pub struct Scope<'ep, 'env, F: Transport = JobFabric> {
    endpoint: &'ep mut Endpoint<F>,
    /// Tells the endpoint from others.
    mark: *const ReturnQueue,
    started: Vec<Request>,
    /// The buffers are used for all of `'env`, which must not shrink.
    buffers: PhantomData<&'env mut &'env ()>,
}

/// See [`Endpoint::scope`].
pub(crate) fn run<'env, F: Transport, R>(
    endpoint: &mut Endpoint<F>,
    f: impl FnOnce(&mut Scope<'_, 'env, F>) -> Result<R, Error>,
) -> Result<R, Error> {
    let mark = endpoint.engine.lending.mark();
    let mut scope = Scope { endpoint, mark, started: Vec::new(), buffers: PhantomData };
    let result = f(&mut scope);
    let left = scope.finish(result.is_err());
    let result = result?;
    left.map(|()| result)
}

impl<'env, F: Transport> Scope<'_, 'env, F> {
    /// Starts a send.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    pub fn isend(&mut self, to: impl Into<Dest>, data: &'env [u8]) -> Result<Request, Error> {
        // SAFETY: the slice is borrowed for `'env`, which outlives the scope, and everything is over
        // when the scope ends.
        let request = unsafe { self.endpoint.isend_raw(to.into(), data.as_ptr(), data.len())? };
        self.started.push(request);
        Ok(request)
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As [`Endpoint::recv`].
    pub fn irecv(
        &mut self,
        from: impl Into<Pattern>,
        into: &'env mut [u8],
    ) -> Result<Request, Error> {
        let (at, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: as in `isend`; the borrow is exclusive.
        let request = unsafe { self.endpoint.irecv_raw(from.into(), at, len)? };
        self.started.push(request);
        Ok(request)
    }

    /// As [`Endpoint::test`].
    ///
    /// # Errors
    /// As [`Endpoint::test`].
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.endpoint.test(request)
    }

    /// As [`Endpoint::wait`].
    ///
    /// # Errors
    /// As [`Endpoint::wait`].
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> {
        self.endpoint.wait(request)
    }

    /// As [`Endpoint::wait_any`].
    ///
    /// # Errors
    /// As [`Endpoint::wait_any`].
    ///
    /// # Panics
    /// As [`Endpoint::wait_any`].
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<Ended, Error> {
        self.endpoint.wait_any(requests)
    }

    /// As [`Endpoint::test_any`].
    ///
    /// # Errors
    /// As [`Endpoint::test_any`].
    pub fn test_any(&mut self, requests: &[Request]) -> Result<Option<Ended>, Error> {
        self.endpoint.test_any(requests)
    }

    /// As [`Endpoint::wait_all`].
    ///
    /// # Errors
    /// As [`Endpoint::wait_all`].
    pub fn wait_all(&mut self, requests: &[Request]) -> Result<(), Error> {
        self.endpoint.wait_all(requests)
    }

    /// As [`Endpoint::wait_each`].
    pub fn wait_each(&mut self, requests: &[Request]) -> Vec<Result<Status, Error>> {
        self.endpoint.wait_each(requests)
    }

    /// As [`Endpoint::cancel`].
    ///
    /// # Errors
    /// As [`Endpoint::cancel`].
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> {
        self.endpoint.cancel(request)
    }

    /// The endpoint, for everything else. If it is replaced by another (`std::mem::swap`) after an
    /// operation was started here, the end of the scope aborts the process.
    pub fn endpoint(&mut self) -> &mut Endpoint<F> {
        self.endpoint
    }

    /// Ends what was started and not waited for. Receives are cancelled if `f` has failed.
    fn finish(&mut self, failed: bool) -> Result<(), Error> {
        if !self.started.is_empty() && self.mark != self.endpoint.engine.lending.mark() {
            // The buffers are in use by an endpoint that is out of reach.
            crate::explain::say(
                "the endpoint of a scope was replaced while operations were under way",
            );
            std::process::abort();
        }
        let mut result = Ok(());
        for request in std::mem::take(&mut self.started) {
            if failed && self.endpoint.cancel(request).is_ok_and(|cancelled| cancelled) {
                let _ = self.endpoint.wait(request);
                continue;
            }
            match self.endpoint.wait(request) {
                Ok(_) | Err(Error::StaleRequest(_)) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

impl<F: Transport> Drop for Scope<'_, '_, F> {
    /// After a panic in the scope: nothing may touch the buffers any more.
    fn drop(&mut self) {
        let _ = self.finish(true);
    }
}
