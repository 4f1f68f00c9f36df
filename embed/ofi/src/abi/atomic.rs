//! Atomic operations on memory of peers. None is offered; the table is there to say so.

use super::ep::fid_ep;
use super::{c_struct, fi_addr_t};
use std::ffi::{c_int, c_void};

/// `struct fi_ioc *` and `struct fi_msg_atomic *`, into which nobody looks.
pub type Opaque = *const c_void;

c_struct! {
    fi_ops_atomic {
        size: usize,
        write: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, fi_addr_t, u64, u64, u32, u32, *mut c_void,
        ) -> isize,
        writev: unsafe extern "C" fn(
            *mut fid_ep, Opaque, *mut *mut c_void, usize, fi_addr_t, u64, u64, u32, u32, *mut c_void,
        ) -> isize,
        writemsg: unsafe extern "C" fn(*mut fid_ep, Opaque, u64) -> isize,
        inject: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, fi_addr_t, u64, u64, u32, u32,
        ) -> isize,
        readwrite: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u64, u64,
            u32, u32, *mut c_void,
        ) -> isize,
        readwritev: unsafe extern "C" fn(
            *mut fid_ep, Opaque, *mut *mut c_void, usize, Opaque, *mut *mut c_void, usize, fi_addr_t,
            u64, u64, u32, u32, *mut c_void,
        ) -> isize,
        readwritemsg: unsafe extern "C" fn(
            *mut fid_ep, Opaque, Opaque, *mut *mut c_void, usize, u64,
        ) -> isize,
        compwrite: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, Opaque, *mut c_void, *mut c_void, *mut c_void,
            fi_addr_t, u64, u64, u32, u32, *mut c_void,
        ) -> isize,
        compwritev: unsafe extern "C" fn(
            *mut fid_ep, Opaque, *mut *mut c_void, usize, Opaque, *mut *mut c_void, usize, Opaque,
            *mut *mut c_void, usize, fi_addr_t, u64, u64, u32, u32, *mut c_void,
        ) -> isize,
        compwritemsg: unsafe extern "C" fn(
            *mut fid_ep, Opaque, Opaque, *mut *mut c_void, usize, Opaque, *mut *mut c_void, usize,
            u64,
        ) -> isize,
        writevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
        readwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
        compwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
    }
}
