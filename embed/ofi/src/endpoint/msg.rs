//! `fi_send`, `fi_recv` and their like.

use super::Endpoint;
use super::messages::{Label, MSG, RECEIVE_FLAGS, SEND_FLAGS, enter};
use crate::abi::constants::*;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EBADFLAGS, FI_EINVAL};
use crate::abi::fi_addr_t;
use crate::abi::msg::{fi_msg, fi_ops_msg};
use crate::lock::{SHARED, SOLO};
use libc::iovec;
use std::ffi::c_void;
use taffrail::Pattern;

const fn table<const SAFE: bool>() -> fi_ops_msg {
    fi_ops_msg {
        size: size_of::<fi_ops_msg>(),
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

static SOLO_OPS: fi_ops_msg = table::<SOLO>();
static SHARED_OPS: fi_ops_msg = table::<SHARED>();

/// The functions with a lock or without.
pub fn ops(safe: bool) -> &'static fi_ops_msg {
    if safe { &SHARED_OPS } else { &SOLO_OPS }
}

unsafe extern "C" fn recv<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        enter::<SAFE>(ep, |ep| match ep.pattern(MSG, from, 0, 0) {
            Err(errno) => -errno as isize,
            Ok(from) if ep.rx.op_flags & FI_MULTI_RECV != 0 => {
                ep.receive_multi(from, buf, len, context, ep.rx.op_flags)
            }
            Ok(from) => ep.receive(MSG, from, buf, len, context, ep.rx.op_flags),
        })
    }
}

impl Endpoint {
    /// As [`receivev`](Self::receivev), and as [`receive_multi`](Self::receive_multi) with `FI_MULTI_RECV`.
    ///
    /// # Safety
    /// As theirs.
    unsafe fn receive_flagged(
        &mut self,
        from: Pattern,
        iov: *const iovec,
        count: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        // SAFETY: the caller's promise.
        unsafe {
            if flags & FI_MULTI_RECV == 0 {
                return self.receivev(MSG, from, iov, count, context, flags);
            }
            match iov.as_ref().filter(|_| count == 1) {
                Some(one) => self.receive_multi(from, one.iov_base, one.iov_len, context, flags),
                None => -FI_EINVAL as isize,
            }
        }
    }
}

unsafe extern "C" fn recvv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        enter::<SAFE>(ep, |ep| match ep.pattern(MSG, from, 0, 0) {
            Ok(from) => ep.receive_flagged(from, iov, count, context, ep.rx.op_flags),
            Err(errno) => -errno as isize,
        })
    }
}

unsafe extern "C" fn recvmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return -FI_EINVAL as isize };
        if flags & !(RECEIVE_FLAGS | FI_MULTI_RECV) != 0 {
            return -FI_EBADFLAGS as isize;
        }
        enter::<SAFE>(ep, |ep| {
            let from = match ep.pattern(MSG, msg.addr, 0, 0) {
                Ok(from) => from,
                Err(errno) => return -errno as isize,
            };
            ep.receive_flagged(from, msg.msg_iov, msg.iov_count, msg.context, flags)
        })
    }
}

unsafe extern "C" fn send<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag: 0, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.send(MSG, label, buf, len, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn sendv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag: 0, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.sendv(MSG, label, iov, count, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn sendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return -FI_EINVAL as isize };
        if flags & !SEND_FLAGS != 0 {
            return -FI_EBADFLAGS as isize;
        }
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let label = Label { to: msg.addr, tag: 0, data };
        enter::<SAFE>(ep, |ep| ep.sendv(MSG, label, msg.msg_iov, msg.iov_count, msg.context, flags))
    }
}

unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    to: fi_addr_t,
) -> isize {
    let label = Label { to, tag: 0, data: None };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject(MSG, label, buf, len)) }
}

unsafe extern "C" fn senddata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let label = Label { to, tag: 0, data: Some(data) };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.send(MSG, label, buf, len, context, ep.tx.op_flags)) }
}

unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
) -> isize {
    let label = Label { to, tag: 0, data: Some(data) };
    // SAFETY: the caller's promise.
    unsafe { enter::<SAFE>(ep, |ep| ep.inject(MSG, label, buf, len)) }
}
