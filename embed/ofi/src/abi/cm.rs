//! Names of endpoints, and connections.

use super::c_struct;
use super::ep::fid_ep;
use super::fid::fid;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_ops_cm {
        size: usize,
        setname: unsafe extern "C" fn(*mut fid, *mut c_void, usize) -> c_int,
        getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
        getpeer: unsafe extern "C" fn(*mut fid_ep, *mut c_void, *mut usize) -> c_int,
        connect: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, *const c_void, usize,
        ) -> c_int,
        listen: unsafe extern "C" fn(*mut c_void) -> c_int,
        accept: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize) -> c_int,
        reject: unsafe extern "C" fn(*mut c_void, *mut fid, *const c_void, usize) -> c_int,
        shutdown: unsafe extern "C" fn(*mut fid_ep, u64) -> c_int,
        join: unsafe extern "C" fn(
            *mut fid_ep, *const c_void, u64, *mut *mut c_void, *mut c_void,
        ) -> c_int,
    }
}
