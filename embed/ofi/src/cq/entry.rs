//! Entries of completion queues, and the forms in which programs read them.

use crate::abi::constants::*;
use crate::abi::cq::*;
use crate::abi::errno::{FI_ECANCELED, FI_ENOMSG, FI_ETRUNC};
use crate::abi::fi_addr_t;
use crate::info::ERROR_DATA;
use crate::provider::version;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

/// Versions of libfabric since which an entry of a failure has the size of its data, and its source.
const WITH_SIZE: u32 = version(1, 5);
const WITH_SOURCE: u32 = version(1, 20);

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
    /// What a success would have said, as far as it is known.
    pub entry: Entry,
    /// Bytes of the message for which there was no room.
    pub more: usize,
    /// Positive.
    pub errno: c_int,
    pub why: String,
}

impl Failure {
    /// Writes the entry that C reads, in the form that version `api` of libfabric has. Data of the
    /// provider's own are `text`, which says more than the number; they go into the memory that the
    /// program gives, or stay where they are.
    ///
    /// # Safety
    /// `to` is an entry of that version; its buffer, if any, has the length in its field.
    pub unsafe fn write(&self, to: *mut fi_cq_err_entry, api: u32, text: &CStr) {
        let mut made = self.to_c();
        let data = if self.says_more() { text.to_bytes_with_nul() } else { &[] };
        let data = &data[..data.len().min(ERROR_DATA)];
        // SAFETY: the caller's promise.
        unsafe {
            if api < WITH_SIZE {
                made.err_data =
                    if data.is_empty() { null_mut() } else { text.as_ptr().cast_mut().cast() };
                let len = offset_of!(fi_cq_err_entry, err_data_size);
                return std::ptr::copy_nonoverlapping(
                    (&raw const made).cast::<u8>(),
                    to.cast(),
                    len,
                );
            }
            let (theirs, room) = ((*to).err_data.cast::<u8>(), (*to).err_data_size);
            if room > 0 && !theirs.is_null() {
                let part = data.len().min(room);
                std::ptr::copy_nonoverlapping(data.as_ptr(), theirs, part);
                if part > 0 {
                    theirs.add(part - 1).write(0);
                }
                (made.err_data, made.err_data_size) = (theirs.cast(), part);
            } else if !data.is_empty() {
                made.err_data = data.as_ptr().cast_mut().cast();
                made.err_data_size = data.len();
            }
            to.write(made);
            if api >= WITH_SOURCE {
                to.add(1).cast::<fi_addr_t>().write(self.entry.source);
            }
        }
    }

    /// Whether there is more to say than what the number and the entry do.
    fn says_more(&self) -> bool {
        !matches!(self.errno, FI_ECANCELED | FI_ENOMSG | FI_ETRUNC)
    }

    /// The entry, without data of the provider's own.
    fn to_c(&self) -> fi_cq_err_entry {
        let Entry { context: op_context, flags, len, buf, data, tag, .. } = self.entry;
        fi_cq_err_entry {
            op_context,
            flags,
            len,
            buf,
            data,
            tag,
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
