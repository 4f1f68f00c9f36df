//! What libfabric asks of the library itself.

use super::c_struct;
use super::fabric::fid_fabric;
use super::fid::fi_context;
use super::info::{fi_fabric_attr, fi_info};
use std::ffi::{c_char, c_int, c_void};

c_struct! {
    fi_provider {
        version: u32,
        fi_version: u32,
        context: fi_context,
        name: *const c_char,
        getinfo: unsafe extern "C" fn(
            u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info,
        ) -> c_int,
        fabric: unsafe extern "C" fn(
            *mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void,
        ) -> c_int,
        cleanup: extern "C" fn(),
    }
}
