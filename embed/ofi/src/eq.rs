//! Event queues. Nothing of ours ever happens that they would tell: address vectors answer at once,
//! and there are no connections. Programs open them all the same, and may write events of their own.

use crate::abi::constants::{FI_CLASS_EQ, FI_GETWAIT, FI_WAIT_NONE};
use crate::abi::eq::{fi_eq_attr, fi_eq_err_entry, fi_ops_eq, fid_eq};
use crate::abi::errno::{FI_EAGAIN, FI_EINVAL, FI_ENOSYS, FI_ETOOSMALL};
use crate::abi::fabric::fid_fabric;
use crate::abi::fid::{fi_ops, fid};
use crate::call::answer;
use crate::fabric::Fabric;
use crate::unsupported;
use crate::wait::Wait;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[repr(C)]
struct Eq {
    fid: fid_eq,
    fabric: *mut Fabric,
    written: Mutex<VecDeque<(u32, Vec<u8>)>>,
    news: Condvar,
    /// The descriptor that is readable while there is something, where the program asked for one.
    wait: Option<Arc<Wait>>,
}

static FID: fi_ops = fi_ops { close, control, ..unsupported::FID };

static OPS: fi_ops_eq =
    fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror };

/// `fi_eq_open`.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    answer("fi_eq_open", || {
        let fabric: *mut Fabric = fabric.cast();
        // SAFETY: attributes as in the headers, or none.
        let wait_obj = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
        let made = Eq {
            fid: fid_eq { fid: fid { fclass: FI_CLASS_EQ, context, ops: &FID }, ops: &OPS },
            fabric,
            written: Mutex::default(),
            news: Condvar::new(),
            wait: Wait::asked(wait_obj)?,
        };
        // SAFETY: an open fabric, and a place for the answer.
        unsafe {
            (*fabric).users.fetch_add(1, Relaxed);
            eq.write(Box::into_raw(Box::new(made)).cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(eq)", || {
        // SAFETY: an open event queue, made by `open`.
        unsafe {
            let eq = Box::from_raw(object.cast::<Eq>());
            (*eq.fabric).users.fetch_sub(1, Relaxed);
        }
        Ok(0)
    })
}

/// `FI_GETWAIT`.
unsafe extern "C" fn control(object: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open event queue.
    let eq = unsafe { &*object.cast::<Eq>() };
    match (command, &eq.wait) {
        (FI_GETWAIT, _) if arg.is_null() => -FI_EINVAL,
        (FI_GETWAIT, Some(wait)) => {
            // SAFETY: a place for a descriptor.
            unsafe { arg.cast::<c_int>().write(wait.descriptor()) };
            0
        }
        _ => -FI_ENOSYS,
    }
}

/// Whether a thread may sleep on the queue's descriptor: there is nothing to read.
///
/// # Safety
/// An open event queue.
pub unsafe fn try_wait(object: *mut fid) -> bool {
    // SAFETY: the caller's promise.
    let eq = unsafe { &*object.cast::<Eq>() };
    eq.written.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { sread(eq, event, buf, len, 0, flags) }
}

/// `timeout` in milliseconds, negative for ever.
unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // `FI_PEEK` leaves the event where it is.
    let peek = flags & crate::abi::constants::FI_PEEK != 0;
    // SAFETY: an open event queue.
    let eq = unsafe { &*eq.cast::<Eq>() };
    let deadline = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut written = eq.written.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some((number, bytes)) = written.front() {
            if bytes.len() > len {
                return -FI_ETOOSMALL as isize;
            }
            // SAFETY: the caller has `len` bytes at `buf`.
            unsafe {
                event.write(*number);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len());
            }
            let count = bytes.len() as isize;
            if !peek {
                written.pop_front();
            }
            if let Some(wait) = eq.wait.as_ref().filter(|_| written.is_empty()) {
                wait.silence();
            }
            return count;
        }
        let left = match deadline {
            None => Duration::from_secs(3600),
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return -FI_EAGAIN as isize,
                Some(left) => left,
            },
        };
        written = eq.news.wait_timeout(written, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut fi_eq_err_entry, _: u64) -> isize {
    -FI_EAGAIN as isize
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    _flags: u64,
) -> isize {
    if buf.is_null() && len > 0 {
        return -FI_EINVAL as isize;
    }
    // SAFETY: an open event queue, and `len` bytes at `buf`.
    let (eq, bytes) = unsafe {
        let bytes = if len == 0 {
            Vec::new()
        } else {
            std::slice::from_raw_parts(buf.cast(), len).to_vec()
        };
        (&*eq.cast::<Eq>(), bytes)
    };
    let mut written = eq.written.lock().unwrap_or_else(PoisonError::into_inner);
    written.push_back((event, bytes));
    if let Some(wait) = &eq.wait {
        wait.ring();
    }
    drop(written);
    eq.news.notify_one();
    len as isize
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    c"no error".as_ptr()
}
