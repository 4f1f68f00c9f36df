//! Event queues.

use super::c_struct;
use super::fid::fid;
use std::ffi::{c_char, c_int, c_void};

c_struct! {
    fi_eq_attr {
        size: usize,
        flags: u64,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_set: *mut c_void,
    }
}

c_struct! {
    fi_ops_eq {
        size: usize,
        read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize,
        readerr: unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> isize,
        write: unsafe extern "C" fn(*mut fid_eq, u32, *const c_void, usize, u64) -> isize,
        sread: unsafe extern "C" fn(
            *mut fid_eq, *mut u32, *mut c_void, usize, c_int, u64,
        ) -> isize,
        strerror: unsafe extern "C" fn(
            *mut fid_eq, c_int, *const c_void, *mut c_char, usize,
        ) -> *const c_char,
    }
}

c_struct! {
    fid_eq {
        fid: fid,
        ops: *const fi_ops_eq,
    }
}

c_struct! {
    fi_eq_err_entry {
        fid: *mut fid,
        context: *mut c_void,
        data: u64,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
}
