//! `fi_read`, `fi_write` and their like. The target's engine does them when the target makes progress,
//! so that keys can be what programs like.

use super::Endpoint;
use super::messages::{SEND_FLAGS, check_places, enter, gather, immediate, place, places};
use super::operation::{Kind, Operation};
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EBADFLAGS, FI_EINVAL};
use crate::abi::fi_addr_t;
use crate::abi::rma::{fi_msg_rma, fi_ops_rma, fi_rma_iov};
use crate::call::errno_of;
use crate::cq::Entry;
use crate::info::INJECT;
use crate::lock::{SHARED, SOLO};
use crate::mr::Region;
use crate::say::say;
use libc::iovec;
use std::ffi::c_void;
use taffrail::{Access, Dest, Error, Pattern};

const fn table<const SAFE: bool>() -> fi_ops_rma {
    fi_ops_rma {
        size: size_of::<fi_ops_rma>(),
        read: read::<SAFE>,
        readv: readv::<SAFE>,
        readmsg: readmsg::<SAFE>,
        write: write::<SAFE>,
        writev: writev::<SAFE>,
        writemsg: writemsg::<SAFE>,
        inject: inject::<SAFE>,
        writedata: writedata::<SAFE>,
        injectdata: injectdata::<SAFE>,
    }
}

static SOLO_OPS: fi_ops_rma = table::<SOLO>();
static SHARED_OPS: fi_ops_rma = table::<SHARED>();

/// The functions with a lock or without.
pub fn ops(safe: bool) -> &'static fi_ops_rma {
    if safe { &SHARED_OPS } else { &SOLO_OPS }
}

/// Messages that tell the target of a write: key and address, with the writer's data, and as tag the
/// length of the write.
const NOTICES: u16 = 0x8000;
/// Bytes of key and address.
const NOTICE: usize = 16;

/// Memory of a peer.
#[derive(Clone, Copy)]
struct Remote {
    at: fi_addr_t,
    address: u64,
    key: u64,
}

impl Endpoint {
    /// Lets peers reach memory by its key.
    pub fn expose(&mut self, key: u64, region: Region) {
        // SAFETY: the program keeps the memory until it closes the registration.
        let exposed =
            unsafe { self.engine.expose(key, region.at, region.len, region.start, region.access) };
        if let Err(error) = exposed {
            say(&format!("memory cannot be registered: {error}"));
        }
    }

    /// Ends that.
    pub fn conceal(&mut self, key: u64) {
        let _ = self.engine.conceal(key);
    }

    /// Waits for the next notice of a write.
    pub fn await_notice(&mut self) {
        let from = Pattern { source: None, context: NOTICES, tag: 0, ignore: u64::MAX };
        let mut operation =
            Operation::new(Kind::Notice, FI_RMA | FI_REMOTE_WRITE, std::ptr::null_mut(), true);
        let into = operation.keep(Box::new([0; NOTICE]));
        // SAFETY: memory of ours that the operation keeps.
        let started = unsafe { self.engine.irecv_raw(from, into.as_mut_ptr(), into.len()) };
        if started.is_ok() {
            self.started(started, operation);
        }
    }

    /// # Safety
    /// The places are the operation's until it ends.
    unsafe fn read(
        &mut self,
        from: Remote,
        places: &[iovec],
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if let Err(errno) = check_places(places) {
            return errno;
        }
        let rank = match self.rank(from.at) {
            Ok(rank) => rank,
            Err(errno) => return -errno as isize,
        };
        let tell = self.tx.tells_of(flags);
        let mut operation = Operation::new(Kind::Read, FI_RMA | FI_READ, context, tell);
        let (buf, len) = match places {
            [] => (place(std::ptr::null_mut()), 0),
            [one] => (place(one.iov_base), one.iov_len),
            // Scattered when all of it is here.
            several => {
                let len = several.iter().map(|one| one.iov_len).sum();
                (operation.keep_for(vec![0; len].into(), several).as_mut_ptr(), len)
            }
        };
        // SAFETY: the caller's promise, or memory of ours that the operation keeps.
        let started = unsafe { self.engine.iget_named_raw(rank, from.key, from.address, buf, len) };
        self.started(started, operation)
    }

    /// # Safety
    /// The places stay as they are until the operation ends, or this returns, with `FI_INJECT`.
    unsafe fn write(
        &mut self,
        to: Remote,
        places: &[iovec],
        data: Option<u64>,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if let Err(errno) = check_places(places) {
            return errno;
        }
        let tell = self.tx.tells_of(flags);
        let mut operation = Operation::new(Kind::Write, FI_RMA | FI_WRITE, context, tell);
        let (buf, len) = match places {
            [] => (place(std::ptr::null_mut()).cast_const(), 0),
            [one] if flags & FI_INJECT == 0 => (place(one.iov_base).cast_const(), one.iov_len),
            several => {
                // SAFETY: the caller's promise.
                let whole = operation.keep(unsafe { gather(several) });
                (whole.as_ptr(), whole.len())
            }
        };
        // SAFETY: the caller's promise, or memory of ours that the operation keeps.
        unsafe { self.put(to, buf, len, data, operation) }
    }

    /// Starts a write, and tells the target of it if there are data for it.
    ///
    /// # Safety
    /// `len` bytes at `at` stay as they are until the operation ends.
    unsafe fn put(
        &mut self,
        to: Remote,
        at: *const u8,
        len: usize,
        data: Option<u64>,
        operation: Operation,
    ) -> isize {
        let (rank, data) = match (self.rank(to.at), data.map(immediate).transpose()) {
            (Ok(rank), Ok(data)) => (rank, data),
            (Err(errno), _) | (_, Err(errno)) => return -errno as isize,
        };
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.iput_named_raw(rank, to.key, to.address, at, len) };
        let told = self.started(started, operation);
        match data {
            Some(data) if told == 0 => {
                let notice = Dest { rank, context: NOTICES, tag: len as u64, data };
                self.notify(&notice, to)
            }
            _ => told,
        }
    }

    /// Tells the target of a write, which is there before this.
    fn notify(&mut self, notice: &Dest, to: Remote) -> isize {
        let body = [to.key.to_le_bytes(), to.address.to_le_bytes()].concat();
        // SAFETY: the bytes are there.
        match unsafe { self.engine.inject(notice, body.as_ptr(), body.len()) } {
            Ok(()) | Err(Error::PeerFailed { .. }) => 0,
            Err(error) => -errno_of(&error) as isize,
        }
    }

    /// A write that leaves nothing behind.
    ///
    /// # Safety
    /// `len` bytes at `buf`.
    unsafe fn inject_write(
        &mut self,
        to: Remote,
        buf: *const c_void,
        len: usize,
        data: Option<u64>,
    ) -> isize {
        if len > INJECT || (buf.is_null() && len > 0) {
            return -FI_EINVAL as isize;
        }
        let nobody = std::ptr::null_mut();
        let mut operation = Operation::new(Kind::Inject, FI_RMA | FI_WRITE, nobody, false);
        // SAFETY: the caller's promise.
        let copy = unsafe { std::slice::from_raw_parts(place(buf.cast_mut()), len) };
        let at = operation.keep(copy.into()).as_ptr();
        // SAFETY: memory of ours that the operation keeps.
        unsafe { self.put(to, at, len, data, operation) }
    }

    /// A peer has written to our memory, and says so; unless the memory does not allow it, and is as it was.
    pub fn noticed(&mut self, status: &taffrail::Status, body: &[u8]) {
        let word = |at: usize| body.get(at..at + 8).and_then(|word| word.try_into().ok());
        let (key, address) = (word(0).map(u64::from_le_bytes), word(8).map(u64::from_le_bytes));
        if let (Some(key), Some(address)) = (key, address)
            && self.engine.refuses(key, address, status.tag, Access::Write)
        {
            return self.await_notice();
        }
        let mut entry = Entry::new(std::ptr::null_mut(), FI_RMA | FI_REMOTE_WRITE);
        self.describe(&mut entry, status);
        (entry.len, entry.tag) = (entry.tag as usize, 0);
        self.tell(Kind::Notice, entry);
        self.await_notice();
    }
}

unsafe extern "C" fn read<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    at: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let one = iovec { iov_base: buf, iov_len: len };
    let from = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.read(from, &[one], context, ep.tx.op_flags)) }
}

unsafe extern "C" fn readv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let from = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe {
        let places = match places(iov, count) {
            Ok(places) => places,
            Err(errno) => return errno,
        };
        enter::<SAFE>(ep, |ep| ep.read(from, places, context, ep.tx.op_flags))
    }
}

unsafe extern "C" fn readmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some((msg, from)) = target(msg) else { return -FI_EINVAL as isize };
        let places = match places(msg.msg_iov, msg.iov_count) {
            Ok(places) => places,
            Err(errno) => return errno,
        };
        if flags & !SEND_FLAGS != 0 {
            return -FI_EBADFLAGS as isize;
        }
        enter::<SAFE>(ep, |ep| ep.read(from, places, msg.context, flags))
    }
}

unsafe extern "C" fn write<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    at: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let one = iovec { iov_base: buf.cast_mut(), iov_len: len };
    let to = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.write(to, &[one], None, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn writev<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let to = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe {
        let places = match places(iov, count) {
            Ok(places) => places,
            Err(errno) => return errno,
        };
        enter::<SAFE>(ep, |ep| ep.write(to, places, None, context, ep.tx.op_flags))
    }
}

unsafe extern "C" fn writemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some((msg, to)) = target(msg) else { return -FI_EINVAL as isize };
        let places = match places(msg.msg_iov, msg.iov_count) {
            Ok(places) => places,
            Err(errno) => return errno,
        };
        if flags & !SEND_FLAGS != 0 {
            return -FI_EBADFLAGS as isize;
        }
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        enter::<SAFE>(ep, |ep| ep.write(to, places, data, msg.context, flags))
    }
}

/// The one piece of a peer's memory that a message names.
///
/// # Safety
/// Null, or as the headers describe.
unsafe fn target<'a>(msg: *const fi_msg_rma) -> Option<(&'a fi_msg_rma, Remote)> {
    // SAFETY: the caller's promise.
    let (msg, one): (&fi_msg_rma, &fi_rma_iov) = unsafe {
        let msg = msg.as_ref().filter(|msg| msg.rma_iov_count == 1)?;
        (msg, msg.rma_iov.as_ref()?)
    };
    Some((msg, Remote { at: msg.addr, address: one.addr, key: one.key }))
}

unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let to = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject_write(to, buf, len, None)) }
}

unsafe extern "C" fn writedata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    at: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let one = iovec { iov_base: buf.cast_mut(), iov_len: len };
    let to = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.write(to, &[one], Some(data), context, ep.tx.op_flags)) }
}

unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    at: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let to = Remote { at, address, key };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject_write(to, buf, len, Some(data))) }
}
