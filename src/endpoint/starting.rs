//! Starting operations without waiting for them.

use crate::{Dest, Endpoint, Error, Pattern, Request, Scope, Transport};
use std::io::{IoSlice, IoSliceMut};

impl<F: Transport> Endpoint<F> {
    /// Runs `f` with a [`Scope`], in which operations can be started whose buffers are borrowed.
    /// Everything started is over when this returns: what `f` has not waited for is waited for, and
    /// receives that nothing has matched are cancelled.
    ///
    /// # Errors
    /// What `f` returns; else the first error of an operation that `f` has not looked at.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let (mut a, mut b) = ([0; 4], [0; 4]);
    /// endpoint.scope(|s| {
    ///     let first = s.irecv((0, 1), &mut a)?;
    ///     let second = s.irecv((0, 2), &mut b)?;
    ///     s.isend((0, 2), b"two.")?;
    ///     s.isend((0, 1), b"one.")?;
    ///     s.wait(first)?;
    ///     s.wait(second)
    /// })?;
    /// assert_eq!((&a, &b), (b"one.", b"two."));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn scope<'env, R>(
        &mut self,
        f: impl FnOnce(&mut Scope<'_, 'env, F>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check_process()?;
        crate::scope::run(self, f)
    }

    /// Starts a send.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    #[inline]
    pub unsafe fn isend_raw(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        // Not by `begin`: a closure that is called in two places is a call here as well.
        // SAFETY: the caller's promise.
        let request = match unsafe { self.engine.start_send(to, data, len, false) } {
            Ok(request) => request,
            Err(not_now) => self.begin_again(not_now, |engine| {
                // SAFETY: the caller's promise.
                unsafe { engine.start_send(to, data, len, false) }
            })?,
        };
        Ok(self.engine.handle(request))
    }

    /// Starts a send that is over when a receive has matched the message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw).
    pub unsafe fn isend_sync_raw(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = self.begin(|engine| unsafe { engine.start_send(to, data, len, true) })?;
        Ok(self.engine.handle(request))
    }

    /// Starts a send gathered from several places.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw), for each slice; the list itself is not kept.
    pub unsafe fn isend_vectored_raw(
        &mut self,
        to: Dest,
        data: &[IoSlice<'_>],
    ) -> Result<Request, Error> {
        let parts: Vec<&[u8]> = data.iter().map(|part| &**part).collect();
        // SAFETY: the caller's promise.
        let request = self.begin(|engine| unsafe { engine.start_send_vectored(to, &parts) })?;
        Ok(self.engine.handle(request))
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// `len` bytes at `into` stay writable, and are used by nobody else, until the request is
    /// finished.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use taffrail::{Dest, Pattern};
    /// let (data, mut into) = (*b"ahoy", [0; 4]);
    /// // SAFETY: both arrays outlive the requests, and nobody else uses them meanwhile.
    /// let (receive, send) = unsafe {
    ///     (
    ///         endpoint.irecv_raw(Pattern::new(0, 1), into.as_mut_ptr(), into.len())?,
    ///         endpoint.isend_raw(Dest::new(0, 1), data.as_ptr(), data.len())?,
    ///     )
    /// };
    /// endpoint.wait_all(&[send, receive])?;
    /// assert_eq!(into, data);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    #[inline]
    pub unsafe fn irecv_raw(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.start_recv(from, into, len)? };
        Ok(self.engine.handle(request))
    }

    /// Starts a receive into several places.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw), for each slice; the list itself is not kept.
    pub unsafe fn irecv_vectored_raw(
        &mut self,
        from: Pattern,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.start_recv_vectored(from, into)? };
        Ok(self.engine.handle(request))
    }

    /// Starts a receive of many messages into one buffer, one behind the other, until fewer than
    /// `least` bytes are free. Each begins at a multiple of 8 bytes from the beginning of the buffer.
    /// [`landed`](Self::landed) tells of each; the request itself is over when the buffer is used up and
    /// everything in it has landed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn irecv_multi_raw(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
        least: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.start_multi(from, into, len, least)? };
        Ok(self.engine.handle(request))
    }
}
