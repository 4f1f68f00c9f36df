//! What is offered.

use super::hints::Wish;
use super::{ADDRESS, ADDRESS_FORMAT, DATA_SIZE, parts};
use crate::abi::constants::*;
use crate::abi::info::*;
use crate::call::Refusal;
use crate::domain::is_automatic;
use crate::provider::version;
use crate::settings;
use std::ffi::CStr;
use taffrail::Atomic;

pub const FABRIC: &CStr = c"taffrail";
pub const DOMAIN: &CStr = c"shm";
pub const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x7af;

/// Kinds of operations.
const KINDS: u64 = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
const TWO_SIDED: u64 = FI_SEND | FI_RECV;
const ONE_SIDED: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// `FI_REMOTE_COMM` as well: MPI libraries ask for it whatever they need. Only ranks of a job over nodes have peers on others;
/// elsewhere an address of another node is refused when it is used.
const REACH: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

const ALL: u64 =
    KINDS | TWO_SIDED | ONE_SIDED | REACH | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;

/// What is offered here and now. Where messages are logged, access to memory of peers is not: nobody
/// would be told of it again. MPI libraries then do the same by messages.
pub fn caps() -> u64 {
    if settings::is_logged() { ALL & !(FI_RMA | FI_ATOMIC | ONE_SIDED) } else { ALL }
}

const TX_CAPS: u64 = KINDS | FI_SEND | FI_READ | FI_WRITE;
const RX_CAPS: u64 = KINDS
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_MULTI_RECV
    | FI_DIRECTED_RECV
    | FI_SOURCE;

pub const TX_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MATCH_COMPLETE
    | FI_MORE;
pub const RX_FLAGS: u64 = FI_COMPLETION
    | FI_MULTI_RECV
    | FI_MORE
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;
/// Atomic operations of one endpoint on another's memory are done in their order.
pub const ORDER: u64 = FI_ORDER_SAS
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;

/// Bytes that may be injected.
pub const INJECT: usize = 4096;
/// What `fi_getinfo` says the address of an endpoint is that is not open yet: one of its own.
pub const ANY_SOURCE: &str = "taffrail:any";

/// Operations under way: as many as there is memory for.
pub const QUEUE: usize = 1 << 20;
/// Bytes that the text of a failure may take.
pub const ERROR_DATA: usize = 512;
/// Places of one message.
pub const IOV: usize = 8;
/// Longer than any memory. MPI libraries fail with a limit that they can reach.
pub const LONGEST: usize = isize::MAX as usize;

/// The answer to a wish that was found good.
pub fn to(wish: &Wish) -> Result<*mut fi_info, Refusal> {
    let answer = parts::allocate()?;
    let caps = match wish.info.caps {
        0 => caps(),
        asked => with_what_it_implies(asked),
    };
    // SAFETY: all parts were just allocated.
    unsafe {
        let info = &mut *answer;
        info.caps = caps;
        info.addr_format = ADDRESS_FORMAT;
        (info.src_addr, info.src_addrlen) = (parts::address(ANY_SOURCE)?, ADDRESS);
        if let Some(dest) = wish.destination() {
            (info.dest_addr, info.dest_addrlen) = (parts::address(dest)?, ADDRESS);
        }
        fill_transmit(&mut *info.tx_attr, wish, caps);
        fill_receive(&mut *info.rx_attr, wish, caps);
        fill_endpoint(&mut *info.ep_attr, wish);
        fill_domain(&mut *info.domain_attr, wish)?;
        (*info.fabric_attr).name = parts::text(FABRIC)?;
        (*info.fabric_attr).prov_version = crate::provider::VERSION;
    }
    Ok(answer)
}

/// Who asks for messages without saying which way wants both; likewise for memory of peers.
fn with_what_it_implies(asked: u64) -> u64 {
    let mut caps = asked | REACH;
    if caps & (FI_MSG | FI_TAGGED) != 0 && caps & TWO_SIDED == 0 {
        caps |= TWO_SIDED;
    }
    if caps & (FI_RMA | FI_ATOMIC) != 0 && caps & ONE_SIDED == 0 {
        caps |= ONE_SIDED;
    }
    caps
}

fn fill_transmit(tx: &mut fi_tx_attr, wish: &Wish, caps: u64) {
    tx.caps = caps & TX_CAPS;
    tx.op_flags = wish.tx.op_flags;
    tx.msg_order = ORDER;
    tx.inject_size = INJECT;
    tx.size = QUEUE;
    tx.iov_limit = IOV;
    tx.rma_iov_limit = 1;
}

fn fill_receive(rx: &mut fi_rx_attr, wish: &Wish, caps: u64) {
    rx.caps = caps & RX_CAPS;
    rx.op_flags = wish.rx.op_flags;
    rx.msg_order = ORDER;
    rx.size = QUEUE;
    rx.iov_limit = IOV;
}

fn fill_endpoint(ep: &mut fi_ep_attr, wish: &Wish) {
    ep.r#type = FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = 1;
    ep.max_msg_size = LONGEST;
    // Of atomic operations, which are all as short as this.
    ep.max_order_raw_size = Atomic::MAX_BYTES;
    ep.max_order_war_size = Atomic::MAX_BYTES;
    ep.max_order_waw_size = Atomic::MAX_BYTES;
    // All bits of a tag are the program's.
    ep.mem_tag_format = match wish.ep.mem_tag_format {
        0 => 0xaaaa_aaaa_aaaa_aaaa,
        asked => asked,
    };
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut fi_domain_attr, wish: &Wish) -> Result<(), Refusal> {
    domain.name = parts::text(DOMAIN)?;
    domain.threading = match wish.domain.threading {
        FI_THREAD_UNSPEC => FI_THREAD_SAFE,
        asked => asked,
    };
    let automatic = is_automatic(&wish.domain);
    let progress = if automatic { FI_PROGRESS_AUTO } else { FI_PROGRESS_MANUAL };
    domain.control_progress = progress;
    domain.data_progress = progress;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = match wish.domain.av_type {
        FI_AV_UNSPEC => FI_AV_TABLE,
        asked => asked,
    };
    // Nothing is asked of the program: keys are as it likes, addresses count from the start of the
    // memory. Only programs that know nothing else get the old way.
    domain.mr_mode = match wish.domain.mr_mode {
        mode @ (FI_MR_BASIC | FI_MR_SCALABLE) => mode,
        // Such programs know nothing but these two.
        _ if wish.version < version(1, 5) => FI_MR_SCALABLE,
        _ => 0,
    };
    domain.mr_key_size = 8;
    domain.cq_data_size = DATA_SIZE;
    domain.cq_cnt = 1024;
    domain.ep_cnt = 1024;
    domain.tx_ctx_cnt = 1024;
    domain.rx_ctx_cnt = 1024;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.cntr_cnt = 1024;
    domain.mr_iov_limit = 1;
    domain.mr_cnt = 65536;
    domain.max_err_data = ERROR_DATA;
    domain.caps = REACH;
    Ok(())
}
