//! What the victim's program does meanwhile, so that there is something for messages to hit.

use crate::hostile::CONTEXTS;
use crate::{HOSTILE, exchange};
use arbitrary::Arbitrary;
use std::io::{IoSlice, IoSliceMut};
use taffrail::{
    Claimed, Dest, Endpoint, Error, Pattern, RegionId, RemoteMemory, Request, Status, View,
};
use taffrail_fuzz::memory::{Address, Length};

#[derive(Arbitrary, Debug)]
pub enum Local {
    Recv { from: From, len: u16 },
    RecvVectored { from: From, lens: [u16; 3] },
    RecvMulti { from: From, len: u32, least: u8 },
    RecvView(From),
    Claim(From),
    RecvClaimed { which: u8, len: u16 },
    Probe(From),
    Send { context: u8, len: u32, sync: bool },
    SendVectored { context: u8, lens: [u16; 2] },
    Lend { context: u8, len: u32 },
    Get { region: u8, addr: Address, offset: Length, whole: Length, len: u16 },
    Put { region: u8, addr: Address, offset: Length, whole: Length, len: u16 },
    Register { len: u16 },
    Deregister { which: u8 },
    Handle { handler: u8 },
    Cancel { which: u8 },
    Test { which: u8 },
    Landed { which: u8 },
    DropViews,
    Nap,
}

/// The pattern of a receive.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct From {
    any_source: bool,
    context: u8,
    tag: u8,
    any_tag: bool,
}

#[derive(Default)]
pub struct Victim {
    requests: Vec<Request>,
    view_requests: Vec<Request>,
    multi: Vec<Request>,
    claimed: Vec<Claimed>,
    views: Vec<View>,
    regions: Vec<RegionId>,
    /// Memory of operations, which stays to the end.
    memory: Vec<Box<[u8]>>,
    /// Bytes that all this is allowed.
    pub bytes: usize,
}

impl From {
    fn pattern(self) -> Pattern {
        let context = u16::from(self.context) % CONTEXTS;
        Pattern {
            // What the honest peer sends is received elsewhere.
            source: (!self.any_source || context == exchange::CONTEXT).then_some(HOSTILE),
            context,
            tag: u64::from(self.tag % 4),
            ignore: if self.any_tag { u64::MAX } else { 0 },
        }
    }
}

impl Victim {
    pub fn act(&mut self, endpoint: &mut Endpoint, what: &Local) {
        self.bytes += 1024;
        match *what {
            Local::Recv { from, len } => {
                let (at, len) = self.room(len.into());
                // SAFETY: `room` keeps it, here and below.
                let request = unsafe { endpoint.irecv_raw(from.pattern(), at, len) };
                self.started(request);
            }
            Local::RecvVectored { from, lens } => {
                let mut parts = lens.map(|len| {
                    let (at, len) = self.room(usize::from(len) % 3000);
                    // SAFETY: as above; each is used once.
                    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(at, len) })
                });
                // SAFETY: as above.
                let request = unsafe { endpoint.irecv_vectored_raw(from.pattern(), &mut parts) };
                self.started(request);
            }
            Local::RecvMulti { from, len, least } => {
                let (at, len) = self.room(len as usize % 100_000);
                // SAFETY: as above.
                let request =
                    unsafe { endpoint.irecv_multi_raw(from.pattern(), at, len, least.into()) };
                self.multi.extend(request.as_ref().ok());
                self.started(request);
            }
            Local::RecvView(from) => {
                // The engine takes what the message says that it needs, up to twice a megabyte.
                self.bytes += 2 << 20;
                self.view_requests.extend(endpoint.irecv_view(from.pattern()).ok());
            }
            Local::Claim(from) => {
                self.claimed.extend(endpoint.claim(from.pattern()).ok().flatten())
            }
            Local::RecvClaimed { which, len } => {
                if let Some(index) = pick(which, self.claimed.len()) {
                    let claimed = self.claimed.swap_remove(index);
                    let (at, len) = self.room(len.into());
                    // SAFETY: as above.
                    let request = unsafe { endpoint.irecv_claimed(claimed, at, len) };
                    self.started(request);
                }
            }
            Local::Probe(from) => drop(endpoint.probe(from.pattern())),
            Local::Send { context, len, sync } => {
                let (at, len) = self.room(len as usize % 200_000);
                let to = dest(context);
                // SAFETY: as above.
                let request = unsafe {
                    match sync {
                        true => endpoint.isend_sync_raw(to, at, len),
                        false => endpoint.isend_raw(to, at, len),
                    }
                };
                self.started(request);
            }
            Local::SendVectored { context, lens } => {
                let parts = lens.map(|len| {
                    let (at, len) = self.room(len.into());
                    // SAFETY: as above; nobody writes to it.
                    IoSlice::new(unsafe { std::slice::from_raw_parts(at, len) })
                });
                // SAFETY: as above.
                let request = unsafe { endpoint.isend_vectored_raw(dest(context), &parts) };
                self.started(request);
            }
            Local::Lend { context, len } => {
                if let Ok(buffer) = endpoint.alloc(len as usize % 300_000) {
                    let _ = endpoint.loan(dest(context), buffer);
                }
                self.bytes += 4096;
            }
            Local::Get { region, addr, offset, whole, len } => {
                let (at, len) = self.room(len.into());
                let memory = remote(region, addr, offset, whole);
                // SAFETY: as above.
                let request = unsafe { endpoint.iget_raw(HOSTILE, &memory, 0, at, len) };
                self.started(request);
            }
            Local::Put { region, addr, offset, whole, len } => {
                let (at, len) = self.room(len.into());
                let memory = remote(region, addr, offset, whole);
                // SAFETY: as above; where nothing is mapped, the address is in the playground.
                let request = unsafe { endpoint.iput_raw(HOSTILE, &memory, 0, at, len) };
                self.started(request);
            }
            Local::Register { len } => {
                let (at, len) = self.room(len.into());
                // SAFETY: as above; peers write to it, and nobody else looks.
                self.regions.extend(unsafe { endpoint.register(at, len) }.ok());
            }
            Local::Deregister { which } => {
                if let Some(index) = pick(which, self.regions.len()) {
                    endpoint.deregister(self.regions.swap_remove(index)).expect("it was there");
                }
            }
            Local::Handle { handler } => {
                endpoint.on_am(u16::from(handler % 3), |endpoint, message| {
                    assert_eq!(message.source, HOSTILE);
                    endpoint.progress();
                });
            }
            Local::Cancel { which } => {
                if let Some(index) = pick(which, self.requests.len()) {
                    let _ = endpoint.cancel(self.requests[index]);
                }
            }
            Local::Test { which } => {
                if let Some(index) = pick(which, self.requests.len()) {
                    let request = self.requests[index];
                    if is_over(&endpoint.test(request)) {
                        self.requests.swap_remove(index);
                        self.multi.retain(|&multi| multi != request);
                    }
                }
            }
            Local::Landed { which } => {
                if let Some(index) = pick(which, self.multi.len()) {
                    let _ = endpoint.landed(self.multi[index]);
                }
            }
            Local::DropViews => self.views.clear(),
            Local::Nap => {
                if endpoint.arm() {
                    endpoint.progress();
                }
            }
        }
    }

    /// The operations under way.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        self.requests.iter().chain(&self.view_requests).copied()
    }

    fn started(&mut self, request: Result<Request, Error>) {
        match request {
            Ok(request) => self.requests.push(request),
            Err(Error::PeerFailed { rank: HOSTILE, .. } | Error::Memory(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Memory for an operation, as long as this value is there.
    fn room(&mut self, len: usize) -> (*mut u8, usize) {
        self.bytes += len;
        let mut memory = vec![1; len].into_boxed_slice();
        let at = memory.as_mut_ptr();
        self.memory.push(memory);
        (at, len)
    }

    /// Whether everything is over that names the hostile peer; the rest is cancelled.
    pub fn is_over(&mut self, endpoint: &mut Endpoint) -> bool {
        self.requests.retain(|&request| {
            if self.multi.contains(&request) {
                while let Ok(Some(_)) | Err(Error::PeerFailed { .. } | Error::Truncated { .. }) =
                    endpoint.landed(request)
                {}
            }
            let _ = endpoint.cancel(request);
            !is_over(&endpoint.test(request))
        });
        self.view_requests.retain(|&request| {
            let _ = endpoint.cancel(request);
            match endpoint.test_view(request) {
                Ok(None) => true,
                Ok(Some(view)) => {
                    let _ = view.iter().fold(0u8, |all, &byte| all ^ byte);
                    false
                }
                Err(Error::StaleRequest(_)) => panic!("a request that nobody has taken is stale"),
                Err(_) => false,
            }
        });
        self.requests.is_empty() && self.view_requests.is_empty()
    }

    pub fn check(&self) {
        let left = self.requests.len() + self.view_requests.len();
        assert_eq!(left, 0, "operations go on with a peer that is gone");
    }
}

fn is_over(result: &Result<Option<Status>, Error>) -> bool {
    match result {
        Ok(status) => status.is_some(),
        Err(Error::StaleRequest(_)) => panic!("a request that nobody has taken is stale"),
        Err(_) => true,
    }
}

fn pick(which: u8, of: usize) -> Option<usize> {
    (of > 0).then(|| which as usize % of)
}

fn dest(context: u8) -> Dest {
    Dest::new(HOSTILE, 1).context(u16::from(context) % CONTEXTS)
}

/// Plain bytes that anybody may have sent.
fn remote(region: u8, addr: Address, offset: Length, whole: Length) -> RemoteMemory {
    let mut bytes = [0; RemoteMemory::ENCODED];
    // A key of shared memory: its length, the rail, address, region, offset; then region, offset and length.
    bytes[0] = 25;
    bytes[2..10].copy_from_slice(&addr.get().to_le_bytes());
    bytes[10] = region % 4;
    bytes[18..26].copy_from_slice(&offset.get().to_le_bytes());
    bytes[68] = region % 4;
    bytes[72..80].copy_from_slice(&offset.get().to_le_bytes());
    bytes[80..].copy_from_slice(&whole.get().to_le_bytes());
    RemoteMemory::from_bytes(&bytes)
}
