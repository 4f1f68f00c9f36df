//! `fi_tsend`, `fi_trecv` and their like.

use super::messages::{Label, RECEIVE_FLAGS, SEND_FLAGS, TAGGED, enter};
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EBADFLAGS, FI_EINVAL};
use crate::abi::fi_addr_t;
use crate::abi::tagged::{fi_msg_tagged, fi_ops_tagged};
use crate::lock::{SHARED, SOLO};
use libc::iovec;
use std::ffi::c_void;

const fn table<const SAFE: bool>() -> fi_ops_tagged {
    fi_ops_tagged {
        size: size_of::<fi_ops_tagged>(),
        recv: recv::<SAFE>,
        recvv: recvv::<SAFE>,
        recvmsg: recvmsg::<SAFE>,
        send: send::<SAFE>,
        sendv: sendv::<SAFE>,
        sendmsg: sendmsg::<SAFE>,
        inject: inject::<SAFE>,
        senddata: senddata::<SAFE>,
        injectdata: injectdata::<SAFE>,
    }
}

static SOLO_OPS: fi_ops_tagged = table::<SOLO>();
static SHARED_OPS: fi_ops_tagged = table::<SHARED>();

/// The functions with a lock or without.
pub fn ops(safe: bool) -> &'static fi_ops_tagged {
    if safe { &SHARED_OPS } else { &SOLO_OPS }
}

unsafe extern "C" fn recv<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        enter::<SAFE>(ep, |ep| match ep.pattern(TAGGED, from, tag, ignore) {
            Ok(from) => ep.receive(TAGGED, from, buf, len, context, ep.rx.op_flags),
            Err(errno) => -errno as isize,
        })
    }
}

unsafe extern "C" fn recvv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        enter::<SAFE>(ep, |ep| match ep.pattern(TAGGED, from, tag, ignore) {
            Ok(from) => ep.receivev(TAGGED, from, iov, count, context, ep.rx.op_flags),
            Err(errno) => -errno as isize,
        })
    }
}

/// Receives, or looks for a message (`FI_PEEK`), or receives one that a look has claimed (`FI_CLAIM`).
unsafe extern "C" fn recvmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    const KNOWN: u64 = RECEIVE_FLAGS | FI_PEEK | FI_CLAIM | FI_DISCARD;
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return -FI_EINVAL as isize };
        if flags & !KNOWN != 0 {
            return -FI_EBADFLAGS as isize;
        }
        let context = msg.context;
        enter::<SAFE>(ep, |ep| {
            if flags & FI_CLAIM != 0 && flags & FI_PEEK == 0 {
                return ep.receive_claimed(msg.msg_iov, msg.iov_count, context, flags);
            }
            let from = match ep.pattern(TAGGED, msg.addr, msg.tag, msg.ignore) {
                Ok(from) => from,
                Err(errno) => return -errno as isize,
            };
            if flags & FI_PEEK != 0 {
                ep.peek(from, context, flags)
            } else {
                ep.receivev(TAGGED, from, msg.msg_iov, msg.iov_count, context, flags)
            }
        })
    }
}

unsafe extern "C" fn send<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.send(TAGGED, label, buf, len, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn sendv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.sendv(TAGGED, label, iov, count, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn sendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return -FI_EINVAL as isize };
        if flags & !SEND_FLAGS != 0 {
            return -FI_EBADFLAGS as isize;
        }
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let label = Label { to: msg.addr, tag: msg.tag, data };
        enter::<SAFE>(ep, |ep| {
            ep.sendv(TAGGED, label, msg.msg_iov, msg.iov_count, msg.context, flags)
        })
    }
}

unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    let label = Label { to, tag, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject(TAGGED, label, buf, len)) }
}

unsafe extern "C" fn senddata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag, data: Some(data) };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.send(TAGGED, label, buf, len, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    let label = Label { to, tag, data: Some(data) };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject(TAGGED, label, buf, len)) }
}
