//! SKETCH of the public API (being replaced).

use crate::*;

/// Settings of an endpoint, each also an environment variable `TAFFRAIL_*`.
#[derive(Clone, Debug, Default)]
pub struct Settings {}
impl Settings {
    /// The defaults, changed by `TAFFRAIL_*` in the environment.
    pub fn from_env() -> Result<Settings, Error> {
        todo!()
    }
}

/// An endpoint. `Send`, not `Sync`.
pub struct Endpoint {}

/// An arrived active message.
pub struct AmMessage<'a> {
    /// Sender.
    pub source: Rank,
    /// The small header (8 bytes).
    pub header: u64,
    /// The payload, in private memory.
    pub payload: &'a [u8],
}

/// Non-blocking operations whose buffers are borrowed for `'env`.
pub struct Scope<'env> {
    _x: std::marker::PhantomData<&'env mut ()>,
}

#[allow(unused_variables)]
impl Endpoint {
    pub(crate) fn open(job: &mut Job, settings: Settings) -> Result<Endpoint, Error> { todo!() }
    /// Rank.
    pub fn rank(&self) -> Rank { todo!() }
    /// Size of the job.
    pub fn size(&self) -> u32 { todo!() }
    /// Blocking send: returns when the buffer may be reused.
    pub fn send(&mut self, to: impl Into<Dest>, data: &[u8]) -> Result<(), Error> { todo!() }
    /// Synchronous blocking send: returns when the message was matched.
    pub fn send_sync(&mut self, to: impl Into<Dest>, data: &[u8]) -> Result<(), Error> { todo!() }
    /// Vectored blocking send.
    pub fn send_vectored(&mut self, to: impl Into<Dest>, data: &[std::io::IoSlice<'_>]) -> Result<(), Error> { todo!() }
    /// Blocking receive.
    pub fn recv(&mut self, from: impl Into<Pattern>, into: &mut [u8]) -> Result<Status, Error> { todo!() }
    /// Send and receive at once.
    pub fn sendrecv(&mut self, to: impl Into<Dest>, data: &[u8], from: impl Into<Pattern>, into: &mut [u8]) -> Result<Status, Error> { todo!() }
    /// Non-blocking operations: everything started in the scope is finished when it returns.
    pub fn scope<'env, R>(&mut self, f: impl FnOnce(&mut Scope<'env>) -> Result<R, Error>) -> Result<R, Error> { todo!() }
    /// Raw non-blocking send.
    /// # Safety
    /// `data` valid for reads of `len` bytes until the request is finished.
    pub unsafe fn isend_raw(&mut self, to: Dest, data: *const u8, len: usize) -> Result<Request, Error> { todo!() }
    /// Raw non-blocking receive.
    /// # Safety
    /// `into` valid for writes of `len` bytes until the request is finished.
    pub unsafe fn irecv_raw(&mut self, from: Pattern, into: *mut u8, len: usize) -> Result<Request, Error> { todo!() }
    /// `None`: not finished yet. Makes progress.
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> { todo!() }
    /// Waits for one.
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> { todo!() }
    /// Waits for the first of several: its index and result.
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, Status), Error> { todo!() }
    /// Cancels a receive not yet matched; `true` if it was in time (the request then ends with `Error::Cancelled`).
    pub fn cancel(&mut self, request: Request) -> Result<bool, Error> { todo!() }
    /// A message that a receive with this pattern would get, without receiving it.
    pub fn probe(&mut self, from: impl Into<Pattern>) -> Result<Option<Status>, Error> { todo!() }
    /// Makes progress; the number of things that happened.
    pub fn progress(&mut self) -> usize { todo!() }
    /// Sends an active message.
    pub fn send_am(&mut self, to: Rank, handler: u16, header: u64, payload: &[u8]) -> Result<(), Error> { todo!() }
    /// Registers the handler of active messages `handler`.
    pub fn on_am(&mut self, handler: u16, f: impl FnMut(AmMessage<'_>) + Send + 'static) { todo!() }
    /// What is used for each peer and size, and why the rest is not.
    pub fn explain(&self) -> String { todo!() }
}

impl<'env> Scope<'env> {
    /// Non-blocking send.
    pub fn isend(&mut self, to: impl Into<Dest>, data: &'env [u8]) -> Result<Request, Error> { let _ = (to.into(), data); todo!() }
    /// Non-blocking receive.
    pub fn irecv(&mut self, from: impl Into<Pattern>, into: &'env mut [u8]) -> Result<Request, Error> { let _ = (from.into(), into); todo!() }
    /// As on the endpoint.
    pub fn test(&mut self, request: Request) -> Result<Option<Status>, Error> { let _ = request; todo!() }
    /// As on the endpoint.
    pub fn wait(&mut self, request: Request) -> Result<Status, Error> { let _ = request; todo!() }
    /// As on the endpoint.
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, Status), Error> { let _ = requests; todo!() }
}
