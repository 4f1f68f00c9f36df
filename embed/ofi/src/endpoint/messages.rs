//! Sending and receiving, with tags and without.

use super::Endpoint;
use super::operation::{Kind, Operation};
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EAGAIN, FI_EINVAL};
use crate::abi::fi_addr_t;
use crate::call::errno_of;
use crate::cq::Entry;
use crate::info::{INJECT, IOV};
use libc::iovec;
use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ptr::NonNull;
use taffrail::{Data, Dest, Error, Pattern};

/// Messages of one lane never meet receives of another.
#[derive(Clone, Copy)]
pub struct Lane {
    pub context: u16,
    pub flag: u64,
}

pub const TAGGED: Lane = Lane { context: 0x0000, flag: FI_TAGGED };
pub const MSG: Lane = Lane { context: 0x4000, flag: FI_MSG };

/// Sends that end when their message was matched.
const SYNCHRONOUS: u64 = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;

/// Copies of injected messages that may wait for one peer.
const MOST_COPIES: usize = 1024;

/// What a message says of itself.
#[derive(Clone, Copy)]
pub struct Label {
    pub to: fi_addr_t,
    pub tag: u64,
    pub data: Option<u64>,
}

/// Calls from C, behind the lock where there is one.
///
/// # Safety
/// An open endpoint.
#[inline(always)]
pub unsafe fn enter<const SAFE: bool>(
    ep: *mut fid_ep,
    act: impl FnOnce(&mut Endpoint) -> isize,
) -> isize {
    let endpoint: *mut Endpoint = ep.cast();
    // SAFETY: the caller's promise. The domain outlives the endpoint.
    unsafe {
        let _guard = (*(*endpoint).domain).lock.hold::<SAFE>();
        act(&mut *endpoint)
    }
}

impl Endpoint {
    /// Starts a send.
    ///
    /// # Safety
    /// The buffer stays as it is until the operation ends, or this returns, with `FI_INJECT`.
    #[inline(always)]
    pub unsafe fn send(
        &mut self,
        lane: Lane,
        label: Label,
        buf: *const c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if buf.is_null() && len > 0 {
            return no_buffer(len);
        }
        let to = match self.dest(lane, label) {
            Ok(to) => to,
            Err(errno) => return -errno as isize,
        };
        let tell = self.tx.tells_of(flags);
        let operation = Operation::new(Kind::Send, FI_SEND | lane.flag, context, tell);
        let data = place(buf.cast_mut());
        if flags & (FI_INJECT | SYNCHRONOUS) != 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.send_specially(to, data, len, operation, flags) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.engine.try_inject(&to, data, len) } {
            Ok(true) => self.sent(operation),
            Ok(false) => {
                // SAFETY: the caller's promise.
                let started = unsafe { self.engine.isend_raw(to, data, len) };
                self.started(started, operation)
            }
            Err(error) => self.not_started(&error, operation),
        }
    }

    /// A send has ended at once.
    #[inline(always)]
    fn sent(&mut self, operation: Operation) -> isize {
        if operation.tell {
            self.tell(Kind::Send, Entry::new(operation.context, operation.flags));
        }
        self.count(Kind::Send, true);
        0
    }

    /// Where a message goes, for the engine.
    #[inline(always)]
    fn dest(&mut self, lane: Lane, label: Label) -> Result<Dest, c_int> {
        let rank = self.rank(label.to)?;
        let data = match label.data {
            None => Data::NONE,
            Some(data) => immediate(data)?,
        };
        Ok(Dest { rank, context: lane.context, tag: label.tag, data })
    }

    /// # Safety
    /// As [`send`](Self::send).
    unsafe fn send_specially(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
        mut operation: Operation,
        flags: u64,
    ) -> isize {
        if flags & SYNCHRONOUS == 0 {
            // SAFETY: the caller's promise.
            let injected = unsafe { self.inject_now(&to, data, len) };
            if injected == 0 && operation.tell {
                self.tell(Kind::Send, Entry::new(operation.context, operation.flags));
            }
            return injected;
        }
        let mut data = data;
        if flags & FI_INJECT != 0 {
            // SAFETY: the caller's promise.
            let copy: Box<[u8]> = unsafe { std::slice::from_raw_parts(data, len) }.into();
            data = operation.keep(copy).as_ptr();
        }
        // SAFETY: the caller's promise, or memory of ours that the operation keeps.
        let started = unsafe { self.engine.isend_sync_raw(to, data, len) };
        self.started(started, operation)
    }

    /// Sends a message that leaves nothing behind.
    ///
    /// # Safety
    /// `len` bytes at `buf`.
    #[inline(always)]
    pub unsafe fn inject(
        &mut self,
        lane: Lane,
        label: Label,
        buf: *const c_void,
        len: usize,
    ) -> isize {
        if len > INJECT || (buf.is_null() && len > 0) {
            return -FI_EINVAL as isize;
        }
        match self.dest(lane, label) {
            // SAFETY: the caller's promise.
            Ok(to) => unsafe { self.inject_now(&to, place(buf.cast_mut()), len) },
            Err(errno) => -errno as isize,
        }
    }

    /// # Safety
    /// `len` bytes at `data`.
    #[inline(always)]
    unsafe fn inject_now(&mut self, to: &Dest, data: *const u8, len: usize) -> isize {
        // SAFETY: the caller's promise.
        match unsafe { self.engine.try_inject(to, data, len) } {
            Ok(true) => {
                self.count(Kind::Send, true);
                0
            }
            // SAFETY: the caller's promise.
            Ok(false) => unsafe { self.inject_later(to, data, len) },
            Err(error) => self.not_injected(&error),
        }
    }

    /// Sends a copy when there is room. Only so many wait: then the program is to try again, as a
    /// full queue would make it. (Not where messages are logged: when there is room is chance.)
    ///
    /// # Safety
    /// `len` bytes at `data`.
    #[cold]
    unsafe fn inject_later(&mut self, to: &Dest, data: *const u8, len: usize) -> isize {
        if !self.is_logged && self.engine.waiting(to.rank) >= MOST_COPIES {
            self.engine.progress();
            return -FI_EAGAIN as isize;
        }
        // SAFETY: the caller's promise.
        match unsafe { self.engine.inject(to, data, len) } {
            Ok(()) => {
                self.count(Kind::Send, true);
                0
            }
            Err(error) => self.not_injected(&error),
        }
    }

    #[cold]
    fn not_injected(&mut self, error: &Error) -> isize {
        match error {
            // That a peer is gone must not be told here: MPICH would end.
            Error::PeerFailed { .. } => {
                self.say_why(error);
                self.count(Kind::Send, true);
                0
            }
            error => {
                eprintln!("taffrail: a message cannot be sent: {error}");
                -errno_of(error) as isize
            }
        }
    }

    /// Starts a send from several places.
    ///
    /// # Safety
    /// As [`send`](Self::send), for all of them.
    pub unsafe fn sendv(
        &mut self,
        lane: Lane,
        label: Label,
        iov: *const iovec,
        count: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        // SAFETY: the caller's promise.
        let Some(places) = (unsafe { places(iov, count) }) else { return -FI_EINVAL as isize };
        match places {
            [] => {
                // SAFETY: no bytes.
                return unsafe { self.send(lane, label, std::ptr::null(), 0, context, flags) };
            }
            [one] => {
                // SAFETY: the caller's promise.
                return unsafe {
                    self.send(lane, label, one.iov_base, one.iov_len, context, flags)
                };
            }
            _ => {}
        }
        let to = match self.dest(lane, label) {
            Ok(to) => to,
            Err(errno) => return -errno as isize,
        };
        let tell = self.tx.tells_of(flags);
        let mut operation = Operation::new(Kind::Send, FI_SEND | lane.flag, context, tell);
        if flags & (FI_INJECT | SYNCHRONOUS) != 0 {
            // SAFETY: the caller's promise.
            let whole = unsafe { gather(places) };
            let (data, len) = (whole.as_ptr(), whole.len());
            operation.keep(whole);
            if flags & SYNCHRONOUS == 0 {
                // SAFETY: memory of ours, which is copied.
                return unsafe { self.send_specially(to, data, len, operation, FI_INJECT) };
            }
            // SAFETY: memory of ours that the operation keeps.
            let started = unsafe { self.engine.isend_sync_raw(to, data, len) };
            return self.started(started, operation);
        }
        let mut slices = [IoSlice::new(&[]); IOV];
        for (slice, one) in slices.iter_mut().zip(places) {
            // SAFETY: the caller's promise.
            *slice = IoSlice::new(unsafe {
                std::slice::from_raw_parts(place(one.iov_base), one.iov_len)
            });
        }
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.isend_vectored_raw(to, &slices[..places.len()]) };
        self.started(started, operation)
    }

    /// Which messages a receive takes.
    #[inline(always)]
    pub fn pattern(
        &mut self,
        lane: Lane,
        from: fi_addr_t,
        tag: u64,
        ignore: u64,
    ) -> Result<Pattern, c_int> {
        let source = match from {
            FI_ADDR_UNSPEC => None,
            from if self.directed => Some(self.rank(from)?),
            _ => None,
        };
        Ok(Pattern { source, context: lane.context, tag, ignore })
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// The buffer is the operation's until it ends.
    #[inline(always)]
    pub unsafe fn receive(
        &mut self,
        lane: Lane,
        from: Pattern,
        buf: *mut c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if buf.is_null() && len > 0 {
            return no_buffer(len);
        }
        let tell = self.rx.tells_of(flags);
        let mut operation = Operation::new(Kind::Receive, FI_RECV | lane.flag, context, tell);
        operation.any_source = from.source.is_none();
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_raw(from, place(buf), len) };
        self.started(started, operation)
    }

    /// Starts a receive into several places.
    ///
    /// # Safety
    /// As [`receive`](Self::receive), for all of them.
    pub unsafe fn receivev(
        &mut self,
        lane: Lane,
        from: Pattern,
        iov: *const iovec,
        count: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        // SAFETY: the caller's promise.
        let Some(places) = (unsafe { places(iov, count) }) else { return -FI_EINVAL as isize };
        match places {
            [] => {
                let nowhere = std::ptr::null_mut();
                // SAFETY: no bytes.
                return unsafe { self.receive(lane, from, nowhere, 0, context, flags) };
            }
            [one] => {
                let (buf, len) = (one.iov_base, one.iov_len);
                // SAFETY: the caller's promise.
                return unsafe { self.receive(lane, from, buf, len, context, flags) };
            }
            _ => {}
        }
        let tell = self.rx.tells_of(flags);
        let mut operation = Operation::new(Kind::Receive, FI_RECV | lane.flag, context, tell);
        operation.any_source = from.source.is_none();
        let mut slices: Vec<_> = places
            .iter()
            .map(|one| {
                // SAFETY: the caller's promise.
                IoSliceMut::new(unsafe {
                    std::slice::from_raw_parts_mut(place(one.iov_base), one.iov_len)
                })
            })
            .collect();
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_vectored_raw(from, &mut slices) };
        self.started(started, operation)
    }

    /// Starts a receive of many messages.
    ///
    /// # Safety
    /// As [`receive`](Self::receive).
    pub unsafe fn receive_multi(
        &mut self,
        from: Pattern,
        buf: *mut c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let tell = self.rx.tells_of(flags);
        let mut operation = Operation::new(Kind::Multi, FI_RECV | FI_MSG, context, tell);
        operation.any_source = from.source.is_none();
        operation.buf = place(buf);
        let least = self.min_multi;
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_multi_raw(from, place(buf), len, least) };
        self.started(started, operation)
    }
}

/// Data beside a message: 32 bits, of which the highest number has another meaning below.
#[inline(always)]
pub fn immediate(data: u64) -> Result<Data, c_int> {
    u32::try_from(data).ok().and_then(Data::new).ok_or_else(|| too_much_data(data))
}

#[cold]
fn too_much_data(data: u64) -> c_int {
    eprintln!("taffrail: data beside a message is below 0xffffffff, and this is {data:#x}");
    FI_EINVAL
}

/// Open MPI 4.1 does this with persistent sends from `MPI_BOTTOM`.
#[cold]
fn no_buffer(len: usize) -> isize {
    eprintln!("taffrail: a message of {len} bytes at address 0 (FI_EINVAL)");
    -FI_EINVAL as isize
}

/// A place that is not null, also where C has nothing to send.
#[inline(always)]
pub fn place(buf: *mut c_void) -> *mut u8 {
    NonNull::new(buf.cast()).unwrap_or(NonNull::dangling()).as_ptr()
}

/// The places of a message, if there are not too many.
///
/// # Safety
/// `count` are there.
pub unsafe fn places<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    match count {
        0 => Some(&[]),
        // SAFETY: the caller's promise.
        1..=IOV if !iov.is_null() => Some(unsafe { std::slice::from_raw_parts(iov, count) }),
        _ => None,
    }
}

/// All bytes of several places, one behind the other.
///
/// # Safety
/// They are there.
pub unsafe fn gather(places: &[iovec]) -> Box<[u8]> {
    let mut whole = Vec::with_capacity(places.iter().map(|one| one.iov_len).sum());
    for one in places {
        // SAFETY: the caller's promise.
        whole.extend_from_slice(unsafe {
            std::slice::from_raw_parts(place(one.iov_base), one.iov_len)
        });
    }
    whole.into()
}
