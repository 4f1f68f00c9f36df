//! Domains.

use super::atomic::fi_atomic_attr;
use super::av::{fi_av_attr, fid_av};
use super::c_struct;
use super::cntr::{fi_cntr_attr, fid_cntr};
use super::cq::{fi_cq_attr, fid_cq};
use super::ep::fid_ep;
use super::fid::fid;
use super::info::{fi_info, fi_rx_attr, fi_tx_attr};
use super::mr::fi_ops_mr;
use std::ffi::{c_int, c_void};

c_struct! {
    fi_ops_domain {
        size: usize,
        av_open: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void,
        ) -> c_int,
        cq_open: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void,
        ) -> c_int,
        endpoint: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void,
        ) -> c_int,
        scalable_ep: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void,
        ) -> c_int,
        cntr_open: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void,
        ) -> c_int,
        poll_open: unsafe extern "C" fn(*mut fid_domain, *mut c_void, *mut *mut c_void) -> c_int,
        stx_ctx: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_tx_attr, *mut *mut c_void, *mut c_void,
        ) -> c_int,
        srx_ctx: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void,
        ) -> c_int,
        query_atomic: unsafe extern "C" fn(
            *mut fid_domain, u32, u32, *mut fi_atomic_attr, u64,
        ) -> c_int,
        query_collective: unsafe extern "C" fn(*mut fid_domain, u32, *mut c_void, u64) -> c_int,
        endpoint2: unsafe extern "C" fn(
            *mut fid_domain, *mut fi_info, *mut *mut fid_ep, u64, *mut c_void,
        ) -> c_int,
    }
}

c_struct! {
    fid_domain {
        fid: fid,
        ops: *const fi_ops_domain,
        mr: *const fi_ops_mr,
    }
}
