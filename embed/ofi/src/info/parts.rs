//! Memory of an answer to `fi_getinfo`, which libfabric frees.

use crate::abi::errno::{FI_EINVAL, FI_ENOMEM};
use crate::abi::info::*;
use crate::av::{Address, padded};
use crate::call::Refusal;
use std::ffi::{CStr, c_char, c_void};

/// Later versions of libfabric have longer structures: each part is zeroed, and has room for as much
/// again as its structure has now.
fn part<T>() -> Result<*mut T, Refusal> {
    // SAFETY: a size that is not zero.
    let at = unsafe { libc::calloc(1, 2 * size_of::<T>() + 256) };
    if at.is_null() { Err(no_memory()) } else { Ok(at.cast()) }
}

/// A copy of a name.
pub fn text(name: &CStr) -> Result<*mut c_char, Refusal> {
    // SAFETY: the name ends with a zero.
    let copy = unsafe { libc::strdup(name.as_ptr()) };
    if copy.is_null() { Err(no_memory()) } else { Ok(copy) }
}

/// The bytes of an address.
pub fn address(text: &str) -> Result<*mut c_void, Refusal> {
    let bytes =
        padded(text).ok_or_else(|| Refusal::new(FI_EINVAL, "an address that is too long"))?;
    // SAFETY: a size that is not zero.
    let at = unsafe { libc::malloc(bytes.len()) };
    if at.is_null() {
        return Err(no_memory());
    }
    // SAFETY: memory of that size.
    unsafe { at.cast::<Address>().write(bytes) };
    Ok(at)
}

/// An empty `fi_info` with all its parts, each of which is freed by its own.
pub fn allocate() -> Result<*mut fi_info, Refusal> {
    let info: *mut fi_info = part()?;
    // SAFETY: the pointer is to zeroed memory of that structure. Where a later part cannot be had,
    // those before it are lost, as the process is.
    unsafe {
        (*info).tx_attr = part()?;
        (*info).rx_attr = part()?;
        (*info).ep_attr = part()?;
        (*info).domain_attr = part()?;
        (*info).fabric_attr = part()?;
    }
    Ok(info)
}

fn no_memory() -> Refusal {
    Refusal::new(FI_ENOMEM, "no memory for the answer")
}
