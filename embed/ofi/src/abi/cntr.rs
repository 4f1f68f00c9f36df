//! Counters.

use super::c_struct;
use super::fid::fid;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_cntr_attr {
        events: u32,
        wait_obj: u32,
        wait_set: *mut c_void,
        flags: u64,
    }
}

c_struct! {
    fi_ops_cntr {
        size: usize,
        read: unsafe extern "C" fn(*mut fid_cntr) -> u64,
        readerr: unsafe extern "C" fn(*mut fid_cntr) -> u64,
        add: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        set: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        wait: unsafe extern "C" fn(*mut fid_cntr, u64, c_int) -> c_int,
        adderr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        seterr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    }
}

c_struct! {
    fid_cntr {
        fid: fid,
        ops: *const fi_ops_cntr,
    }
}
