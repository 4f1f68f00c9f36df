//! Which atomic operations there are, by libfabric's numbers.

use crate::abi::atomic::fi_atomic_attr;
use crate::abi::constants::{FI_COMPARE_ATOMIC, FI_FETCH_ATOMIC};
use crate::abi::domain::fid_domain;
use crate::abi::errno::{FI_EBADFLAGS, FI_EINVAL, FI_EOPNOTSUPP};
use crate::say::say;
use std::ffi::c_int;
use std::sync::Mutex;
use taffrail::{Atomic, AtomicOp, AtomicType};

/// What an operation gives back, and what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `fi_atomic`.
    Write,
    /// `fi_fetch_atomic`.
    Fetch,
    /// `fi_compare_atomic`.
    Compare,
}

impl Form {
    pub const WRITE: u8 = 0;
    pub const FETCH: u8 = 1;
    pub const COMPARE: u8 = 2;

    /// Of its number: a parameter of a function must be one.
    pub fn of(number: u8) -> Form {
        match number {
            Form::WRITE => Form::Write,
            Form::FETCH => Form::Fetch,
            _ => Form::Compare,
        }
    }
}

/// An operation and the type of its elements, if there is such.
pub fn offered(form: Form, datatype: u32, op: u32) -> Option<(AtomicOp, AtomicType)> {
    let op = *AtomicOp::ALL.get(op as usize)?;
    let of = *AtomicType::ALL.iter().find(|&&of| of as u32 == datatype)?;
    let has_form = match form {
        Form::Write => !op.compares() && op != AtomicOp::Read,
        Form::Fetch => !op.compares(),
        Form::Compare => op.compares(),
    };
    (has_form && of.can(op)).then_some((op, of))
}

/// One line for each combination, however often it is used.
#[cold]
pub fn not_offered(form: Form, datatype: u32, op: u32) -> c_int {
    static SAID: Mutex<Vec<(Form, u32, u32)>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !said.contains(&(form, datatype, op)) {
        said.push((form, datatype, op));
        let call = match form {
            Form::Write => "fi_atomic",
            Form::Fetch => "fi_fetch_atomic",
            Form::Compare => "fi_compare_atomic",
        };
        say(&format!(
            "the libfabric provider does not offer {call} with the operation {op} on elements of \
             the type {datatype} (FI_EOPNOTSUPP); fi_atomicvalid tells what there is"
        ));
    }
    -FI_EOPNOTSUPP
}

/// Whether there is such an operation; on how many elements goes to `count`.
pub fn valid(form: Form, datatype: u32, op: u32, count: Option<&mut usize>) -> c_int {
    match (offered(form, datatype, op), count) {
        (Some((_, of)), Some(count)) => {
            *count = Atomic::MAX_BYTES / of.size();
            0
        }
        (Some(_), None) => -FI_EINVAL,
        (None, _) => -FI_EOPNOTSUPP,
    }
}

/// `fi_query_atomic`.
pub unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let form = match flags {
        0 => Form::Write,
        FI_FETCH_ATOMIC => Form::Fetch,
        FI_COMPARE_ATOMIC => Form::Compare,
        _ => return -FI_EBADFLAGS,
    };
    // SAFETY: a place for the answer, or null.
    let Some(attr) = (unsafe { attr.as_mut() }) else { return -FI_EINVAL };
    let known = valid(form, datatype, op, Some(&mut attr.count));
    if let Some((_, of)) = offered(form, datatype, op) {
        attr.size = of.size();
    }
    known
}
