//! Access to the memory of peers, without their help.

use crate::engine::Exposed;
use crate::engine::keyed_memory::KeyedMemory;
use crate::engine::loan::Buffer;
use crate::engine::memory::{Access, Way};
use crate::{Atomic, Endpoint, Error, Rank, RegionId, RemoteMemory, Request, Transport};
use taffrail_fabric::{Memory, UserBuf};

impl<F: Transport> Endpoint<F> {
    /// Registers memory, so that peers may reach it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid until [`deregister`](Self::deregister), and peers may read
    /// and write them at any time until then.
    pub unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, Error> {
        self.check_process()?;
        // SAFETY: the caller's promise.
        let buf = unsafe { UserBuf::new(at, len) };
        let region = self.engine.fabric.register(Memory::host(buf))?;
        self.engine.rma.register(region, Exposed(at), len);
        Ok(region)
    }

    /// Ends a registration.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no such region.
    pub fn deregister(&mut self, region: RegionId) -> Result<(), Error> {
        self.check_process()?;
        self.engine.unregister(region)
    }

    /// What rank `to` needs to reach registered memory.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no such region, and as [`send`](Self::send).
    pub fn remote_memory(&mut self, to: Rank, region: RegionId) -> Result<RemoteMemory, Error> {
        self.check_process()?;
        let unknown = taffrail_fabric::MemoryError::Unknown { region: region.0, offset: 0 };
        let len = self.engine.rma.registered_len(region).ok_or(unknown)?;
        self.engine.remote(to, region, 0, len)
    }

    /// What rank `to` needs to reach a buffer.
    ///
    /// # Errors
    /// As [`remote_memory`](Self::remote_memory); a buffer of another endpoint is no region here.
    ///
    /// # Safety
    /// As long as the peer uses it, the buffer is not dropped or lent, and it is read or written
    /// here only when messages have made sure that the peer does not.
    pub unsafe fn remote_buffer(
        &mut self,
        to: Rank,
        buffer: &Buffer,
    ) -> Result<RemoteMemory, Error> {
        self.check_process()?;
        self.check_own(buffer)?;
        self.engine.remote_buffer(to, buffer)
    }

    /// Reads memory of a peer, `offset` bytes in, into `into`.
    ///
    /// # Errors
    /// [`Error::Memory`] when that lies outside, [`Error::PeerFailed`] when it fails.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// let mut table = *b"0123456789";
    /// // SAFETY: the table outlives its registration, and is only reached through it meanwhile.
    /// let region = unsafe { endpoint.register(table.as_mut_ptr(), table.len())? };
    /// // Plain bytes, which the other side gets in a message and decodes with `from_bytes`.
    /// let bytes = endpoint.remote_memory(0, region)?.to_bytes();
    ///
    /// let memory = taffrail::RemoteMemory::from_bytes(&bytes);
    /// endpoint.put(0, &memory, 2, b"abc")?;
    /// let mut into = [0; 5];
    /// endpoint.get(0, &memory, 1, &mut into)?;
    /// assert_eq!(&into, b"1abc5");
    ///
    /// endpoint.deregister(region)?;
    /// assert_eq!(&table, b"01abc56789");
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn get(
        &mut self,
        from: Rank,
        memory: &RemoteMemory,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let (at, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: the borrow lasts until the wait is over.
        let request =
            unsafe { self.engine.start_one_sided(Way::Get, from, memory, offset, at, len)? };
        self.wait_for(request).map(drop)
    }

    /// Writes `data` to memory of a peer, `offset` bytes in, and returns when it is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn put(
        &mut self,
        to: Rank,
        memory: &RemoteMemory,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Error> {
        let (at, len) = (data.as_ptr().cast_mut(), data.len());
        // SAFETY: the borrow lasts until the wait is over, and a put only reads.
        let request =
            unsafe { self.engine.start_one_sided(Way::Put, to, memory, offset, at, len)? };
        self.wait_for(request).map(drop)
    }

    /// Starts a [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Safety
    /// `len` bytes at `into` stay writable, and are used by nobody else, until the request is
    /// finished.
    pub unsafe fn iget_raw(
        &mut self,
        from: Rank,
        memory: &RemoteMemory,
        offset: u64,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request =
            unsafe { self.engine.start_one_sided(Way::Get, from, memory, offset, into, len)? };
        Ok(self.engine.handle(request))
    }

    /// Starts a [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    pub unsafe fn iput_raw(
        &mut self,
        to: Rank,
        memory: &RemoteMemory,
        offset: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        let at = data.cast_mut();
        // SAFETY: the caller's promise; a put only reads.
        let request =
            unsafe { self.engine.start_one_sided(Way::Put, to, memory, offset, at, len)? };
        Ok(self.engine.handle(request))
    }

    /// Gives a name to memory, by which peers may reach it ([`iget_named_raw`](Self::iget_named_raw)):
    /// for runtimes whose keys are their own. Peers call its first byte `start`. An earlier memory of
    /// that name has it no more. An operation that it does not allow (`access`) fails, and changes nothing.
    ///
    /// # Errors
    /// [`Error::UsedAfterFork`].
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid until [`conceal`](Self::conceal), and peers may read and write
    /// them, as far as `access` says, at any time until then.
    pub unsafe fn expose(
        &mut self,
        name: u64,
        at: *mut u8,
        len: usize,
        start: u64,
        access: Access,
    ) -> Result<(), Error> {
        self.conceal(name)?;
        self.engine.rma.expose(name, KeyedMemory { at: Exposed(at), len, start, access });
        Ok(())
    }

    /// Ends that memory has a name. Returns whether there was such.
    ///
    /// # Errors
    /// [`Error::UsedAfterFork`].
    pub fn conceal(&mut self, name: u64) -> Result<bool, Error> {
        self.check_process()?;
        Ok(self.engine.forget_named(name))
    }

    /// Whether memory that we have [exposed](Self::expose) by this name is there, but does not allow this in so
    /// many bytes from `address` on.
    pub fn refuses(&self, name: u64, address: u64, len: u64, access: Access) -> bool {
        let is_known = len > 0 && self.engine.rma.has(name);
        is_known && self.engine.rma.named((name, address), len, access).is_err()
    }

    /// Starts to read memory that a peer has [exposed](Self::expose) by this name, from `address` on.
    /// The peer has a part in it, when it makes progress.
    ///
    /// # Errors
    /// As [`get`](Self::get); where the peer has no such memory, or does not allow it, the operation fails
    /// with [`Error::PeerFailed`], and the peer has not.
    ///
    /// # Safety
    /// As [`iget_raw`](Self::iget_raw).
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use taffrail::Access;
    /// let (mut table, mut into) = (*b"0123456789", [0; 3]);
    /// // SAFETY: the table stays until it is concealed, and `into` until the request is finished.
    /// let request = unsafe {
    ///     endpoint.expose(77, table.as_mut_ptr(), table.len(), 1000, Access::Read)?;
    ///     endpoint.iget_named_raw(0, 77, 1004, into.as_mut_ptr(), into.len())?
    /// };
    /// endpoint.wait(request)?;
    /// assert_eq!(&into, b"456");
    /// assert!(endpoint.conceal(77)?);
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub unsafe fn iget_named_raw(
        &mut self,
        from: Rank,
        name: u64,
        address: u64,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request =
            unsafe { self.engine.start_named(Way::Get, from, (name, address), into, len)? };
        Ok(self.engine.handle(request))
    }

    /// Starts to write memory that a peer has [exposed](Self::expose); over when it is there. A message
    /// that is sent behind it is received after it.
    ///
    /// # Errors
    /// As [`iget_named_raw`](Self::iget_named_raw).
    ///
    /// # Safety
    /// As [`iput_raw`](Self::iput_raw).
    pub unsafe fn iput_named_raw(
        &mut self,
        to: Rank,
        name: u64,
        address: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Request, Error> {
        let at = data.cast_mut();
        // SAFETY: the caller's promise; a put only reads.
        let request = unsafe { self.engine.start_named(Way::Put, to, (name, address), at, len)? };
        Ok(self.engine.handle(request))
    }

    /// Starts an atomic operation on memory that a peer has [exposed](Self::expose): on each element in
    /// one step, seen from every other such operation. The operands are copied at once, those to compare
    /// with behind the others. What was there before goes to `fetched`, unless that is null.
    ///
    /// # Errors
    /// As [`iget_named_raw`](Self::iget_named_raw).
    ///
    /// # Panics
    /// When there are not [as many operands](Atomic::operand_bytes) as the operation wants.
    ///
    /// # Safety
    /// [As many bytes](Atomic::len) as the elements have stay writable at `fetched`, and are used by nobody
    /// else, until the request is finished.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use taffrail::{Access, Atomic, AtomicOp, AtomicType};
    /// let (mut counter, mut before) = (40u32, [0; 4]);
    /// let add = Atomic::new(AtomicOp::Sum, AtomicType::U32, 1).expect("numbers can be added");
    /// // SAFETY: the counter stays until it is concealed, and `before` until the request is finished.
    /// let request = unsafe {
    ///     endpoint.expose(77, (&raw mut counter).cast(), 4, 0, Access::Both)?;
    ///     endpoint.iatomic_named_raw(0, 77, 0, add, &2u32.to_ne_bytes(), before.as_mut_ptr())?
    /// };
    /// endpoint.wait(request)?;
    /// endpoint.conceal(77)?;
    /// assert_eq!((counter, u32::from_ne_bytes(before)), (42, 40));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub unsafe fn iatomic_named_raw(
        &mut self,
        to: Rank,
        name: u64,
        address: u64,
        atomic: Atomic,
        operands: &[u8],
        fetched: *mut u8,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request =
            unsafe { self.engine.start_atomic(to, (name, address), atomic, operands, fetched)? };
        Ok(self.engine.handle(request))
    }
}
