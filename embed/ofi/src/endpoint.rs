//! Endpoints: one `taffrail::Endpoint` below each.

mod atomic;
mod binding;
mod departures;
mod ending;
mod finalize;
mod messages;
mod msg;
mod name;
mod operation;
mod options;
mod peek;
mod receiving;
mod rma;
mod sending;
mod stall;
mod tagged;

use crate::abi::constants::*;
use crate::abi::domain::fid_domain;
use crate::abi::ep::fid_ep;
use crate::abi::errno::{FI_EINVAL, FI_ENOAV, FI_EOTHER};
use crate::abi::fi_addr_t;
use crate::abi::fid::{fi_ops, fid};
use crate::abi::info::fi_info;
use crate::av::Av;
use crate::call::{Refusal, answer};
use crate::cntr::Cntr;
use crate::domain::{Domain, given};
use crate::say::say;
use crate::{over, room, settings, standby, unsupported};
use binding::Side;
use operation::Operation;
use rustc_hash::FxHashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use taffrail::{Claimed, Job, Rank};

/// Peers that an endpoint may have. Each costs memory only when it is there.
const SEATS: u32 = 4096;
/// A peer that has no rank here yet.
const NOBODY: Rank = Rank::MAX;
/// One that had a rank, and is gone.
const GONE: Rank = NOBODY - 1;

#[repr(C)]
pub struct Endpoint {
    fid: fid_ep,
    domain: *mut Domain,
    pub engine: taffrail::Endpoint,
    av: *mut Av,
    tx: Side,
    rx: Side,
    /// Counters of accesses to memory of peers.
    reads: *mut Cntr,
    writes: *mut Cntr,
    /// Operations under way, by the index of their request.
    operations: Vec<Operation>,
    /// The rank of each number of the address vector, and the number of each rank.
    ranks: Vec<Rank>,
    numbers: Vec<fi_addr_t>,
    /// Messages that were claimed, by the context of the operation that did so.
    claims: FxHashMap<usize, Claimed>,
    /// A multi-receive ends when fewer bytes are free.
    min_multi: usize,
    /// Receives may name a source.
    directed: bool,
    /// Peers may tell of their writes, which is to be awaited.
    takes_notices: bool,
    /// What happens is logged and replayed.
    is_logged: bool,
    /// It is replayed while the ranks that it talks to are not.
    pub is_replayed_alone: bool,
    /// Peers that it was said of why they are refused.
    refused: Vec<Rank>,
    stall: stall::Stall,
    /// Completions tell the source.
    tells_source: bool,
    /// An operation was started since the program has last looked for the end of one.
    pub has_started: bool,
}

static FID: fi_ops =
    fi_ops { close, bind: binding::bind, control: binding::control, ..unsupported::FID };

/// `fi_endpoint`. The endpoint has its address from now on.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    answer("fi_endpoint", || {
        let domain: *mut Domain = domain.cast();
        let info = given(info, "info")?;
        // SAFETY: an open domain, an info of ours, a place for the answer.
        unsafe {
            if info.ep_attr.as_ref().is_some_and(|attr| attr.r#type > FI_EP_RDM) {
                return Err(Refusal::new(FI_EINVAL, "only reliable datagrams (FI_EP_RDM)"));
            }
            let engine = join()?;
            room::say_if_little();
            let made = Box::new(Endpoint {
                fid: fid_ep {
                    fid: fid { fclass: FI_CLASS_EP, context, ops: &FID },
                    ops: &options::OPS,
                    cm: &name::OPS,
                    msg: msg::ops((*domain).safe),
                    rma: rma::ops((*domain).safe),
                    tagged: tagged::ops((*domain).safe),
                    atomic: atomic::ops((*domain).safe),
                    collective: &unsupported::COLLECTIVE,
                },
                domain,
                av: null_mut(),
                tx: Side::new(info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags)),
                rx: Side::new(info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags)),
                reads: null_mut(),
                writes: null_mut(),
                operations: Vec::new(),
                ranks: Vec::new(),
                numbers: Vec::new(),
                claims: FxHashMap::default(),
                min_multi: 64,
                directed: info.caps & FI_DIRECTED_RECV != 0,
                takes_notices: info.caps & FI_RMA != 0 && info.caps & FI_REMOTE_WRITE != 0,
                is_logged: settings::is_logged(),
                is_replayed_alone: engine.logs_payload(),
                engine,
                refused: Vec::new(),
                stall: stall::Stall::default(),
                tells_source: info.caps & FI_SOURCE != 0,
                has_started: false,
            });
            tracing::info!("an endpoint at {}", made.engine.address());
            let made = Box::into_raw(made);
            over::opened()
                .and_then(|()| match (*made).is_logged {
                    true => standby::begin(made, &raw const (*domain).lock),
                    false => Ok(()),
                })
                .map_err(|error| Refusal::new(FI_EOTHER, error.to_string()))?;
            let _guard = (*domain).lock.take();
            // Where messages are logged, peers that are gone come back.
            if !(*made).is_logged {
                (*made).watch_departures();
            }
            let state = &mut (*domain).state;
            if let Some(progress) = &state.progress {
                progress.add(&*made).inspect_err(|_| drop(Box::from_raw(made)))?;
            }
            for (key, region) in state.regions.all() {
                (*made).expose(key, region);
            }
            state.endpoints.push(made);
            state.users += 1;
            ep.write(made.cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(ep)", || {
        let endpoint: *mut Endpoint = object.cast();
        // SAFETY: an open endpoint, made by `open`. What it is bound to is open as long as it is.
        unsafe {
            let domain = (*endpoint).domain;
            finalize::wait(endpoint);
            let away = (*endpoint).is_logged.then(standby::keep_away);
            let _guard = (*domain).lock.take();
            binding::let_go(endpoint);
            let state = &mut (*domain).state;
            if let Some(progress) = &state.progress {
                progress.remove(&*endpoint);
            }
            state.endpoints.retain(|&other| other != endpoint);
            state.users -= 1;
            let closed = Box::from_raw(endpoint);
            match away {
                Some(away) => away.close(closed),
                None => drop(closed),
            }
            over::closed();
        }
        Ok(0)
    })
}

/// Joins the job of `taffrail run`, or whoever tells us of themselves.
fn join() -> Result<taffrail::Endpoint, taffrail::Error> {
    Job::embedded(SEATS)?.endpoint_with(settings::of_endpoint()?)
}

impl Endpoint {
    /// Makes progress in the place of the program, which may sleep until there is some.
    pub fn stand_in(&mut self) -> usize {
        let happened = self.engine.stand_in();
        if happened > 0 {
            self.wake();
        }
        happened
    }

    /// Prepares a sleep of somebody else than the program: whether there is nothing to be made progress with.
    pub fn arm(&mut self) -> bool {
        let is_armed = self.engine.arm();
        // It may have found out that a peer is dead.
        if !is_armed {
            self.wake();
        }
        is_armed
    }

    /// Wakes the program.
    fn wake(&self) {
        // SAFETY: what the endpoint is bound to is open.
        unsafe {
            for cq in [self.tx.cq, self.rx.cq] {
                cq.as_ref().inspect(|cq| cq.bound.ring());
            }
            for cntr in [self.tx.cntr, self.rx.cntr, self.reads, self.writes] {
                cntr.as_ref().inspect(|cntr| cntr.bound.ring());
            }
        }
    }

    /// The rank that a number of the address vector stands for. Connects where that has not been done.
    #[inline(always)]
    fn rank(&mut self, number: fi_addr_t) -> Result<Rank, c_int> {
        match self.ranks.get(number as usize) {
            Some(&rank) if rank < GONE => Ok(rank),
            _ => self.connect(number),
        }
    }

    #[cold]
    fn connect(&mut self, number: fi_addr_t) -> Result<Rank, c_int> {
        let refuse = |refusal: Refusal| {
            tracing::warn!("address {number}: {refusal}");
            say(&format!("no way to the peer with the address {number}: {refusal}"));
            refusal.errno
        };
        // SAFETY: what the endpoint is bound to is open.
        let Some(av) = (unsafe { self.av.as_ref() }) else {
            return Err(refuse(Refusal::new(FI_ENOAV, "no address vector is bound")));
        };
        let Some(address) = av.address(number) else {
            return Err(refuse(Refusal::new(FI_EINVAL, "it was not inserted, or removed")));
        };
        let rank = self.engine.connect(address).map_err(|error| refuse(error.into()))?;
        if self.ranks.get(number as usize) == Some(&GONE) {
            // That it cannot be reached is no news.
            self.refused.push(rank);
        }
        self.introduce(number, rank);
        Ok(rank)
    }

    fn introduce(&mut self, number: fi_addr_t, rank: Rank) {
        let (at, back) = (number as usize, rank as usize);
        if self.ranks.len() <= at {
            self.ranks.resize(at + 1, NOBODY);
        }
        if self.numbers.len() <= back {
            self.numbers.resize(back + 1, FI_ADDR_NOTAVAIL);
        }
        self.ranks[at] = rank;
        self.numbers[back] = number;
    }

    /// The number of a rank that has sent something, if its address was inserted.
    #[inline]
    fn source(&mut self, rank: Rank) -> fi_addr_t {
        if !self.tells_source {
            return FI_ADDR_NOTAVAIL;
        }
        match self.numbers.get(rank as usize) {
            Some(&number) if number != FI_ADDR_NOTAVAIL => number,
            _ => self.find_source(rank),
        }
    }

    #[cold]
    fn find_source(&mut self, rank: Rank) -> fi_addr_t {
        // SAFETY: what the endpoint is bound to is open.
        let av = unsafe { self.av.as_ref() };
        let number = av.zip(self.engine.peer_address(rank)).and_then(|(av, text)| av.number(text));
        if let Some(number) = number {
            self.introduce(number, rank);
        }
        number.unwrap_or(FI_ADDR_NOTAVAIL)
    }

    /// A number of the address vector stands for nobody any more.
    pub fn forget(&mut self, number: fi_addr_t) {
        let Some(rank) = self.ranks.get_mut(number as usize) else { return };
        if let Some(back) = self.numbers.get_mut(*rank as usize) {
            *back = FI_ADDR_NOTAVAIL;
        }
        *rank = NOBODY;
    }
}
