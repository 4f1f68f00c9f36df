//! Access to the memory of peers, without their help.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::memory::taffrail_buffer_t;
use crate::names::taffrail_request_t;
use crate::opening::{checked, taffrail_t};
use crate::sending::{bytes, room};
use std::ffi::c_void;
use taffrail::{Endpoint, RegionId, RemoteMemory, Request};
use taffrail_code_t::TAFFRAIL_OK;

/// Bytes of a key.
pub const TAFFRAIL_KEY_LEN: usize = 88;

const _: () = assert!(TAFFRAIL_KEY_LEN == RemoteMemory::ENCODED);

/// What a peer must have to reach memory of this rank: plain bytes, to be sent as one likes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct taffrail_key_t {
    /// What they mean is the library's business.
    pub bytes: [u8; TAFFRAIL_KEY_LEN],
}

/// Registers memory, so that peers may reach it. What names it is stored in `*region`.
///
/// # Safety
/// `t` is open; `*region` is writable; `len` bytes at `at` stay valid until taffrail_deregister(), and
/// peers that have a key may read and write them at any time until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_register(
    t: *mut taffrail_t,
    at: *mut c_void,
    len: usize,
    region: *mut u32,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        if at.is_null() || region.is_null() {
            return Err(Failure::null("the memory, or the place for the region,"));
        }
        region.write(endpoint.register(at.cast(), len)?.0);
        Ok(TAFFRAIL_OK)
    })
}

/// Ends a registration.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_deregister(t: *mut taffrail_t, region: u32) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        checked(t)?.deregister(RegionId(region))?;
        Ok(TAFFRAIL_OK)
    })
}

/// What `rank` needs to reach registered memory.
///
/// # Safety
/// `t` is open; `*key` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_key(
    t: *mut taffrail_t,
    rank: u32,
    region: u32,
    key: *mut taffrail_key_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let memory = checked(t)?.remote_memory(rank, RegionId(region))?;
        store(key, memory)
    })
}

/// What `rank` needs to reach a buffer.
///
/// # Safety
/// `t` is open; `*key` is writable; `buffer` was allocated, and as long as the peer uses the key it is
/// not freed or lent, and is read or written here only when messages have made sure that the peer does
/// not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_buffer_key(
    t: *mut taffrail_t,
    rank: u32,
    buffer: *const taffrail_buffer_t,
    key: *mut taffrail_key_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let buffer = buffer.as_ref().ok_or_else(|| Failure::null("the buffer"))?;
        let memory = endpoint.remote_buffer(rank, &buffer.buffer)?;
        store(key, memory)
    })
}

/// Reads `len` bytes of memory of `rank`, beginning `offset` bytes in, and returns when they are here.
///
/// # Safety
/// `t` is open; `key` points to a key that `rank` has made for this rank, of memory that is still
/// there; `len` bytes at `into` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_get(
    t: *mut taffrail_t,
    rank: u32,
    key: *const taffrail_key_t,
    offset: u64,
    into: *mut c_void,
    len: usize,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        checked(t)?.get(rank, &memory(key)?, offset, room(into, len)?)?;
        Ok(TAFFRAIL_OK)
    })
}

/// Writes `len` bytes to memory of `rank`, beginning `offset` bytes in, and returns when they are
/// there.
///
/// # Safety
/// As taffrail_get(); `len` bytes at `data` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_put(
    t: *mut taffrail_t,
    rank: u32,
    key: *const taffrail_key_t,
    offset: u64,
    data: *const c_void,
    len: usize,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        checked(t)?.put(rank, &memory(key)?, offset, bytes(data, len)?)?;
        Ok(TAFFRAIL_OK)
    })
}

/// Starts a taffrail_get().
///
/// # Safety
/// As taffrail_get(); the bytes at `into` stay writable, and are used by nobody else, until the
/// operation is over. `*request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_iget(
    t: *mut taffrail_t,
    rank: u32,
    key: *const taffrail_key_t,
    offset: u64,
    into: *mut c_void,
    len: usize,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    unsafe {
        start(t, key, request, |endpoint, memory| {
            let into = room(into, len)?;
            Ok(endpoint.iget_raw(rank, memory, offset, into.as_mut_ptr(), len)?)
        })
    }
}

/// Starts a taffrail_put().
///
/// # Safety
/// As taffrail_put(); the bytes at `data` stay readable and unchanged until the operation is over.
/// `*request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_iput(
    t: *mut taffrail_t,
    rank: u32,
    key: *const taffrail_key_t,
    offset: u64,
    data: *const c_void,
    len: usize,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    unsafe {
        start(t, key, request, |endpoint, memory| {
            let data = bytes(data, len)?;
            Ok(endpoint.iput_raw(rank, memory, offset, data.as_ptr(), len)?)
        })
    }
}

/// Starts an access.
///
/// # Safety
/// `t` is null or open; `key` is null or points to a key; `request` is null or writable.
unsafe fn start(
    t: *mut taffrail_t,
    key: *const taffrail_key_t,
    request: *mut taffrail_request_t,
    access: impl FnOnce(&mut Endpoint, &RemoteMemory) -> Result<Request, Failure>,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let request = request.as_mut().ok_or_else(|| Failure::null("the place for the request"))?;
        *request = access(endpoint, &memory(key)?)?.into();
        Ok(TAFFRAIL_OK)
    })
}

/// # Safety
/// `key` is null or points to a key.
unsafe fn memory(key: *const taffrail_key_t) -> Result<RemoteMemory, Failure> {
    // SAFETY: the caller's promise.
    let key = unsafe { key.as_ref() }.ok_or_else(|| Failure::null("the key"))?;
    Ok(RemoteMemory::from_bytes(&key.bytes))
}

/// # Safety
/// `key` is null or writable.
unsafe fn store(
    key: *mut taffrail_key_t,
    memory: RemoteMemory,
) -> Result<taffrail_code_t, Failure> {
    if key.is_null() {
        return Err(Failure::null("the place for the key"));
    }
    // SAFETY: the caller's promise.
    unsafe { key.write(taffrail_key_t { bytes: memory.to_bytes() }) };
    Ok(TAFFRAIL_OK)
}
