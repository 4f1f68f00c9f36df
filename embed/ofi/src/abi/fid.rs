//! The head of every object.

use super::c_struct;
use std::ffi::{c_char, c_int, c_void};

c_struct! {
    fi_ops {
        size: usize,
        close: unsafe extern "C" fn(*mut fid) -> c_int,
        bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
        ops_open: unsafe extern "C" fn(
            *mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void,
        ) -> c_int,
        tostr: unsafe extern "C" fn(*const fid, *mut c_char, usize) -> c_int,
        ops_set: unsafe extern "C" fn(
            *mut fid, *const c_char, u64, *mut c_void, *mut c_void,
        ) -> c_int,
    }
}

c_struct! {
    fid {
        fclass: usize,
        context: *mut c_void,
        ops: *const fi_ops,
    }
}

c_struct! {
    fi_context {
        internal: [*mut c_void; 4],
    }
}
