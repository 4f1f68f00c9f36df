//! Access to registered memory of peers.

use super::ep::fid_ep;
use super::{c_struct, fi_addr_t};
use libc::iovec;
use std::ffi::c_void;

c_struct! {
    fi_rma_iov {
        addr: u64,
        len: usize,
        key: u64,
    }
}

c_struct! {
    fi_msg_rma {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: fi_addr_t,
        rma_iov: *const fi_rma_iov,
        rma_iov_count: usize,
        context: *mut c_void,
        data: u64,
    }
}

c_struct! {
    fi_ops_rma {
        size: usize,
        read: unsafe extern "C" fn(
            *mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void,
        ) -> isize,
        readv: unsafe extern "C" fn(
            *mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64, *mut c_void,
        ) -> isize,
        readmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
        write: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void,
        ) -> isize,
        writev: unsafe extern "C" fn(
            *mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64, *mut c_void,
        ) -> isize,
        writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
        inject: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64,
        ) -> isize,
        writedata: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64, u64, *mut c_void,
        ) -> isize,
        injectdata: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64, u64,
        ) -> isize,
    }
}
