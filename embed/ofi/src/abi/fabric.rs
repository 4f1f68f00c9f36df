//! Fabrics.

use super::c_struct;
use super::domain::fid_domain;
use super::eq::{fi_eq_attr, fid_eq};
use super::fid::fid;
use super::info::fi_info;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_ops_fabric {
        size: usize,
        domain: unsafe extern "C" fn(
            *mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void,
        ) -> c_int,
        passive_ep: unsafe extern "C" fn(
            *mut fid_fabric, *mut fi_info, *mut *mut c_void, *mut c_void,
        ) -> c_int,
        eq_open: unsafe extern "C" fn(
            *mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void,
        ) -> c_int,
        wait_open: unsafe extern "C" fn(*mut fid_fabric, *mut c_void, *mut *mut c_void) -> c_int,
        trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
        domain2: unsafe extern "C" fn(
            *mut fid_fabric, *mut fi_info, *mut *mut fid_domain, u64, *mut c_void,
        ) -> c_int,
    }
}

c_struct! {
    fid_fabric {
        fid: fid,
        ops: *const fi_ops_fabric,
        api_version: u32,
    }
}
