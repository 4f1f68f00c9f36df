//! What sends and receives have in common.

use super::Endpoint;
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::FI_EINVAL;
use crate::abi::fi_addr_t;
use crate::info::{IOV, RX_FLAGS, TX_FLAGS};
use crate::say::say;
use libc::iovec;
use std::ffi::{c_int, c_void};
use std::io::IoSliceMut;
use std::ptr::NonNull;
use taffrail::Data;
use taffrail::words::counted;

/// Messages of one lane never meet receives of another.
#[derive(Clone, Copy)]
pub struct Lane {
    pub context: u16,
    pub flag: u64,
}

pub const TAGGED: Lane = Lane { context: 0x0000, flag: FI_TAGGED };
pub const MSG: Lane = Lane { context: 0x4000, flag: FI_MSG };

/// Flags of `fi_sendmsg` and its like.
pub const SEND_FLAGS: u64 = TX_FLAGS | FI_REMOTE_CQ_DATA;
/// Flags of `fi_recvmsg` and its like. A receive ends when its bytes are there, which is more than any of
/// the weaker ends asks for.
pub const RECEIVE_FLAGS: u64 = RX_FLAGS & !FI_MULTI_RECV;

/// What a message says of itself.
#[derive(Clone, Copy)]
pub struct Label {
    pub to: fi_addr_t,
    pub tag: u64,
    pub data: Option<u64>,
}

/// Calls from C, behind the lock where there is one.
///
/// # Safety
/// An open endpoint.
#[inline(always)]
pub unsafe fn enter<const SAFE: bool>(
    ep: *mut fid_ep,
    act: impl FnOnce(&mut Endpoint) -> isize,
) -> isize {
    let endpoint: *mut Endpoint = ep.cast();
    // SAFETY: the caller's promise. The domain outlives the endpoint.
    unsafe {
        let _guard = (*(*endpoint).domain).lock.hold::<SAFE>();
        act(&mut *endpoint)
    }
}

/// Data beside a message: 32 bits, as `cq_data_size` says.
#[inline(always)]
pub fn immediate(data: u64) -> Result<Data, c_int> {
    u32::try_from(data).map(Data::new).map_err(|_| too_much_data(data))
}

#[cold]
fn too_much_data(data: u64) -> c_int {
    say(&format!("data beside a message has 32 bits (cq_data_size), and this is {data:#x}"));
    FI_EINVAL
}

/// Open MPI 4.1 does this with persistent sends from `MPI_BOTTOM`.
#[cold]
pub fn no_buffer(len: usize) -> isize {
    say(&format!("a message of {} at address 0 (FI_EINVAL)", counted(len, "byte")));
    -FI_EINVAL as isize
}

/// A place that is not null, also where C has nothing to send.
#[inline(always)]
pub fn place(buf: *mut c_void) -> *mut u8 {
    NonNull::new(buf.cast()).unwrap_or(NonNull::dangling()).as_ptr()
}

/// The places of a message; the negative error number if there are too many, or bytes at address 0.
///
/// # Safety
/// `count` are there.
pub unsafe fn places<'a>(iov: *const iovec, count: usize) -> Result<&'a [iovec], isize> {
    let all: &[iovec] = match count {
        0 => &[],
        // SAFETY: the caller's promise.
        1..=IOV if !iov.is_null() => unsafe { std::slice::from_raw_parts(iov, count) },
        _ => return Err(-FI_EINVAL as isize),
    };
    check_places(all)?;
    Ok(all)
}

/// Refuses bytes at address 0.
pub fn check_places(places: &[iovec]) -> Result<(), isize> {
    let nowhere = places.iter().find(|one| one.iov_base.is_null() && one.iov_len > 0);
    nowhere.map_or(Ok(()), |one| Err(no_buffer(one.iov_len)))
}

/// The places of a message that is received, as the engine takes them.
///
/// # Safety
/// They are there, and nobody uses them while these are.
pub unsafe fn slices_of(places: &[iovec]) -> Vec<IoSliceMut<'_>> {
    let slice = |one: &iovec| {
        // SAFETY: the caller's promise.
        IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(place(one.iov_base), one.iov_len) })
    };
    places.iter().map(slice).collect()
}

/// All bytes of several places, one behind the other.
///
/// # Safety
/// They are there.
pub unsafe fn gather(places: &[iovec]) -> Box<[u8]> {
    let mut whole = Vec::with_capacity(places.iter().map(|one| one.iov_len).sum());
    for one in places {
        // SAFETY: the caller's promise.
        whole.extend_from_slice(unsafe {
            std::slice::from_raw_parts(place(one.iov_base), one.iov_len)
        });
    }
    whole.into()
}
