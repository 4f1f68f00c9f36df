//! What a program asks for, and whether it can have it.

use super::{ADDRESS, ADDRESS_FORMAT, DATA_SIZE, offer};
use crate::abi::constants::*;
use crate::abi::errno::FI_ENODATA;
use crate::abi::info::*;
use crate::av::{Address, padded, text as text_of};
use crate::call::Refusal;
use std::ffi::{CStr, c_char};
use taffrail::Atomic;

/// The hints, copied. Parts that the program has not given are all zero, which asks for nothing.
pub struct Wish {
    /// The version of libfabric that the program was written for.
    pub version: u32,
    pub info: fi_info,
    pub tx: fi_tx_attr,
    pub rx: fi_rx_attr,
    pub ep: fi_ep_attr,
    pub domain: fi_domain_attr,
    fabric_name: Option<String>,
    domain_name: Option<String>,
}

impl Wish {
    /// # Safety
    /// Null, or hints as the headers describe them.
    pub unsafe fn read(version: u32, hints: *const fi_info) -> Wish {
        // SAFETY: the caller's promise; all of these structures may be zero.
        unsafe {
            let zero_or = |at: *const fi_info| at.as_ref().copied().unwrap_or(std::mem::zeroed());
            let info = zero_or(hints);
            let domain = copy(info.domain_attr);
            let fabric: fi_fabric_attr = copy(info.fabric_attr);
            Wish {
                version,
                tx: copy(info.tx_attr),
                rx: copy(info.rx_attr),
                ep: copy(info.ep_attr),
                fabric_name: text(fabric.name),
                domain_name: text(domain.name),
                domain,
                info,
            }
        }
    }

    /// The address of a peer that the program has given in our form, which is handed back.
    pub fn destination(&self) -> Option<&str> {
        let (at, len) = (self.info.dest_addr, self.info.dest_addrlen);
        if len != ADDRESS || self.info.addr_format != ADDRESS_FORMAT {
            return None;
        }
        // SAFETY: a program that gives an address gives as many bytes as it says.
        unsafe { at.cast::<Address>().as_ref() }.and_then(text_of)
    }

    /// Refuses what cannot be had, saying what it was.
    pub fn check(&self, flags: u64) -> Result<(), Refusal> {
        self.check_names()?;
        self.check_source(flags)?;
        within("caps", self.info.caps, offer::caps())?;
        one_of("addr_format", self.info.addr_format, &[FI_FORMAT_UNSPEC, ADDRESS_FORMAT])?;
        self.check_transmit()?;
        self.check_receive()?;
        self.check_endpoint()?;
        self.check_domain()
    }

    fn check_names(&self) -> Result<(), Refusal> {
        let names = [
            ("fabric_attr->name", &self.fabric_name, offer::FABRIC),
            ("domain_attr->name", &self.domain_name, offer::DOMAIN),
        ];
        for (what, got, ours) in names {
            let ours = ours.to_string_lossy();
            if let Some(got) = got.as_deref().filter(|got| *got != ours) {
                return Err(no(format!("{what}: asked for {got:?}, there is {ours}")));
            }
        }
        Ok(())
    }

    /// An endpoint gets an address of its own when it is opened: no other can be asked for. A program may
    /// hand back what it was given, and with `FI_SOURCE` the node and the service count instead.
    fn check_source(&self, flags: u64) -> Result<(), Refusal> {
        let (at, len) = (self.info.src_addr, self.info.src_addrlen);
        if at.is_null() || flags & FI_SOURCE != 0 {
            return Ok(());
        }
        // SAFETY: a program that gives an address gives as many bytes as it says.
        let asked = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) };
        match padded(offer::ANY_SOURCE) {
            Some(ours) if asked == ours => Ok(()),
            _ => Err(no("src_addr: an endpoint gets an address of its own (fi_getname)".into())),
        }
    }

    fn check_transmit(&self) -> Result<(), Refusal> {
        let tx = &self.tx;
        within("tx_attr->caps", tx.caps, offer::caps())?;
        within("tx_attr->op_flags", tx.op_flags, offer::TX_FLAGS)?;
        within("tx_attr->msg_order", tx.msg_order, offer::ORDER)?;
        within("tx_attr->comp_order", tx.comp_order, 0)?;
        at_most("tx_attr->inject_size", tx.inject_size, offer::INJECT)?;
        at_most("tx_attr->size", tx.size, offer::QUEUE)?;
        at_most("tx_attr->iov_limit", tx.iov_limit, offer::IOV)?;
        at_most("tx_attr->rma_iov_limit", tx.rma_iov_limit, 1)
    }

    fn check_receive(&self) -> Result<(), Refusal> {
        let rx = &self.rx;
        within("rx_attr->caps", rx.caps, offer::caps())?;
        within("rx_attr->op_flags", rx.op_flags, offer::RX_FLAGS)?;
        within("rx_attr->msg_order", rx.msg_order, offer::ORDER)?;
        within("rx_attr->comp_order", rx.comp_order, 0)?;
        at_most("rx_attr->size", rx.size, offer::QUEUE)?;
        at_most("rx_attr->iov_limit", rx.iov_limit, offer::IOV)
    }

    fn check_endpoint(&self) -> Result<(), Refusal> {
        let ep = &self.ep;
        one_of("ep_attr->type", ep.r#type, &[FI_EP_UNSPEC, FI_EP_RDM])?;
        one_of("ep_attr->protocol", ep.protocol, &[FI_PROTO_UNSPEC, offer::PROTOCOL])?;
        at_most("ep_attr->max_msg_size", ep.max_msg_size, offer::LONGEST)?;
        at_most("ep_attr->msg_prefix_size", ep.msg_prefix_size, 0)?;
        let ordered = Atomic::MAX_BYTES;
        at_most("ep_attr->max_order_raw_size", ep.max_order_raw_size, ordered)?;
        at_most("ep_attr->max_order_war_size", ep.max_order_war_size, ordered)?;
        at_most("ep_attr->max_order_waw_size", ep.max_order_waw_size, ordered)?;
        at_most("ep_attr->tx_ctx_cnt", ep.tx_ctx_cnt, 1)?;
        at_most("ep_attr->rx_ctx_cnt", ep.rx_ctx_cnt, 1)?;
        at_most("ep_attr->auth_key_size", ep.auth_key_size, 0)
    }

    fn check_domain(&self) -> Result<(), Refusal> {
        let domain = &self.domain;
        at_most("domain_attr->threading", domain.threading as usize, FI_THREAD_ENDPOINT as usize)?;
        at_most("domain_attr->av_type", domain.av_type as usize, FI_AV_TABLE as usize)?;
        at_most("domain_attr->mr_key_size", domain.mr_key_size, 8)?;
        at_most("domain_attr->cq_data_size", domain.cq_data_size, DATA_SIZE)?;
        at_most("domain_attr->max_ep_tx_ctx", domain.max_ep_tx_ctx, 1)?;
        at_most("domain_attr->max_ep_rx_ctx", domain.max_ep_rx_ctx, 1)?;
        at_most("domain_attr->max_ep_stx_ctx", domain.max_ep_stx_ctx, 0)?;
        at_most("domain_attr->max_ep_srx_ctx", domain.max_ep_srx_ctx, 0)?;
        at_most("domain_attr->auth_key_size", domain.auth_key_size, 0)?;
        within("domain_attr->caps", domain.caps, FI_LOCAL_COMM | FI_REMOTE_COMM)
    }
}

/// # Safety
/// Null, or a pointer to such a structure, all of which may be zero.
unsafe fn copy<T: Copy>(at: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref().copied().unwrap_or(std::mem::zeroed()) }
}

/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

fn no(why: String) -> Refusal {
    Refusal::new(FI_ENODATA, why)
}

fn within(what: &str, asked: u64, ours: u64) -> Result<(), Refusal> {
    let more = asked & !ours;
    if more == 0 { Ok(()) } else { Err(no(format!("{what}: {more:#x} is not offered"))) }
}

fn at_most(what: &str, asked: usize, ours: usize) -> Result<(), Refusal> {
    if asked <= ours {
        Ok(())
    } else {
        Err(no(format!("{what}: asked for {asked}, there is {ours}")))
    }
}

fn one_of(what: &str, asked: u32, ours: &[u32]) -> Result<(), Refusal> {
    if ours.contains(&asked) { Ok(()) } else { Err(no(format!("{what}: {asked} is not offered"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::version;

    fn wish() -> Wish {
        // SAFETY: a program without hints.
        unsafe { Wish::read(version(1, 17), std::ptr::null()) }
    }

    #[test]
    fn who_asks_for_nothing_is_served() {
        assert_eq!(wish().check(0), Ok(()));
    }

    #[test]
    fn what_mpi_libraries_ask_for_is_offered() {
        let mut open_mpi = wish();
        open_mpi.info.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_MSG;
        open_mpi.info.mode = (1 << 59) | (1 << 52);
        open_mpi.ep.r#type = FI_EP_RDM;
        open_mpi.domain.threading = FI_THREAD_DOMAIN;
        open_mpi.domain.av_type = FI_AV_MAP;
        open_mpi.domain.cq_data_size = 4;
        open_mpi.domain.control_progress = FI_PROGRESS_MANUAL;
        open_mpi.tx.msg_order = FI_ORDER_SAS;
        open_mpi.tx.op_flags = FI_COMPLETION;
        assert_eq!(open_mpi.check(0), Ok(()));
    }

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        let refused = |change: fn(&mut Wish)| {
            let mut wish = wish();
            change(&mut wish);
            let refusal = wish.check(0).expect_err("a refusal");
            assert_eq!(refusal.errno, FI_ENODATA);
            refusal.why
        };
        assert!(refused(|w| w.info.caps = 1 << 5).starts_with("caps: 0x20 "));
        assert!(refused(|w| w.ep.r#type = 1).contains("ep_attr->type"));
        assert!(refused(|w| w.domain.cq_data_size = 8).contains("asked for 8, there is 4"));
        assert!(
            refused(|w| w.fabric_name = Some("ib0".into()))
                .contains("asked for \"ib0\", there is ")
        );
        assert!(refused(|w| w.tx.inject_size = 1 << 20).contains("inject_size"));
        assert!(refused(|w| w.rx.op_flags = FI_FENCE).contains("rx_attr->op_flags"));
        assert!(refused(|w| w.ep.max_order_waw_size = 1 << 20).contains("max_order_waw_size"));
        assert!(refused(|w| w.ep.msg_prefix_size = 8).contains("msg_prefix_size"));
        let mut other = *b"somewhere else";
        let mut asked = wish();
        (asked.info.src_addr, asked.info.src_addrlen) = (other.as_mut_ptr().cast(), other.len());
        assert!(asked.check(0).expect_err("a refusal").why.contains("src_addr"));
        assert_eq!(asked.check(FI_SOURCE), Ok(()), "node and service count");
    }
}
