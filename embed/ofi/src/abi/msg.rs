//! Messages without tags.

use super::ep::fid_ep;
use super::{c_struct, fi_addr_t};
use libc::iovec;
use std::ffi::c_void;

c_struct! {
    fi_msg {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: fi_addr_t,
        context: *mut c_void,
        data: u64,
    }
}

c_struct! {
    fi_ops_msg {
        size: usize,
        recv: unsafe extern "C" fn(
            *mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void,
        ) -> isize,
        recvv: unsafe extern "C" fn(
            *mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, *mut c_void,
        ) -> isize,
        recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
        send: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void,
        ) -> isize,
        sendv: unsafe extern "C" fn(
            *mut fid_ep, *const iovec, *mut *mut c_void, usize, fi_addr_t, *mut c_void,
        ) -> isize,
        sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize,
        senddata: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, *mut c_void,
        ) -> isize,
        injectdata: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, u64, fi_addr_t,
        ) -> isize,
    }
}
