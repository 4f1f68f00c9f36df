//! Calls that are not offered. Every place of every table holds a function, so that a program that
//! calls it gets `FI_ENOSYS` and one line.

use crate::abi::collective::{Opaque, fi_ops_collective};
use crate::abi::domain::fid_domain;
use crate::abi::ep::fid_ep;
use crate::abi::errno::FI_ENOSYS;
use crate::abi::fabric::fid_fabric;
use crate::abi::fi_addr_t;
use crate::abi::fid::{fi_ops, fid};
use crate::abi::info::{fi_info, fi_rx_attr, fi_tx_attr};
use crate::call::unsupported;
use std::ffi::{c_char, c_int, c_void};

/// A function for each place: its name, its arguments, and what it is called in the line.
macro_rules! not_offered {
    ($($name:ident($($argument:ty),*) -> $answer:ty: $what:literal;)+) => {
        $(pub unsafe extern "C" fn $name($(_: $argument),*) -> $answer {
            unsupported($what) as $answer
        })+
    };
}

/// The same, for what programs ask just to know: no line.
macro_rules! quietly_not_offered {
    ($($name:ident($($argument:ty),*) -> $answer:ty;)+) => {
        $(pub unsafe extern "C" fn $name($(_: $argument),*) -> $answer {
            -FI_ENOSYS as $answer
        })+
    };
}

/// What an object has in common with all others and does not do. `close` is to be replaced.
pub const FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind, control, ops_open, tostr, ops_set };

quietly_not_offered! {
    ops_open(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int;
    ops_set(*mut fid, *const c_char, u64, *mut c_void, *mut c_void) -> c_int;
    tostr(*const fid, *mut c_char, usize) -> c_int;
    control(*mut fid, c_int, *mut c_void) -> c_int;
    query_collective(*mut fid_domain, u32, *mut c_void, u64) -> c_int;
    size_left(*mut fid_ep) -> isize;
}

not_offered! {
    close(*mut fid) -> c_int: "fi_close of this object";
    bind(*mut fid, *mut fid, u64) -> c_int: "fi_bind to this object";
    passive_ep(*mut fid_fabric, *mut fi_info, *mut *mut c_void, *mut c_void) -> c_int:
        "connected endpoints (fi_passive_ep)";
    wait_open(*mut fid_fabric, *mut c_void, *mut *mut c_void) -> c_int: "wait sets (fi_wait_open)";
    poll_open(*mut fid_domain, *mut c_void, *mut *mut c_void) -> c_int: "poll sets (fi_poll_open)";
    scalable_ep(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int:
        "scalable endpoints (fi_scalable_ep)";
    stx_ctx(*mut fid_domain, *mut fi_tx_attr, *mut *mut c_void, *mut c_void) -> c_int:
        "shared transmit contexts (fi_stx_context)";
    srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int:
        "shared receive contexts (fi_srx_context)";
    tx_ctx(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int:
        "contexts of scalable endpoints (fi_tx_context)";
    rx_ctx(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int:
        "contexts of scalable endpoints (fi_rx_context)";
    setname(*mut fid, *mut c_void, usize) -> c_int: "addresses of one's own (fi_setname)";
    getpeer(*mut fid_ep, *mut c_void, *mut usize) -> c_int: "connections (fi_getpeer)";
    connect(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int: "connections (fi_connect)";
    listen(*mut c_void) -> c_int: "connections (fi_listen)";
    accept(*mut fid_ep, *const c_void, usize) -> c_int: "connections (fi_accept)";
    reject(*mut c_void, *mut fid, *const c_void, usize) -> c_int: "connections (fi_reject)";
    shutdown(*mut fid_ep, u64) -> c_int: "connections (fi_shutdown)";
    join(*mut fid_ep, *const c_void, u64, *mut *mut c_void, *mut c_void) -> c_int:
        "multicast (fi_join)";
}

not_offered! {
    barrier(*mut fid_ep, fi_addr_t, *mut c_void) -> isize: "fi_barrier";
    broadcast(
        *mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, fi_addr_t, u32, u64, *mut c_void
    ) -> isize: "fi_broadcast";
    exchange(
        *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u64,
        *mut c_void
    ) -> isize: "fi_alltoall and fi_allgather";
    reduction(
        *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u32, u32, u64,
        *mut c_void
    ) -> isize: "fi_allreduce and fi_reduce_scatter";
    reduce(
        *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t, u32,
        u32, u64, *mut c_void
    ) -> isize: "fi_reduce";
    rooted(
        *mut fid_ep, Opaque, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, fi_addr_t, u32,
        u64, *mut c_void
    ) -> isize: "fi_scatter and fi_gather";
    collective_msg(*mut fid_ep, Opaque, Opaque, *mut *mut c_void, usize, u64) -> isize:
        "collective operations";
    barrier2(*mut fid_ep, fi_addr_t, u64, *mut c_void) -> isize: "fi_barrier2";
}

pub static COLLECTIVE: fi_ops_collective = fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    barrier,
    broadcast,
    alltoall: exchange,
    allreduce: reduction,
    allgather: exchange,
    reduce_scatter: reduction,
    reduce,
    scatter: rooted,
    gather: rooted,
    msg: collective_msg,
    barrier2,
};
