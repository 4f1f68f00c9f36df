//! Endpoints.

use super::atomic::fi_ops_atomic;
use super::c_struct;
use super::cm::fi_ops_cm;
use super::collective::fi_ops_collective;
use super::fid::fid;
use super::info::{fi_rx_attr, fi_tx_attr};
use super::msg::fi_ops_msg;
use super::rma::fi_ops_rma;
use super::tagged::fi_ops_tagged;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_ops_ep {
        size: usize,
        cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> isize,
        getopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
        setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int,
        tx_ctx: unsafe extern "C" fn(
            *mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void,
        ) -> c_int,
        rx_ctx: unsafe extern "C" fn(
            *mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void,
        ) -> c_int,
        rx_size_left: unsafe extern "C" fn(*mut fid_ep) -> isize,
        tx_size_left: unsafe extern "C" fn(*mut fid_ep) -> isize,
    }
}

c_struct! {
    fid_ep {
        fid: fid,
        ops: *const fi_ops_ep,
        cm: *const fi_ops_cm,
        msg: *const fi_ops_msg,
        rma: *const fi_ops_rma,
        tagged: *const fi_ops_tagged,
        atomic: *const fi_ops_atomic,
        collective: *const fi_ops_collective,
    }
}
