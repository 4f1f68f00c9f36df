//! Completion queues.

use super::fid::fid;
use super::{c_struct, fi_addr_t};
use std::ffi::{c_char, c_int, c_void};

c_struct! {
    fi_cq_attr {
        size: usize,
        flags: u64,
        format: u32,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_cond: u32,
        wait_set: *mut c_void,
    }
}

c_struct! {
    fi_ops_cq {
        size: usize,
        read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
        readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> isize,
        readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
        sread: unsafe extern "C" fn(
            *mut fid_cq, *mut c_void, usize, *const c_void, c_int,
        ) -> isize,
        sreadfrom: unsafe extern "C" fn(
            *mut fid_cq, *mut c_void, usize, *mut fi_addr_t, *const c_void, c_int,
        ) -> isize,
        signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
        strerror: unsafe extern "C" fn(
            *mut fid_cq, c_int, *const c_void, *mut c_char, usize,
        ) -> *const c_char,
    }
}

c_struct! {
    fid_cq {
        fid: fid,
        ops: *const fi_ops_cq,
    }
}

c_struct! {
    fi_cq_entry {
        op_context: *mut c_void,
    }
}

c_struct! {
    fi_cq_msg_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
    }
}

c_struct! {
    fi_cq_data_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
    }
}

c_struct! {
    fi_cq_tagged_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
    }
}

c_struct! {
    fi_cq_err_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
}
