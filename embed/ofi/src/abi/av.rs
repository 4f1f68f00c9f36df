//! Address vectors.

use super::fid::fid;
use super::{c_struct, fi_addr_t};
use std::ffi::{c_char, c_int, c_void};

c_struct! {
    fi_av_attr {
        r#type: u32,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
}

c_struct! {
    fi_ops_av {
        size: usize,
        insert: unsafe extern "C" fn(
            *mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void,
        ) -> c_int,
        insertsvc: unsafe extern "C" fn(
            *mut fid_av, *const c_char, *const c_char, *mut fi_addr_t, u64, *mut c_void,
        ) -> c_int,
        insertsym: unsafe extern "C" fn(
            *mut fid_av, *const c_char, usize, *const c_char, usize, *mut fi_addr_t, u64, *mut c_void,
        ) -> c_int,
        remove: unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int,
        lookup: unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int,
        straddr: unsafe extern "C" fn(
            *mut fid_av, *const c_void, *mut c_char, *mut usize,
        ) -> *const c_char,
        av_set: unsafe extern "C" fn(
            *mut fid_av, *mut c_void, *mut *mut c_void, *mut c_void,
        ) -> c_int,
    }
}

c_struct! {
    fid_av {
        fid: fid,
        ops: *const fi_ops_av,
    }
}
