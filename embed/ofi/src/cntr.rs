//! Counters of operations that have ended.

use crate::abi::cntr::{fi_cntr_attr, fi_ops_cntr, fid_cntr};
use crate::abi::constants::*;
use crate::abi::domain::fid_domain;
use crate::abi::errno::{FI_EAVAIL, FI_EBUSY, FI_ENOSYS};
use crate::abi::fid::{fi_ops, fid};
use crate::bound::Bound;
use crate::call::{Refusal, answer};
use crate::domain::{Domain, bad_flags};
use crate::endpoint::Endpoint;
use crate::patience::Patience;
use crate::unsupported;
use crate::wait::until;
use std::ffi::{c_int, c_void};

/// Operations looked at in one read.
const LOOK: usize = 64;

#[repr(C)]
pub struct Cntr {
    fid: fid_cntr,
    domain: *mut Domain,
    /// The endpoints that it counts for.
    pub bound: Bound,
    /// Operations that have ended well, and others.
    value: u64,
    errors: u64,
    /// Of waits.
    patience: Patience,
}

impl Cntr {
    /// An operation has ended.
    #[inline]
    pub fn count(&mut self, well: bool) {
        if well {
            self.value = self.value.wrapping_add(1);
        } else {
            self.errors = self.errors.wrapping_add(1);
        }
    }

    fn reached(&self) -> (u64, u64) {
        (self.value, self.errors)
    }
}

static FID: fi_ops = fi_ops { close, control, ..unsupported::FID };

static OPS: fi_ops_cntr =
    fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr };

/// `fi_cntr_open`.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    answer("fi_cntr_open", || {
        let domain: *mut Domain = domain.cast();
        // SAFETY: attributes as in the headers, or none: those may all be zero.
        let attr = unsafe { attr.as_ref().copied().unwrap_or(std::mem::zeroed()) };
        if attr.flags != 0 {
            return Err(bad_flags(attr.flags));
        }
        if attr.events != FI_CNTR_EVENTS_COMP {
            return Err(Refusal::new(FI_ENOSYS, "only completions are counted"));
        }
        let bound = Bound::new(attr.wait_obj)?;
        // SAFETY: an open domain, and a place for the answer.
        unsafe {
            let made = Cntr {
                fid: fid_cntr { fid: fid { fclass: FI_CLASS_CNTR, context, ops: &FID }, ops: &OPS },
                domain,
                bound,
                value: 0,
                errors: 0,
                patience: Patience::default(),
            };
            let _guard = (*domain).lock.take();
            (*domain).state.users += 1;
            cntr.write(Box::into_raw(Box::new(made)).cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(cntr)", || {
        let cntr: *mut Cntr = object.cast();
        // SAFETY: an open counter, made by `open`.
        unsafe {
            let domain = (*cntr).domain;
            let _guard = (*domain).lock.take();
            if !(*cntr).bound.is_empty() {
                return Err(Refusal::new(FI_EBUSY, "an endpoint is bound to it"));
            }
            (*domain).state.users -= 1;
            drop(Box::from_raw(cntr));
        }
        Ok(0)
    })
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    let cntr: *mut Cntr = object.cast();
    // SAFETY: an open counter.
    unsafe { (*cntr).bound.control(command, arg) }
}

/// Does something with an open counter, behind the lock.
///
/// # Safety
/// An open counter.
unsafe fn with<T>(cntr: *mut fid_cntr, act: impl FnOnce(*mut Cntr) -> T) -> T {
    let cntr: *mut Cntr = cntr.cast();
    // SAFETY: the caller's promise.
    let _guard = unsafe { (*(*cntr).domain).lock.take() };
    act(cntr)
}

/// One of the endpoints that it counts for.
///
/// # Safety
/// An open counter, and the lock.
unsafe fn endpoint(cntr: *const Cntr, index: usize) -> Option<*mut Endpoint> {
    // SAFETY: the caller's promise.
    unsafe { &*cntr }.bound.get(index)
}

/// Makes progress. What goes wrong is told by the queues.
///
/// # Safety
/// An open counter, and the lock.
unsafe fn advance(cntr: *mut Cntr) {
    // SAFETY: the caller's promise. Endpoints count, so no reference to the counter lives meanwhile.
    unsafe {
        let mut index = 0;
        while let Some(endpoint) = endpoint(cntr, index) {
            let _ = (*endpoint).advance(LOOK, 1);
            index += 1;
        }
    }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    unsafe {
        with(cntr, |cntr| {
            advance(cntr);
            (*cntr).value
        })
    }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    unsafe {
        with(cntr, |cntr| {
            advance(cntr);
            (*cntr).errors
        })
    }
}

/// Changes a counter, and wakes whoever waits for it.
///
/// # Safety
/// An open counter.
unsafe fn change(cntr: *mut fid_cntr, act: impl FnOnce(&mut Cntr)) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(cntr, |cntr| {
            act(&mut *cntr);
            (*cntr).bound.ring();
        });
    }
    0
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    unsafe { change(cntr, |cntr| cntr.value = cntr.value.wrapping_add(value)) }
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    unsafe { change(cntr, |cntr| cntr.value = value) }
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    unsafe { change(cntr, |cntr| cntr.errors = cntr.errors.wrapping_add(value)) }
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    unsafe { change(cntr, |cntr| cntr.errors = value) }
}

/// Waits until the counter has reached `threshold`, or an operation fails.
unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    let counter: *mut Cntr = cntr.cast();
    // SAFETY: an open counter; its wait object never changes.
    unsafe {
        let wait = (*counter).bound.wait.clone();
        let errors = readerr(cntr);
        let look = || {
            with(cntr, |cntr| {
                advance(cntr);
                let over = match (*cntr).value {
                    value if value >= threshold => Some(0),
                    _ if (*cntr).errors != errors => Some(-FI_EAVAIL),
                    _ => None,
                };
                let cntr = &mut *cntr;
                if over.is_some() {
                    cntr.patience.found_something();
                } else if let Some(since) = cntr.patience.found_nothing(|| cntr.bound.happened()) {
                    cntr.bound.waits_since(since);
                }
                over
            })
        };
        let arm = || {
            with(cntr, |cntr| {
                (*cntr).patience.sleeps();
                (*cntr).bound.arm()
            })
        };
        until(wait.as_deref(), timeout, false, look, arm).unwrap_or(-libc::ETIMEDOUT)
    }
}

/// Whether a thread may sleep on the counter's descriptor: it is as the program has seen it last, and there
/// is nothing to be made progress with.
///
/// # Safety
/// An open counter.
pub unsafe fn try_wait(cntr: *mut Cntr) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        with(cntr.cast(), |cntr| {
            (*cntr).bound.silence();
            let before = (*cntr).reached();
            advance(cntr);
            (*cntr).reached() == before && (*cntr).bound.arm()
        })
    }
}
