//! Fabrics: what domains and event queues are opened from.

use crate::abi::constants::FI_CLASS_FABRIC;
use crate::abi::errno::{FI_EAGAIN, FI_EBUSY};
use crate::abi::fabric::{fi_ops_fabric, fid_fabric};
use crate::abi::fid::{fi_ops, fid};
use crate::abi::info::fi_fabric_attr;
use crate::call::{Refusal, answer};
use crate::{cntr, cq, domain, eq, unsupported};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[repr(C)]
pub struct Fabric {
    fid: fid_fabric,
    /// Domains and event queues that are open.
    pub users: AtomicUsize,
}

impl Fabric {
    /// The version of libfabric that the program was written for.
    pub fn api_version(&self) -> u32 {
        self.fid.api_version
    }
}

static FID: fi_ops = fi_ops { close, ..unsupported::FID };

static OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open,
    passive_ep: unsupported::passive_ep,
    eq_open: eq::open,
    wait_open: unsupported::wait_open,
    trywait,
    domain2: domain::open2,
};

/// `fi_fabric`.
pub unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    answer("fi_fabric", || {
        // SAFETY: what libfabric gives, and the caller's place for the answer.
        unsafe {
            let made = Fabric {
                fid: fid_fabric {
                    fid: fid { fclass: FI_CLASS_FABRIC, context, ops: &FID },
                    ops: &OPS,
                    api_version: attr.as_ref().map_or(0, |attr| attr.api_version),
                },
                users: AtomicUsize::new(0),
            };
            fabric.write(Box::into_raw(Box::new(made)).cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(fabric)", || {
        let fabric: *mut Fabric = object.cast();
        // SAFETY: an open fabric, made by `open`.
        unsafe {
            if (*fabric).users.load(Relaxed) > 0 {
                return Err(Refusal::new(FI_EBUSY, "a domain or event queue of it is open"));
            }
            drop(Box::from_raw(fabric));
        }
        Ok(0)
    })
}

/// `fi_trywait`: whether the descriptors of these queues and counters may be waited for.
unsafe extern "C" fn trywait(_: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    use crate::abi::constants::{FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ};
    for place in 0..count.max(0) as usize {
        // SAFETY: the caller gives `count` open objects.
        let empty = unsafe {
            let object = *fids.add(place);
            match (*object).fclass {
                FI_CLASS_CQ => cq::try_wait(object.cast()),
                FI_CLASS_CNTR => cntr::try_wait(object.cast()),
                FI_CLASS_EQ => eq::try_wait(object),
                // Nothing else of ours has a descriptor.
                _ => true,
            }
        };
        if !empty {
            return -FI_EAGAIN;
        }
    }
    0
}
