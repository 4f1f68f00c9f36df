//! Reading a completion queue.

use super::{Cq, Entry};
use crate::abi::cq::{fi_cq_err_entry, fid_cq};
use crate::abi::errno::*;
use crate::abi::fi_addr_t;
use crate::call::meaning;
use crate::endpoint::Endpoint;
use crate::lock::SHARED;
use crate::wait::until;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

/// The endpoint to make progress with next, unless there are enough entries.
///
/// # Safety
/// An open queue, and the lock.
#[inline(always)]
unsafe fn more(cq: *const Cq, index: usize, count: usize) -> Option<*mut Endpoint> {
    // SAFETY: the caller's promise.
    let cq = unsafe { &*cq };
    if cq.ready.len() >= count.max(1) { None } else { cq.bound.get(index) }
}

/// Makes progress until `count` entries are there or nothing more ends, and takes them out.
///
/// # Safety
/// An open queue, the lock, and room for `count` entries (and sources, if these are wanted).
#[inline(always)]
unsafe fn take<const SAFE: bool>(
    cq: *mut Cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> isize {
    // SAFETY: the caller's promise. Endpoints write to the queue, so no reference to it lives while
    // they make progress.
    unsafe {
        // Nobody else is to wait for the lock meanwhile.
        let turns = if SAFE { 1 } else { (*cq).turns() };
        let mut index = 0;
        while let Some(endpoint) = more(cq, index, count) {
            if let Err(errno) = (*endpoint).advance(count.max(1), turns) {
                return -errno as isize;
            }
            index += 1;
        }
        let (queue, cq) = (cq, &mut *cq);
        let mut taken = 0;
        while taken < count {
            match cq.ready.front() {
                Some(entry) if !entry.is_failure() => {
                    cq.format.write(buf, taken, entry);
                    if !sources.is_null() {
                        sources.add(taken).write(entry.source);
                    }
                    cq.ready.pop_front();
                    taken += 1;
                }
                Some(_) if taken == 0 => return failed(queue),
                _ => break,
            }
        }
        if taken == 0 {
            if count == 0 && !cq.ready.is_empty() {
                return nothing_asked_for(cq);
            }
            if let Some(since) = cq.patience.found_nothing(|| cq.bound.happened()) {
                cq.bound.waits_since(since);
            }
            return -FI_EAGAIN as isize;
        }
        cq.patience.found_something();
        taken as isize
    }
}

/// What is answered while a failure is next. Each read makes progress, this one too: a program that
/// looks for a message until there is one (`FI_PEEK`) reads nothing but failures.
///
/// # Safety
/// An open queue, and the lock.
#[cold]
unsafe fn failed(cq: *mut Cq) -> isize {
    // SAFETY: the caller's promise. No reference to the queue lives while endpoints write to it.
    unsafe {
        let mut index = 0;
        while let Some(endpoint) = (&*cq).bound.get(index) {
            // A broken endpoint has said so, and the next reads return its errors.
            let _ = (*endpoint).advance(1, 1);
            index += 1;
        }
    }
    -FI_EAVAIL as isize
}

/// What is answered to a program that asks for no entry while there are some.
#[cold]
fn nothing_asked_for(cq: &Cq) -> isize {
    let failed = cq.ready.front().is_some_and(Entry::is_failure);
    if failed { -FI_EAVAIL as isize } else { 0 }
}

pub unsafe extern "C" fn read<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
) -> isize {
    let cq: *mut Cq = cq.cast();
    // SAFETY: the caller's promise.
    unsafe {
        let _guard = (*(*cq).domain).lock.hold::<SAFE>();
        take::<SAFE>(cq, buf, count, null_mut())
    }
}

pub unsafe extern "C" fn readfrom<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> isize {
    let cq: *mut Cq = cq.cast();
    // SAFETY: the caller's promise.
    unsafe {
        let _guard = (*(*cq).domain).lock.hold::<SAFE>();
        take::<SAFE>(cq, buf, count, sources)
    }
}

/// The failure that is next in the queue.
#[expect(clippy::expect_used, reason = "an entry of the queue stands for each failure")]
pub unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _: u64) -> isize {
    let cq: *mut Cq = cq.cast();
    // SAFETY: an open queue, and a place for the entry.
    unsafe {
        let _guard = (*(*cq).domain).lock.take();
        let api = (*(*cq).domain).api_version();
        let cq = &mut *cq;
        if !cq.ready.front().is_some_and(|entry| entry.is_failure()) {
            return -FI_EAGAIN as isize;
        }
        cq.ready.pop_front();
        let failure = cq.failures.pop_front().expect("an entry stands for each failure");
        cq.last_failure = (failure.errno, CString::new(failure.why.as_str()).unwrap_or_default());
        failure.write(buf, api, &cq.last_failure.1);
    }
    1
}

pub unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { sreadfrom(cq, buf, count, null_mut(), cond, timeout) }
}

/// `timeout` in milliseconds, negative for ever. The lock is not held while the thread sleeps.
pub unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let cq: *mut Cq = cq.cast();
    // SAFETY: an open queue, and room for the entries.
    unsafe {
        let wait = (*cq).bound.wait.clone();
        let domain = (*cq).domain;
        let look = || {
            let _guard = (*domain).lock.take();
            let taken = take::<SHARED>(cq, buf, count, sources);
            (taken != -FI_EAGAIN as isize).then_some(taken)
        };
        let arm = || {
            let _guard = (*domain).lock.take();
            (*cq).patience.sleeps();
            (*cq).ready.is_empty() && (*cq).bound.arm()
        };
        until(wait.as_deref(), timeout, true, look, arm).unwrap_or_else(|errno| errno as isize)
    }
}

pub unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    let cq: *mut Cq = cq.cast();
    // SAFETY: an open queue; its wait object never changes.
    match unsafe { &(*cq).bound.wait } {
        Some(wait) => {
            wait.call_off();
            0
        }
        None => -FI_EINVAL,
    }
}

/// What the failure was that was read last, if it had this number; else what the number means.
pub unsafe extern "C" fn strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let cq: *mut Cq = cq.cast();
    // SAFETY: an open queue, and `len` bytes at `buf`, if any.
    unsafe {
        let _guard = (*(*cq).domain).lock.take();
        let (errno, why) = &(*cq).last_failure;
        let text = if *errno == prov_errno { why } else { meaning(prov_errno) };
        if !buf.is_null() && len > 0 {
            let bytes = text.to_bytes();
            let part = bytes.len().min(len - 1);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buf, part);
            buf.add(part).write(0);
        }
        text.as_ptr()
    }
}
