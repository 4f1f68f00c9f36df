//! Memory without copies: buffers, loans and views.

use crate::engine::NotNow;
use crate::engine::loan::Buffer;
use crate::engine::view::View;
use crate::{Denied, Dest, Endpoint, Error, Pattern, Rank, Transport};

impl<F: Transport> Endpoint<F> {
    /// Memory that peers reach without copies in between: best for long messages, needed for loans
    /// and for cheap one-sided access. It comes from a pool and its contents are whatever the last
    /// user has left. `len` is in bytes.
    ///
    /// # Errors
    /// [`Error::Memory`], saying what was needed and what there was.
    pub fn alloc(&mut self, len: usize) -> Result<Buffer, Error> {
        self.check_process()?;
        self.engine.take_buffer(len)
    }

    /// Sends a buffer away without copying it: a receive by [`recv_view`](Self::recv_view) gets it
    /// in place, any other receive a copy. When the receiver is behind with so many loans that it
    /// cannot be told of more memory, it gets a copy, too.
    ///
    /// The buffer returns to this endpoint's pool when the receiver has done with it and made
    /// progress. Of a receiver that has closed its endpoint, all return when it drops its last view
    /// of this endpoint's memory; of one that dies, at once.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`Error::Memory`] when it is a buffer of another endpoint; it is then
    /// back in its pool.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let mut buffer = endpoint.alloc(1 << 20)?;
    /// buffer[..4].copy_from_slice(b"long");
    /// endpoint.loan((0, 1), buffer)?;
    /// let view = endpoint.recv_view((0, 1))?;
    /// assert!(view.is_loan());
    /// assert_eq!((view.len(), &view[..4]), (1 << 20, &b"long"[..]));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn loan(&mut self, to: impl Into<Dest>, buffer: Buffer) -> Result<(), Error> {
        self.check_process()?;
        self.check_own(&buffer)?;
        let (to, mut buffer) = (to.into(), Some(buffer));
        self.begin(|engine| {
            if let Some(own) = buffer.take() {
                buffer = engine.start_loan(to, own)?;
            }
            if buffer.is_some() { Err(NotNow::Waits) } else { Ok(()) }
        })
    }

    /// Whether the kernel lets this rank read plain memory of another; the reason if not.
    #[doc(hidden)]
    pub fn reads_memory_of(&self, rank: Rank) -> Result<(), Denied> {
        self.engine.reads_memory_of(rank)
    }

    /// Receives a message of any length: of a loan a view in place, of another a private copy.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_view(&mut self, from: impl Into<Pattern>) -> Result<View, Error> {
        let request = self.engine.start_recv_view(from.into())?;
        self.wait_view(request)
    }
}
