//! Collective operations of the fabric. None is offered; the table is there to say so.

use super::ep::fid_ep;
use super::{c_struct, fi_addr_t};
use std::ffi::c_void;

/// `struct fi_ioc *` and the like, into which nobody looks.
pub type Opaque = *const c_void;

c_struct! {
    fi_ops_collective {
        size: usize,
        barrier: unsafe extern "C" fn(*mut fid_ep, fi_addr_t, *mut c_void) -> isize,
        broadcast: unsafe extern "C" fn(
            *mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, fi_addr_t, u32, u64, *mut c_void,
        ) -> isize,
        alltoall: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u64,
            *mut c_void,
        ) -> isize,
        allreduce: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u32,
            u64, *mut c_void,
        ) -> isize,
        allgather: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u64,
            *mut c_void,
        ) -> isize,
        reduce_scatter: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u32,
            u64, *mut c_void,
        ) -> isize,
        reduce: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t,
            u32, u32, u64, *mut c_void,
        ) -> isize,
        scatter: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t,
            u32, u64, *mut c_void,
        ) -> isize,
        gather: unsafe extern "C" fn(
            *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t,
            u32, u64, *mut c_void,
        ) -> isize,
        msg: unsafe extern "C" fn(
            *mut fid_ep, Opaque, Opaque, *mut *mut c_void, usize, u64,
        ) -> isize,
        barrier2: unsafe extern "C" fn(*mut fid_ep, fi_addr_t, u64, *mut c_void) -> isize,
    }
}
