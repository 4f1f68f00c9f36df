//! What has become of operations that were started.

use crate::engine::call::{Operation, Outcome};
use crate::engine::multi::Landed;
use crate::{Ended, Endpoint, Error, Request, Status, Transport};

impl<F: Transport> Endpoint<F> {
    /// The result of an operation, or `None` while it is not over. Makes progress.
    ///
    /// A multi-receive is not over here before [`landed`](Self::landed) has told of every message,
    /// so that one that comes between the two calls is not overlooked.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    ///
    /// ```
    /// # use taffrail::{Dest, Job, Pattern};
    /// # let mut jobs = Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let mut into = [0; 4];
    /// // SAFETY: `into` is left alone until the request is finished.
    /// let receive = unsafe { endpoint.irecv_raw(Pattern::new(0, 1), into.as_mut_ptr(), 4)? };
    /// assert_eq!(endpoint.test(receive)?, None);
    /// endpoint.send((0, 1), b"ahoy")?;
    /// let status = loop {
    ///     if let Some(status) = endpoint.test(receive)? {
    ///         break status;
    ///     }
    /// };
    /// assert_eq!((status.len, &into), (4, b"ahoy"));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    #[inline]
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> {
        self.check_process()?;
        let tested = self.engine.test_at_once(request);
        self.after_turns();
        match tested {
            Some(result) => result,
            None => self.test_any(&[request])?.map(|(_, result)| result).transpose(),
        }
    }

    /// Waits until an operation is over.
    ///
    /// The messages of a multi-receive that were not told yet are not lost: its request is good for
    /// [`landed`](Self::landed) until that has returned `None`.
    ///
    /// # Errors
    /// Those of the operation, and [`Error::StaleRequest`].
    #[inline]
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> {
        self.check_process()?;
        if let Some(status) = self.engine.core.requests.finish_ok(request) {
            return Ok(status);
        }
        self.engine.core.requests.look(request)?;
        self.wait_for(request.index() as u32)
    }

    /// Waits until one of several operations is over. Returns which (its place in the list), and how
    /// it ended; the others go on, and their requests stay good.
    ///
    /// # Errors
    /// [`Error::StaleRequest`] when one of the requests is finished already: nothing was waited for.
    /// The error of the operation that ended is in the result.
    ///
    /// # Panics
    /// If there are none.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let (mut short, mut long) = ([0; 2], [0; 8]);
    /// endpoint.scope(|s| {
    ///     let mut open = vec![s.irecv((0, 1), &mut long)?, s.irecv((0, 2), &mut short)?];
    ///     s.isend((0, 2), b"too long")?;
    ///     s.isend((0, 1), b"it fits.")?;
    ///     while !open.is_empty() {
    ///         let (which, result) = s.wait_any(&open)?;
    ///         let request = open.remove(which);
    ///         match result {
    ///             Ok(status) => println!("{request:?}: {} bytes", status.len),
    ///             Err(error) => println!("{request:?}: {error}"),
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!((&short, &long), (b"to", b"it fits."));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    #[expect(clippy::unreachable, reason = "a wait is over when an operation has completed")]
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<Ended, Error> {
        assert!(!requests.is_empty(), "waiting for the first of no operations never ends");
        self.check_requests(requests)?;
        match self.complete(Operation::WaitAny(requests))? {
            Outcome::Completed(ended) => Ok(ended),
            _ => unreachable!("a wait is over when an operation has completed"),
        }
    }

    /// As [`wait_any`](Self::wait_any), without waiting: `None` while none is over. Makes progress. A
    /// multi-receive is over as for [`test`](Self::test).
    ///
    /// # Errors
    /// As [`wait_any`](Self::wait_any).
    pub fn test_any(&mut self, requests: &[Request]) -> Result<Option<Ended>, Error> {
        self.check_requests(requests)?;
        match self.complete(Operation::Test(requests))? {
            Outcome::Completed(ended) => Ok(Some(ended)),
            _ => Ok(None),
        }
    }

    /// Waits until all of several operations are over. Use [`wait_each`](Self::wait_each) to know how
    /// each of them ended.
    ///
    /// # Errors
    /// The first error in the order of the list; the other operations are over all the same.
    pub fn wait_all(&mut self, requests: &[Request]) -> Result<(), Error> {
        self.check_process()?;
        let mut result = Ok(());
        for &request in requests {
            result = result.and(self.wait(request).map(drop));
        }
        result
    }

    /// Waits until all of several operations are over, and returns how each of them ended, in the
    /// order of the list.
    pub fn wait_each(&mut self, requests: &[Request]) -> Vec<Result<Status, Error>> {
        requests.iter().map(|&request| self.wait(request)).collect()
    }

    /// Cancels a receive, if no message has matched it. It is then over with [`Error::Cancelled`],
    /// which is still to be taken by [`test`](Self::test) or [`wait`](Self::wait). Sends are not
    /// cancelled. `false` when nothing was done.
    ///
    /// # Errors
    /// [`Error::StaleRequest`].
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> {
        self.check_process()?;
        self.engine.core.requests.look(request)?;
        Ok(matches!(self.complete(Operation::Cancel(request))?, Outcome::Cancelled(true)))
    }

    /// The next message that a multi-receive has got. Makes progress when there is none. Messages are
    /// told in the order in which they have landed whole. After the result of the multi-receive was
    /// taken, `None` says that there are no more, and ends the request.
    ///
    /// # Errors
    /// What has become of that message; [`Error::StaleRequest`].
    ///
    /// ```
    /// # use taffrail::{Job, Pattern};
    /// # let mut jobs = Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let mut into = [0; 64];
    /// let pattern = Pattern::new(0, 1);
    /// // SAFETY: `into` is left alone until the request is finished.
    /// let request = unsafe { endpoint.irecv_multi_raw(pattern, into.as_mut_ptr(), 64, 64)? };
    /// endpoint.send((0, 1), b"ahoy")?;
    /// endpoint.wait(request)?; // over, since fewer than 64 bytes are free
    /// let landed = endpoint.landed(request)?.expect("one message");
    /// assert_eq!(&into[landed.offset..][..landed.status.len], b"ahoy");
    /// assert_eq!(endpoint.landed(request)?, None);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn landed(&mut self, request: Request) -> Result<Option<Landed>, Error> {
        self.check_process()?;
        let next = self.engine.next_landed(request)?;
        // Nothing lands any more when its result was taken.
        if next.is_some() || self.engine.core.requests.look(request).is_err() {
            return Ok(next);
        }
        self.progress_once();
        self.engine.next_landed(request)
    }

    /// Refuses the child of a fork, and requests that are finished.
    fn check_requests(&mut self, requests: &[Request]) -> Result<(), Error> {
        self.check_process()?;
        requests.iter().try_for_each(|&request| self.engine.core.requests.look(request).map(drop))
    }
}
