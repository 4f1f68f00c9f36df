//! Registered memory.

use super::c_struct;
use super::fid::fid;
use libc::iovec;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_ops_mr {
        size: usize,
        reg: unsafe extern "C" fn(
            *mut fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void,
        ) -> c_int,
        regv: unsafe extern "C" fn(
            *mut fid, *const iovec, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void,
        ) -> c_int,
        regattr: unsafe extern "C" fn(
            *mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr,
        ) -> c_int,
    }
}

c_struct! {
    fid_mr {
        fid: fid,
        mem_desc: *mut c_void,
        key: u64,
    }
}

c_struct! {
    fi_mr_attr {
        mr_iov: *const iovec,
        iov_count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        context: *mut c_void,
        auth_key_size: usize,
        auth_key: *mut u8,
        iface: u32,
        device: u64,
    }
}
