//! Options, and cancelling.

use super::Endpoint;
use super::operation::Kind;
use crate::abi::constants::{FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV};
use crate::abi::ep::fi_ops_ep;
use crate::abi::errno::{FI_EINVAL, FI_ETOOSMALL};
use crate::abi::fid::fid;
use crate::unsupported;
use std::ffi::{c_int, c_void};

pub static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: unsupported::tx_ctx,
    rx_ctx: unsupported::rx_ctx,
    rx_size_left: unsupported::size_left,
    tx_size_left: unsupported::size_left,
};

/// `fi_cancel`: the receive with this context ends with `FI_ECANCELED`, unless it has its message.
unsafe extern "C" fn cancel(object: *mut fid, context: *mut c_void) -> isize {
    let endpoint: *mut Endpoint = object.cast();
    // SAFETY: an open endpoint.
    unsafe {
        let _guard = (*(*endpoint).domain).lock.take();
        (*endpoint).cancel(context)
    }
}

impl Endpoint {
    fn cancel(&mut self, context: *mut c_void) -> isize {
        let found = self.operations.iter_mut().find(|operation| {
            matches!(operation.kind, Kind::Receive | Kind::Multi)
                && !operation.released
                && operation.context == context
        });
        let Some(operation) = found else { return -(libc::ENOENT as isize) };
        if let Some(request) = operation.request {
            // Where that comes too late, the operation ends as it would have.
            let _ = self.engine.cancel(request);
        }
        0
    }
}

unsafe extern "C" fn getopt(
    object: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    let endpoint: *mut Endpoint = object.cast();
    if level != FI_OPT_ENDPOINT || value.is_null() || len.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: an open endpoint, and `*len` bytes at `value`.
    unsafe {
        let _guard = (*(*endpoint).domain).lock.take();
        let answer = match name {
            FI_OPT_MIN_MULTI_RECV => (*endpoint).min_multi,
            FI_OPT_CM_DATA_SIZE => 0,
            _ => return -libc::ENOPROTOOPT,
        };
        let room = len.replace(size_of::<usize>());
        if room < size_of::<usize>() {
            return -FI_ETOOSMALL;
        }
        value.cast::<usize>().write_unaligned(answer);
    }
    0
}

unsafe extern "C" fn setopt(
    object: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    let endpoint: *mut Endpoint = object.cast();
    if level != FI_OPT_ENDPOINT || value.is_null() {
        return -FI_EINVAL;
    }
    if name != FI_OPT_MIN_MULTI_RECV {
        return -libc::ENOPROTOOPT;
    }
    if len != size_of::<usize>() {
        return -FI_EINVAL;
    }
    // SAFETY: an open endpoint, and a `size_t` at `value`.
    unsafe {
        let _guard = (*(*endpoint).domain).lock.take();
        (*endpoint).min_multi = value.cast::<usize>().read_unaligned();
    }
    0
}
