//! Entries of completion queues, and the forms in which programs read them.

use crate::abi::constants::*;
use crate::abi::cq::*;
use crate::abi::fi_addr_t;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The entry stands for a failure.
const FAILED: u64 = 1 << 63;

/// An operation that has ended well.
#[derive(Clone, Copy)]
pub struct Entry {
    pub context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    /// Where in the buffer of a multi-receive; else null.
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub source: fi_addr_t,
}

impl Entry {
    /// Of an operation that says nothing but that it has ended.
    #[inline]
    pub fn new(context: *mut c_void, flags: u64) -> Entry {
        Entry { context, flags, len: 0, buf: null_mut(), data: 0, tag: 0, source: FI_ADDR_NOTAVAIL }
    }

    pub fn of_failure() -> Entry {
        Entry::new(null_mut(), FAILED)
    }

    #[inline]
    pub fn is_failure(&self) -> bool {
        self.flags & FAILED != 0
    }
}

/// An operation that has failed.
#[derive(Clone)]
pub struct Failure {
    pub context: *mut c_void,
    pub flags: u64,
    /// What was received, and what more there would have been.
    pub len: usize,
    pub more: usize,
    pub tag: u64,
    /// Positive.
    pub errno: c_int,
    pub why: String,
}

impl Failure {
    /// The entry that C reads.
    pub fn to_c(&self) -> fi_cq_err_entry {
        fi_cq_err_entry {
            op_context: self.context,
            flags: self.flags,
            len: self.len,
            buf: null_mut(),
            data: 0,
            tag: self.tag,
            olen: self.more,
            err: self.errno,
            prov_errno: self.errno,
            err_data: null_mut(),
            err_data_size: 0,
        }
    }
}

/// What a program wants to know of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Context,
    Msg,
    Data,
    Tagged,
}

impl Format {
    pub fn of(number: u32) -> Option<Format> {
        match number {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => Some(Format::Context),
            FI_CQ_FORMAT_MSG => Some(Format::Msg),
            FI_CQ_FORMAT_DATA => Some(Format::Data),
            FI_CQ_FORMAT_TAGGED => Some(Format::Tagged),
            _ => None,
        }
    }

    /// Writes an entry as the `index`th of an array.
    ///
    /// # Safety
    /// The array has as many.
    #[inline]
    pub unsafe fn write(self, buf: *mut c_void, index: usize, entry: &Entry) {
        let Entry { context: op_context, flags, len, buf: at, data, tag, .. } = *entry;
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Format::Tagged => buf
                    .cast::<fi_cq_tagged_entry>()
                    .add(index)
                    .write(fi_cq_tagged_entry { op_context, flags, len, buf: at, data, tag }),
                Format::Data => buf.cast::<fi_cq_data_entry>().add(index).write(fi_cq_data_entry {
                    op_context,
                    flags,
                    len,
                    buf: at,
                    data,
                }),
                Format::Msg => buf.cast::<fi_cq_msg_entry>().add(index).write(fi_cq_msg_entry {
                    op_context,
                    flags,
                    len,
                }),
                Format::Context => {
                    buf.cast::<fi_cq_entry>().add(index).write(fi_cq_entry { op_context });
                }
            }
        }
    }
}
