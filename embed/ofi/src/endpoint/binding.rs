//! What an endpoint is bound to, and how it is enabled.

use super::Endpoint;
use crate::abi::constants::*;
use crate::abi::errno::*;
use crate::abi::fid::fid;
use crate::av::Av;
use crate::call::{Refusal, answer};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::given;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// One direction.
pub struct Side {
    pub cq: *mut Cq,
    pub cntr: *mut Cntr,
    /// Only operations that ask for it make entries.
    pub selective: bool,
    /// What operations without flags of their own have.
    pub op_flags: u64,
    /// Such operations make entries.
    pub tells: bool,
}

impl Side {
    pub fn new(op_flags: u64) -> Side {
        Side { cq: null_mut(), cntr: null_mut(), selective: false, op_flags, tells: true }
    }

    /// Whether an operation with these flags makes an entry.
    #[inline]
    pub fn tells_of(&self, flags: u64) -> bool {
        !self.selective || flags & FI_COMPLETION != 0
    }

    fn set_flags(&mut self, op_flags: u64) {
        self.op_flags = op_flags;
        self.tells = self.tells_of(op_flags);
    }
}

/// `fi_ep_bind`.
pub unsafe extern "C" fn bind(object: *mut fid, other: *mut fid, flags: u64) -> c_int {
    answer("fi_ep_bind", || {
        let endpoint: *mut Endpoint = object.cast();
        let class = given(other, "the object")?.fclass;
        // SAFETY: an open endpoint, and an open object of that class.
        unsafe {
            let _guard = (*(*endpoint).domain).lock.take();
            match class {
                FI_CLASS_AV => bind_av(endpoint, other.cast()),
                FI_CLASS_CQ => bind_cq(endpoint, other.cast(), flags),
                FI_CLASS_CNTR => bind_cntr(endpoint, other.cast(), flags),
                FI_CLASS_EQ => Ok(0),
                _ => Err(Refusal::new(FI_EINVAL, format!("an object of class {class}"))),
            }
        }
    })
}

unsafe fn bind_av(endpoint: *mut Endpoint, av: *mut Av) -> Result<c_int, Refusal> {
    // SAFETY: both are open, and the lock is held.
    unsafe {
        if !(*endpoint).av.is_null() || (*av).domain() != (*endpoint).domain {
            return Err(Refusal::new(FI_EINVAL, "one address vector of the same domain"));
        }
        (*endpoint).av = av;
        (*av).endpoints.push(endpoint);
    }
    Ok(0)
}

unsafe fn bind_cq(endpoint: *mut Endpoint, cq: *mut Cq, flags: u64) -> Result<c_int, Refusal> {
    let directions = FI_SEND | FI_RECV;
    if flags & directions == 0 || flags & !(directions | FI_SELECTIVE_COMPLETION) != 0 {
        return Err(Refusal::new(FI_EBADFLAGS, format!("a queue for {flags:#x}")));
    }
    // SAFETY: both are open, and the lock is held.
    unsafe {
        if (*cq).domain != (*endpoint).domain {
            return Err(Refusal::new(FI_EINVAL, "a queue of another domain"));
        }
        let endpoint_ref = &mut *endpoint;
        for (direction, side) in [(FI_SEND, &mut endpoint_ref.tx), (FI_RECV, &mut endpoint_ref.rx)]
        {
            if flags & direction == 0 {
                continue;
            }
            if !side.cq.is_null() {
                return Err(Refusal::new(FI_EINVAL, "there is a queue for this direction"));
            }
            side.cq = cq;
            side.selective = flags & FI_SELECTIVE_COMPLETION != 0;
            side.set_flags(side.op_flags);
        }
        (*cq).bound.bind(endpoint)?;
    }
    Ok(0)
}

unsafe fn bind_cntr(
    endpoint: *mut Endpoint,
    cntr: *mut Cntr,
    flags: u64,
) -> Result<c_int, Refusal> {
    let offered = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
    if flags & offered == 0 || flags & !offered != 0 {
        let why = format!("a counter for {flags:#x}; what peers do is not counted");
        return Err(Refusal::new(FI_ENOSYS, why));
    }
    // SAFETY: both are open, and the lock is held.
    unsafe {
        let bound = &mut *endpoint;
        for (direction, place) in [
            (FI_SEND, &mut bound.tx.cntr),
            (FI_RECV, &mut bound.rx.cntr),
            (FI_READ, &mut bound.reads),
            (FI_WRITE, &mut bound.writes),
        ] {
            if flags & direction != 0 {
                *place = cntr;
            }
        }
        (*cntr).bound.bind(endpoint)?;
    }
    Ok(0)
}

/// Lets go of everything that the endpoint is bound to.
///
/// # Safety
/// An open endpoint, and the lock.
pub unsafe fn let_go(endpoint: *mut Endpoint) {
    // SAFETY: what it is bound to is open.
    unsafe {
        if let Some(av) = (*endpoint).av.as_mut() {
            av.endpoints.retain(|&bound| bound != endpoint);
        }
        for cq in [(*endpoint).tx.cq, (*endpoint).rx.cq] {
            if let Some(cq) = cq.as_mut() {
                cq.bound.unbind(endpoint);
            }
        }
        let sides = [(*endpoint).tx.cntr, (*endpoint).rx.cntr];
        for cntr in [sides[0], sides[1], (*endpoint).reads, (*endpoint).writes] {
            if let Some(cntr) = cntr.as_mut() {
                cntr.bound.unbind(endpoint);
            }
        }
    }
}

/// `fi_enable`, and flags of operations.
pub unsafe extern "C" fn control(object: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    answer("fi_control(ep)", || {
        let endpoint: *mut Endpoint = object.cast();
        // SAFETY: an open endpoint, and what the command asks for.
        unsafe {
            let _guard = (*(*endpoint).domain).lock.take();
            match command {
                FI_ENABLE => (*endpoint).enable(),
                FI_GETOPSFLAG | FI_SETOPSFLAG => {
                    given(arg, "the flags")?;
                    (*endpoint).operation_flags(command, &mut *arg.cast())
                }
                _ => Err(Refusal::new(FI_ENOSYS, format!("the command {command}"))),
            }
        }
    })
}

impl Endpoint {
    fn enable(&mut self) -> Result<c_int, Refusal> {
        if self.av.is_null() {
            return Err(Refusal::new(FI_ENOAV, "bind an address vector first"));
        }
        let no_queue = |side: &Side| side.cq.is_null() && side.cntr.is_null();
        if no_queue(&self.tx) && no_queue(&self.rx) {
            return Err(Refusal::new(FI_ENOCQ, "bind a completion queue first"));
        }
        if self.takes_notices {
            self.await_notice();
            self.takes_notices = false;
        }
        Ok(0)
    }

    fn operation_flags(&mut self, command: c_int, flags: &mut u64) -> Result<c_int, Refusal> {
        let side = match *flags & (FI_SEND | FI_RECV) {
            FI_SEND => &mut self.tx,
            FI_RECV => &mut self.rx,
            _ => return Err(Refusal::new(FI_EINVAL, "FI_TRANSMIT or FI_RECV")),
        };
        if command == FI_GETOPSFLAG {
            *flags = side.op_flags;
        } else {
            side.set_flags(*flags & !(FI_SEND | FI_RECV));
        }
        Ok(0)
    }
}
