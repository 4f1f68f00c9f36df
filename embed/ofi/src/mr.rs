//! Registered memory: what keys stand for.
//!
//! Keys are those that the program asks for, and addresses count from the start of the memory. Only
//! programs that know nothing but `FI_MR_BASIC` get keys of ours, and use their own addresses.

use crate::abi::constants::{FI_CLASS_MR, FI_REMOTE_READ, FI_REMOTE_WRITE};
use crate::abi::errno::{FI_EINVAL, FI_ENOKEY, FI_ENOSYS};
use crate::abi::fid::{fi_ops, fid};
use crate::abi::mr::{fi_mr_attr, fi_ops_mr, fid_mr};
use crate::call::{Refusal, answer};
use crate::domain::{Domain, bad_flags, given};
use crate::unsupported;
use libc::iovec;
use rustc_hash::FxHashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use taffrail::Access;

/// All registered memory of a domain.
pub struct Regions {
    by_key: FxHashMap<u64, Region>,
    /// Keys are ours, and addresses are the program's.
    basic: bool,
    last_key: u64,
}

/// `len` bytes at `at`, of which the first has the address `start` for peers.
#[derive(Clone, Copy)]
pub struct Region {
    pub at: *mut u8,
    pub len: usize,
    pub start: u64,
    pub access: Access,
}

/// What peers may do with memory of such flags. Those of access by the program itself are not looked at:
/// its memory needs no registration for that.
fn access_of(flags: u64) -> Access {
    match (flags & FI_REMOTE_READ != 0, flags & FI_REMOTE_WRITE != 0) {
        (false, false) => Access::None,
        (true, false) => Access::Read,
        (false, true) => Access::Write,
        (true, true) => Access::Both,
    }
}

impl Regions {
    pub fn new(basic: bool) -> Regions {
        Regions { by_key: FxHashMap::default(), basic, last_key: 0 }
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, Region)> + '_ {
        self.by_key.iter().map(|(&key, &region)| (key, region))
    }

    /// Takes memory in, and returns its key.
    fn add(
        &mut self,
        (at, len): (*mut u8, usize),
        requested: u64,
        access: Access,
    ) -> Result<(u64, Region), Refusal> {
        let key = if self.basic { self.last_key + 1 } else { requested };
        if self.by_key.contains_key(&key) {
            let why = format!("the key {key:#x} stands for other memory");
            return Err(Refusal::new(FI_ENOKEY, why));
        }
        self.last_key = key;
        let start = if self.basic { at.addr() as u64 } else { 0 };
        let region = Region { at, len, start, access };
        self.by_key.insert(key, region);
        Ok((key, region))
    }
}

#[repr(C)]
struct Mr {
    fid: fid_mr,
    domain: *mut Domain,
}

static FID: fi_ops = fi_ops { close, bind, control, ..unsupported::FID };

pub static OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

/// Registers memory at every endpoint of the domain.
///
/// # Safety
/// An open domain; memory that stays until the registration is closed.
unsafe fn register(
    domain: *mut Domain,
    place: &iovec,
    access: u64,
    key: u64,
    context: *mut c_void,
    mr: *mut *mut fid_mr,
) -> Result<c_int, Refusal> {
    // SAFETY: the caller's promise; the lock is held while the state is used.
    unsafe {
        let _guard = (*domain).lock.take();
        let state = &mut (*domain).state;
        let bytes = (place.iov_base.cast(), place.iov_len);
        let (key, region) = state.regions.add(bytes, key, access_of(access))?;
        for &endpoint in &state.endpoints {
            (*endpoint).expose(key, region);
        }
        state.users += 1;
        let made = Mr {
            fid: fid_mr {
                fid: fid { fclass: FI_CLASS_MR, context, ops: &FID },
                mem_desc: null_mut(),
                key,
            },
            domain,
        };
        mr.write(Box::into_raw(Box::new(made)).cast());
    }
    Ok(0)
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    answer("fi_mr_reg", || {
        check(offset, flags)?;
        let place = iovec { iov_base: buf.cast_mut(), iov_len: len };
        // SAFETY: the caller's promise.
        unsafe { register(domain.cast(), &place, access, key, context, mr) }
    })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    answer("fi_mr_regv", || {
        check(offset, flags)?;
        let place = only(iov, count)?;
        // SAFETY: the caller's promise.
        unsafe { register(domain.cast(), place, access, key, context, mr) }
    })
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    answer("fi_mr_regattr", || {
        let attr = given(attr, "attr")?;
        check(attr.offset, flags)?;
        let place = only(attr.mr_iov, attr.iov_count)?;
        // SAFETY: the caller's promise.
        unsafe { register(domain.cast(), place, attr.access, attr.requested_key, attr.context, mr) }
    })
}

fn check(offset: u64, flags: u64) -> Result<(), Refusal> {
    if flags != 0 {
        return Err(bad_flags(flags));
    }
    match offset {
        0 => Ok(()),
        _ => Err(Refusal::new(FI_EINVAL, "offset: reserved, must be 0")),
    }
}

fn only<'a>(iov: *const iovec, count: usize) -> Result<&'a iovec, Refusal> {
    if count != 1 {
        let why = format!("memory in {count} places; a registration has one (mr_iov_limit)");
        return Err(Refusal::new(FI_EINVAL, why));
    }
    // SAFETY: one place is there, says the caller.
    unsafe { iov.as_ref() }.ok_or_else(|| Refusal::new(FI_EINVAL, "iov is null"))
}

/// Nothing has to be bound: memory can be reached through every endpoint of its domain.
unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    if command == crate::abi::constants::FI_ENABLE { 0 } else { -FI_ENOSYS }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(mr)", || {
        let mr: *mut Mr = object.cast();
        // SAFETY: an open registration, made by `register`; its domain is open as long as it is.
        unsafe {
            let (domain, key) = ((*mr).domain, (*mr).fid.key);
            let _guard = (*domain).lock.take();
            let state = &mut (*domain).state;
            state.regions.by_key.remove(&key);
            for &endpoint in &state.endpoints {
                (*endpoint).conceal(key);
            }
            state.users -= 1;
            drop(Box::from_raw(mr));
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_were_asked_for() {
        let mut regions = Regions::new(false);
        let mut memory = [0u8; 16];
        let at = memory.as_mut_ptr();
        assert_eq!(regions.add((at, 16), 0, Access::Both).unwrap().0, 0);
        let (key, region) = regions.add((at, 8), u64::MAX, Access::Read).unwrap();
        assert_eq!((key, region.start, region.len), (u64::MAX, 0, 8));
        assert_eq!(regions.add((at, 8), 0, Access::Both).err().unwrap().errno, FI_ENOKEY);
    }

    #[test]
    fn basic_programs_get_keys_and_use_their_addresses() {
        let mut regions = Regions::new(true);
        let mut memory = [0u8; 16];
        let at = memory.as_mut_ptr();
        let (first, region) = regions.add((at, 16), 0, Access::Both).unwrap();
        let (second, _) = regions.add((at, 16), 0, Access::Both).unwrap();
        assert_ne!(first, second);
        assert_eq!(region.start, at.addr() as u64);
    }
}
