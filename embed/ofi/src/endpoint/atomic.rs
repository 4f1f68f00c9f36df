//! `fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic` and their like. The target's engine does them when
//! the target makes progress.

use super::Endpoint;
use super::messages::{enter, place};
use super::operation::{Kind, Operation};
use crate::abi::atomic::{fi_ioc, fi_msg_atomic, fi_ops_atomic, fi_rma_ioc};
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EBADFLAGS, FI_EINVAL};
use crate::abi::fi_addr_t;
use crate::atomics::{Form, not_offered, offered};
use crate::info::{IOV, TX_FLAGS};
use crate::lock::{SHARED, SOLO};
use crate::say::say;
use libc::iovec;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use taffrail::words::counted;
use taffrail::{Atomic, AtomicOp};

const fn table<const SAFE: bool>() -> fi_ops_atomic {
    fi_ops_atomic {
        size: size_of::<fi_ops_atomic>(),
        write: write::<SAFE>,
        writev: writev::<SAFE>,
        writemsg: writemsg::<SAFE>,
        inject: inject::<SAFE>,
        readwrite: readwrite::<SAFE>,
        readwritev: readwritev::<SAFE>,
        readwritemsg: readwritemsg::<SAFE>,
        compwrite: compwrite::<SAFE>,
        compwritev: compwritev::<SAFE>,
        compwritemsg: compwritemsg::<SAFE>,
        writevalid: valid::<{ Form::WRITE }>,
        readwritevalid: valid::<{ Form::FETCH }>,
        compwritevalid: valid::<{ Form::COMPARE }>,
    }
}

static SOLO_OPS: fi_ops_atomic = table::<SOLO>();
static SHARED_OPS: fi_ops_atomic = table::<SHARED>();

/// The functions with a lock or without.
pub fn ops(safe: bool) -> &'static fi_ops_atomic {
    if safe { &SHARED_OPS } else { &SOLO_OPS }
}

/// Elements of a peer's memory, and what is done to them.
#[derive(Clone, Copy)]
struct Target {
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
}

/// Elements in memory of the program.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [fi_ioc]);

impl<'a> Elements<'a> {
    /// # Safety
    /// So many are there.
    unsafe fn read(at: *const fi_ioc, count: usize) -> Option<Elements<'a>> {
        match count {
            0 => Some(Elements(&[])),
            1..=IOV if !at.is_null() => {
                // SAFETY: the caller's promise.
                let all = unsafe { std::slice::from_raw_parts(at, count) };
                Some(Elements(all))
            }
            _ => None,
        }
    }

    fn count(self) -> usize {
        self.0.iter().fold(0, |sum, one| sum.saturating_add(one.count))
    }

    /// Adds their bytes.
    ///
    /// # Safety
    /// They are there.
    unsafe fn gather(self, size: usize, to: &mut Vec<u8>) {
        for one in self.0.iter().filter(|one| one.count > 0) {
            // SAFETY: the caller's promise.
            to.extend_from_slice(unsafe {
                std::slice::from_raw_parts(one.addr.cast(), one.count * size)
            });
        }
    }
}

impl Endpoint {
    /// Starts an operation.
    ///
    /// # Safety
    /// The places of the results are the operation's until it ends; the others are as the headers say.
    unsafe fn atomic(
        &mut self,
        form: Form,
        target: Target,
        [operands, compares, results]: [Elements<'_>; 3],
        mut operation: Operation,
    ) -> isize {
        let Some((op, of)) = offered(form, target.datatype, target.op) else {
            return not_offered(form, target.datatype, target.op) as isize;
        };
        let wanted = if form == Form::Write { operands } else { results };
        let count = wanted.count();
        let fits = |elements: Elements<'_>, needed: bool| {
            !needed
                || elements.count() == count
                    && elements.0.iter().all(|one| one.count == 0 || !one.addr.is_null())
        };
        let whole = fits(operands, op != AtomicOp::Read)
            && fits(compares, op.compares())
            && fits(results, form != Form::Write);
        let Some(atomic) = Atomic::new(op, of, count).filter(|_| whole) else {
            return bad_count(count, Atomic::MAX_BYTES / of.size()) as isize;
        };
        let rank = match self.rank(target.at) {
            Ok(rank) => rank,
            Err(errno) => return -errno as isize,
        };
        let mut given = Vec::with_capacity(atomic.operand_bytes());
        // SAFETY: the caller's promise.
        unsafe {
            if op != AtomicOp::Read {
                operands.gather(of.size(), &mut given);
            }
            if op.compares() {
                compares.gather(of.size(), &mut given);
            }
        }
        let fetched = match results.0 {
            _ if form == Form::Write => null_mut(),
            [one] => place(one.addr),
            // Scattered when all of it is here.
            several => {
                let places: Vec<_> = several
                    .iter()
                    .map(|one| iovec { iov_base: one.addr, iov_len: one.count * of.size() })
                    .collect();
                operation.keep_for(vec![0; atomic.len()].into(), &places).as_mut_ptr()
            }
        };
        let Target { address, key, .. } = target;
        // SAFETY: the caller's promise, or memory of ours that the operation keeps.
        let started =
            unsafe { self.engine.iatomic_named_raw(rank, key, address, atomic, &given, fetched) };
        self.started(started, operation)
    }

    /// The completion of an operation.
    fn atomic_operation(&self, form: Form, context: *mut c_void, flags: u64) -> Operation {
        let tell = self.tx.tells_of(flags);
        match form {
            Form::Write => Operation::new(Kind::Write, FI_ATOMIC | FI_WRITE, context, tell),
            _ => Operation::new(Kind::Read, FI_ATOMIC | FI_READ, context, tell),
        }
    }
}

#[cold]
fn bad_count(count: usize, most: usize) -> c_int {
    say(&format!(
        "an atomic operation on {}: expected 1 to {most}, as many for the operands as for the results, and \
         none of them at address 0 (FI_EINVAL)",
        counted(count, "element")
    ));
    -FI_EINVAL
}

/// Starts an operation with the endpoint's own flags.
///
/// # Safety
/// As [`Endpoint::atomic`].
unsafe fn plain<const SAFE: bool>(
    ep: *mut fid_ep,
    form: Form,
    target: Target,
    elements: [(*const fi_ioc, usize); 3],
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(elements) = all(elements) else { return -FI_EINVAL as isize };
        enter::<SAFE>(ep, |ep| {
            let operation = ep.atomic_operation(form, context, ep.tx.op_flags);
            ep.atomic(form, target, elements, operation)
        })
    }
}

/// # Safety
/// As [`Elements::read`].
unsafe fn all<'a>([a, b, c]: [(*const fi_ioc, usize); 3]) -> Option<[Elements<'a>; 3]> {
    // SAFETY: the caller's promise.
    unsafe {
        Some([Elements::read(a.0, a.1)?, Elements::read(b.0, b.1)?, Elements::read(c.0, c.1)?])
    }
}

/// Starts an operation that a message describes.
///
/// # Safety
/// As [`Endpoint::atomic`].
unsafe fn described<const SAFE: bool>(
    ep: *mut fid_ep,
    form: Form,
    msg: *const fi_msg_atomic,
    compares: (*const fi_ioc, usize),
    results: (*const fi_ioc, usize),
    flags: u64,
) -> isize {
    if flags & !TX_FLAGS != 0 {
        return -FI_EBADFLAGS as isize;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref().filter(|msg| msg.rma_iov_count == 1) else {
            return -FI_EINVAL as isize;
        };
        let elements = all([(msg.msg_iov, msg.iov_count), compares, results]);
        let (Some(elements), Some(theirs)) = (elements, msg.rma_iov.as_ref()) else {
            return -FI_EINVAL as isize;
        };
        let &fi_rma_ioc { addr: address, count, key } = theirs;
        let wanted = if form == Form::Write { elements[0] } else { elements[2] };
        if wanted.count() != count {
            return -FI_EINVAL as isize;
        }
        let &fi_msg_atomic { addr: at, datatype, op, context, .. } = msg;
        let target = Target { at, address, key, datatype, op };
        enter::<SAFE>(ep, |ep| {
            let operation = ep.atomic_operation(form, context, flags);
            ep.atomic(form, target, elements, operation)
        })
    }
}

/// No elements.
const NONE: (*const fi_ioc, usize) = (std::ptr::null(), 0);

fn ioc(at: *const c_void, count: usize) -> fi_ioc {
    fi_ioc { addr: at.cast_mut(), count }
}

unsafe extern "C" fn write<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Write, target, [(&ioc(buf, count), 1), NONE, NONE], context) }
}

unsafe extern "C" fn writev<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Write, target, [(iov, count), NONE, NONE], context) }
}

unsafe extern "C" fn writemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { described::<SAFE>(ep, Form::Write, msg, NONE, NONE, flags) }
}

/// Operands are always copied at once: what is special is that nothing is told, a failure neither.
unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    let one = [ioc(buf, count)];
    let elements = [Elements(&one), Elements(&[]), Elements(&[])];
    let operation = Operation::new(Kind::Inject, FI_ATOMIC | FI_WRITE, null_mut(), false);
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.atomic(Form::Write, target, elements, operation)) }
}

unsafe extern "C" fn readwrite<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    let (operand, old) = (ioc(buf, count), ioc(result, count));
    let elements = [(&raw const operand, 1), NONE, (&raw const old, 1)];
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Fetch, target, elements, context) }
}

unsafe extern "C" fn readwritev<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    let elements = [(iov, count), NONE, (results.cast_const(), result_count)];
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Fetch, target, elements, context) }
}

unsafe extern "C" fn readwritemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { described::<SAFE>(ep, Form::Fetch, msg, NONE, (results, result_count), flags) }
}

unsafe extern "C" fn compwrite<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    let (operand, other, old) = (ioc(buf, count), ioc(compare, count), ioc(result, count));
    let elements = [(&raw const operand, 1), (&raw const other, 1), (&raw const old, 1)];
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Compare, target, elements, context) }
}

unsafe extern "C" fn compwritev<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compares: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    at: fi_addr_t,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let target = Target { at, address, key, datatype, op };
    let elements = [(iov, count), (compares, compare_count), (results.cast_const(), result_count)];
    // SAFETY: the caller's promise.
    unsafe { plain::<SAFE>(ep, Form::Compare, target, elements, context) }
}

unsafe extern "C" fn compwritemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compares: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let (compares, results) = ((compares, compare_count), (results.cast_const(), result_count));
    // SAFETY: the caller's promise.
    unsafe { described::<SAFE>(ep, Form::Compare, msg, compares, results, flags) }
}

/// Whether there is such an operation, and on how many elements. Programs ask for each pair.
unsafe extern "C" fn valid<const FORM: u8>(
    _ep: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: a place for the number, or null.
    unsafe { crate::atomics::valid(Form::of(FORM), datatype, op, count.as_mut()) }
}
