//! Domains: what endpoints, queues and registered memory belong to, and the lock around them.

use crate::abi::constants::*;
use crate::abi::domain::{fi_ops_domain, fid_domain};
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EBADFLAGS, FI_EBUSY, FI_EINVAL};
use crate::abi::fabric::fid_fabric;
use crate::abi::fid::{fi_ops, fid};
use crate::abi::info::{fi_domain_attr, fi_info};
use crate::call::{Refusal, answer};
use crate::endpoint::{self, Endpoint};
use crate::fabric::Fabric;
use crate::lock::Lock;
use crate::mr::{self, Regions};
use crate::progress::Progress;
use crate::{av, cntr, cq, settings, unsupported};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

#[repr(C)]
pub struct Domain {
    fid: fid_domain,
    fabric: *mut Fabric,
    pub lock: Lock,
    /// Several threads may use the domain at once.
    pub safe: bool,
    /// Behind the lock.
    pub state: State,
}

pub struct State {
    /// Objects of this domain that are open.
    pub users: usize,
    pub endpoints: Vec<*mut Endpoint>,
    /// Who stands in for the program, where it asked for that.
    pub progress: Option<Progress>,
    pub regions: Regions,
}

static FID: fi_ops = fi_ops { close, ..unsupported::FID };

static OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: unsupported::scalable_ep,
    cntr_open: cntr::open,
    poll_open: unsupported::poll_open,
    stx_ctx: unsupported::stx_ctx,
    srx_ctx: unsupported::srx_ctx,
    query_atomic: crate::atomics::query,
    query_collective: unsupported::query_collective,
    endpoint2,
};

/// `fi_domain`.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    answer("fi_domain", || {
        let fabric: *mut Fabric = fabric.cast();
        // SAFETY: an open fabric, an info of ours that may lack parts, a place for the answer.
        unsafe {
            let attr = info.as_ref().and_then(|info| info.domain_attr.as_ref());
            let made = Domain {
                fid: fid_domain {
                    fid: fid { fclass: FI_CLASS_DOMAIN, context, ops: &FID },
                    ops: &OPS,
                    mr: &mr::OPS,
                },
                fabric,
                lock: Lock::default(),
                safe: attr.is_none_or(|attr| attr.threading != FI_THREAD_DOMAIN),
                state: State {
                    users: 0,
                    endpoints: Vec::new(),
                    progress: None,
                    regions: Regions::new(attr.is_some_and(|attr| attr.mr_mode == FI_MR_BASIC)),
                },
            };
            let made = Box::into_raw(Box::new(made));
            // Where messages are logged, the standby does the same.
            if attr.is_some_and(is_automatic) && !settings::is_logged() {
                match Progress::begin(made) {
                    Ok(progress) => (*made).state.progress = Some(progress),
                    Err(refusal) => {
                        drop(Box::from_raw(made));
                        return Err(refusal);
                    }
                }
            }
            (*fabric).users.fetch_add(1, Relaxed);
            domain.write(made.cast());
        }
        Ok(0)
    })
}

/// `fi_domain2`, whose flags ask for what is not offered.
pub unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return answer("fi_domain2", || Err(bad_flags(flags)));
    }
    // SAFETY: the caller's promise.
    unsafe { open(fabric, info, domain, context) }
}

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return answer("fi_endpoint2", || Err(bad_flags(flags)));
    }
    // SAFETY: the caller's promise.
    unsafe { endpoint::open(domain, info, ep, context) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(domain)", || {
        let domain: *mut Domain = object.cast();
        // SAFETY: an open domain, made by `open`.
        unsafe {
            let progress = {
                let _guard = (*domain).lock.take();
                let state = &mut (*domain).state;
                if state.users > 0 {
                    let why = format!("{} objects of it are open", state.users);
                    return Err(Refusal::new(FI_EBUSY, why));
                }
                state.progress.take()
            };
            // It may be about to take the lock.
            drop(progress);
            (*(*domain).fabric).users.fetch_sub(1, Relaxed);
            drop(Box::from_raw(domain));
        }
        Ok(0)
    })
}

impl Domain {
    /// The version of libfabric that the program was written for.
    pub fn api_version(&self) -> u32 {
        // SAFETY: a fabric is open as long as a domain of it is.
        unsafe { (*self.fabric).api_version() }
    }
}

/// Whether a program asks for progress without its calls.
pub fn is_automatic(attr: &fi_domain_attr) -> bool {
    [attr.control_progress, attr.data_progress].contains(&FI_PROGRESS_AUTO)
}

pub fn bad_flags(flags: u64) -> Refusal {
    Refusal::new(FI_EBADFLAGS, format!("the flags {flags:#x} are not offered"))
}

/// A pointer that must not be null.
pub fn given<T>(at: *const T, what: &str) -> Result<&T, Refusal> {
    // SAFETY: a program that does not give null gives what the headers describe.
    unsafe { at.as_ref() }.ok_or_else(|| Refusal::new(FI_EINVAL, format!("{what} is null")))
}
