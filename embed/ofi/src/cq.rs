//! Completion queues. Reading one makes progress with the endpoints that are bound to it.

mod entry;
mod read;

use crate::abi::constants::*;
use crate::abi::cq::{fi_cq_attr, fi_ops_cq, fid_cq};
use crate::abi::domain::fid_domain;
use crate::abi::errno::{FI_EBUSY, FI_ENOSYS};
use crate::abi::fid::{fi_ops, fid};
use crate::bound::Bound;
use crate::call::{Refusal, answer};
use crate::domain::{Domain, bad_flags};
use crate::lock::{SHARED, SOLO};
use crate::patience::Patience;
use crate::unsupported;
use std::collections::VecDeque;
use std::ffi::{CString, c_int, c_void};

use entry::Format;
pub use entry::{Entry, Failure};

#[repr(C)]
pub struct Cq {
    fid: fid_cq,
    pub domain: *mut Domain,
    format: Format,
    /// The endpoints that tell it what has ended.
    pub bound: Bound,
    /// What has ended and was not read, in order. An entry that says so stands for the next failure.
    ready: VecDeque<Entry>,
    failures: VecDeque<Failure>,
    /// The number of the failure that was read last, and what it was, for `fi_cq_strerror`.
    last_failure: (c_int, CString),
    patience: Patience,
}

impl Cq {
    /// Tells that an operation has ended.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.ready.push_back(entry);
    }

    /// Tells that an operation has failed.
    #[cold]
    pub fn fail(&mut self, failure: Failure) {
        self.ready.push_back(Entry::of_failure());
        self.failures.push_back(failure);
    }

    /// How often a read that finds nothing looks. With several endpoints none of them is to wait for
    /// another.
    ///
    /// # Safety
    /// The lock.
    #[inline]
    unsafe fn turns(&mut self) -> u32 {
        match (self.bound.get(0), self.bound.get(1)) {
            (Some(endpoint), None) => {
                // SAFETY: an endpoint that is bound is open; the caller's promise.
                let endpoint = unsafe { &mut *endpoint };
                let has_started = std::mem::take(&mut endpoint.has_started);
                self.patience.turns(has_started, endpoint.is_replayed_alone)
            }
            _ => 1,
        }
    }
}

static FID: fi_ops = fi_ops { close, control, ..unsupported::FID };

const fn ops<const SAFE: bool>() -> fi_ops_cq {
    fi_ops_cq {
        size: size_of::<fi_ops_cq>(),
        read: read::read::<SAFE>,
        readfrom: read::readfrom::<SAFE>,
        readerr: read::readerr,
        sread: read::sread,
        sreadfrom: read::sreadfrom,
        signal: read::signal,
        strerror: read::strerror,
    }
}

static SOLO_OPS: fi_ops_cq = ops::<SOLO>();
static SHARED_OPS: fi_ops_cq = ops::<SHARED>();

/// `fi_cq_open`. A queue holds as many entries as there is memory for.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    answer("fi_cq_open", || {
        let domain: *mut Domain = domain.cast();
        // SAFETY: attributes as in the headers, or none: those may all be zero.
        let attr = unsafe { attr.as_ref().copied().unwrap_or(std::mem::zeroed()) };
        if attr.flags & !FI_AFFINITY != 0 {
            return Err(bad_flags(attr.flags));
        }
        let format = Format::of(attr.format).ok_or_else(|| {
            Refusal::new(FI_ENOSYS, format!("the entry format {} is not known", attr.format))
        })?;
        let bound = Bound::new(attr.wait_obj)?;
        // SAFETY: an open domain, and a place for the answer.
        unsafe {
            let made = Cq {
                fid: fid_cq {
                    fid: fid { fclass: FI_CLASS_CQ, context, ops: &FID },
                    ops: if (*domain).safe { &SHARED_OPS } else { &SOLO_OPS },
                },
                domain,
                format,
                bound,
                ready: VecDeque::new(),
                failures: VecDeque::new(),
                last_failure: (0, c"no failure was read".to_owned()),
                patience: Patience::default(),
            };
            let _guard = (*domain).lock.take();
            (*domain).state.users += 1;
            cq.write(Box::into_raw(Box::new(made)).cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(cq)", || {
        let cq: *mut Cq = object.cast();
        // SAFETY: an open queue, made by `open`.
        unsafe {
            let domain = (*cq).domain;
            let _guard = (*domain).lock.take();
            if !(*cq).bound.is_empty() {
                return Err(Refusal::new(FI_EBUSY, "an endpoint is bound to it"));
            }
            (*domain).state.users -= 1;
            drop(Box::from_raw(cq));
        }
        Ok(0)
    })
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    let cq: *mut Cq = object.cast();
    // SAFETY: an open queue.
    unsafe { (*cq).bound.control(command, arg) }
}

/// Whether a thread may sleep on the queue's descriptor: there is nothing to read, also of what has ended
/// while somebody stood in for the program, and nothing to be made progress with.
///
/// # Safety
/// An open queue.
pub unsafe fn try_wait(cq: *mut Cq) -> bool {
    // SAFETY: the caller's promise; everything is behind the lock.
    unsafe {
        let _guard = (*(*cq).domain).lock.take();
        (*cq).bound.silence();
        let mut index = 0;
        while let Some(endpoint) = (*cq).bound.get(index) {
            let _ = (*endpoint).advance(1, 1);
            index += 1;
        }
        (*cq).ready.is_empty() && (*cq).bound.arm()
    }
}
