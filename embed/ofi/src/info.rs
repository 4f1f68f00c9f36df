//! What is offered, and to whom.

mod hints;
mod offer;
mod parts;

use crate::abi::constants::FI_PROV_SPECIFIC;
use crate::abi::info::fi_info;
use crate::call::answer;
use std::ffi::{c_char, c_int};

pub use offer::{ERROR_DATA, INJECT, IOV, RX_FLAGS, TX_FLAGS};

/// Bytes of an address: the text that an endpoint gives, filled up with zeros.
pub const ADDRESS: usize = 64;
/// The format of such an address.
pub const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x7af;

/// Immediate data beside a message, in bytes.
pub const DATA_SIZE: usize = 4;

/// `fi_getinfo`. A node and a service are not looked at: addresses come from `fi_getname` only.
pub unsafe extern "C" fn getinfo(
    version: u32,
    _node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    answer("fi_getinfo", || {
        // SAFETY: a program without hints gives null; others give what is laid out as in the headers.
        let wish = unsafe { hints::Wish::read(version, hints) };
        wish.check(flags)?;
        // SAFETY: the caller's place for the answer.
        unsafe { info.write(offer::to(&wish)?) };
        Ok(0)
    })
}
