//! The address of an endpoint.

use super::Endpoint;
use crate::abi::cm::fi_ops_cm;
use crate::abi::errno::{FI_EIO, FI_ETOOSMALL};
use crate::abi::fid::fid;
use crate::av::padded;
use crate::call::{Refusal, answer};
use crate::domain::given;
use crate::info::ADDRESS;
use crate::unsupported;
use std::ffi::{c_int, c_void};

pub static OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: unsupported::setname,
    getname,
    getpeer: unsupported::getpeer,
    connect: unsupported::connect,
    listen: unsupported::listen,
    accept: unsupported::accept,
    reject: unsupported::reject,
    shutdown: unsupported::shutdown,
    join: unsupported::join,
};

/// `fi_getname`: writes as much as there is room for, and how much it would be.
unsafe extern "C" fn getname(object: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    answer("fi_getname", || {
        let endpoint: *mut Endpoint = object.cast();
        let room = *given(len, "addrlen")?;
        // SAFETY: an open endpoint, and `room` bytes at `addr`.
        unsafe {
            let _guard = (*(*endpoint).domain).lock.take();
            let text = (*endpoint).engine.address();
            let address = padded(text).ok_or_else(|| {
                Refusal::new(FI_EIO, format!("the address {text:?} is longer than {ADDRESS} bytes"))
            })?;
            len.write(ADDRESS);
            std::ptr::copy_nonoverlapping(address.as_ptr(), addr.cast(), room.min(ADDRESS));
        }
        // Asking for the length in this way is common, and no refusal.
        Ok(if room < ADDRESS { -FI_ETOOSMALL } else { 0 })
    })
}
