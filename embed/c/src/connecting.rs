//! Addresses, and peers that are found by them.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::opening::{checked, taffrail_t};
use std::ffi::{CStr, c_char};
use taffrail::Error;
use taffrail_code_t::{TAFFRAIL_OK, TAFFRAIL_PENDING};

/// Room for an address and the zero behind it, in bytes.
pub const TAFFRAIL_ADDRESS_SIZE: usize = 64;

/// Where a rank, such as this one, is found by other processes of the same user: a text without spaces,
/// to be told to them as one likes.
///
/// # Safety
/// `t` is open; TAFFRAIL_ADDRESS_SIZE bytes at `address` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_address(
    t: *mut taffrail_t,
    rank: u32,
    address: *mut c_char,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        if address.is_null() {
            return Err(Failure::null("the place for the address"));
        }
        let found = match rank == endpoint.rank() {
            true => Some(endpoint.address()),
            false => endpoint.peer_address(rank),
        };
        let found = found.ok_or(Error::NoSuchRank { rank, size: endpoint.size() })?.as_bytes();
        assert!(found.len() < TAFFRAIL_ADDRESS_SIZE, "an address of {} bytes", found.len());
        address.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len());
        address.add(found.len()).write(0);
        Ok(TAFFRAIL_OK)
    })
}

/// The rank of the endpoint with this address; the same one each time. It is connected with while this
/// endpoint and that one make progress: messages to it wait until then. It may also be there already,
/// since it has connected by itself: taffrail_address() tells who has sent something.
///
/// # Safety
/// `t` is open; `address` is a text that ends with a zero; `*rank` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_connect(
    t: *mut taffrail_t,
    address: *const c_char,
    rank: *mut u32,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        if address.is_null() || rank.is_null() {
            return Err(Failure::null("the address, or the place for the rank,"));
        }
        let address = CStr::from_ptr(address).to_string_lossy();
        rank.write(endpoint.connect(&address)?);
        Ok(TAFFRAIL_OK)
    })
}

/// Gives the number of a peer that is gone to whoever connects next. Only of an endpoint that was
/// opened. TAFFRAIL_PENDING when the peer still lives, or something of it is still here: messages that
/// nobody has received, requests that nobody has finished, views of its memory.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_forget(t: *mut taffrail_t, rank: u32) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(if checked(t)?.forget(rank) { TAFFRAIL_OK } else { TAFFRAIL_PENDING }) })
}
