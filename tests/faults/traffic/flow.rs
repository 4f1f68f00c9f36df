//! One lane in one direction: at most one message under way, and the next when that is over.

use super::lanes::Lane;
use super::{Plan, of, pattern};
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use taffrail::{Buffer, Dest, Endpoint, Error, Rank, Request, Status};

/// Bytes of the buffer of the lane of many messages in one buffer.
const MULTI: usize = 256 << 10;
const MULTI_LEAST: usize = 128 << 10;

/// The sending end.
pub struct Outflow {
    lane: Lane,
    plan: Plan,
    next: u64,
    request: Option<Request>,
    bytes: Vec<u8>,
    own: Option<Buffer>,
}

impl Outflow {
    pub fn new(lane: Lane, plan: Plan) -> Self {
        Outflow { lane, plan, next: 0, request: None, bytes: Vec::new(), own: None }
    }

    pub fn lane(&self) -> Lane {
        self.lane
    }

    pub fn count(&self) -> u64 {
        self.next
    }

    pub fn is_quiet(&self) -> bool {
        self.request.is_none()
    }

    pub fn state(&self) -> (Lane, u64, bool) {
        (self.lane, self.next, self.request.is_some())
    }

    /// Ends what is over, and starts the next message if `more`.
    pub fn step(&mut self, endpoint: &mut Endpoint, to: Rank, more: bool) -> Result<(), Error> {
        if let Some(request) = self.request {
            match endpoint.test(request) {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {
                    self.request = None;
                    self.next += 1;
                }
                Err(error) => {
                    self.request = None;
                    return Err(error);
                }
            }
        }
        if more { self.start(endpoint, to) } else { Ok(()) }
    }

    fn start(&mut self, endpoint: &mut Endpoint, to: Rank) -> Result<(), Error> {
        let key = self.plan.key(endpoint.rank(), to, self.lane as u64, self.next);
        let len = self.lane.len(key);
        let dest = Dest::new(to, self.lane as u64);
        if self.lane == Lane::Mapped || self.lane == Lane::Viewed && key & 1 == 0 {
            let mut buffer = match self.own.take().filter(|own| own.len() >= len) {
                Some(buffer) => buffer,
                None => endpoint.alloc(len.next_power_of_two()).expect("memory"),
            };
            pattern::fill(key, &mut buffer[..len]);
            if self.lane == Lane::Viewed {
                buffer.truncate(len);
                endpoint.loan(dest, buffer)?;
                self.next += 1;
                return Ok(());
            }
            let at = buffer.as_ptr();
            self.own = Some(buffer);
            // SAFETY: the buffer is kept, unchanged, until the request is over.
            self.request = Some(unsafe { endpoint.isend_raw(dest, at, len)? });
            return Ok(());
        }
        self.bytes.resize(len, 0);
        pattern::fill(key, &mut self.bytes);
        let (at, third) = (self.bytes.as_ptr(), len / 3);
        let (a, b) = self.bytes.split_at(third);
        // SAFETY: the bytes stay as they are until the request is over.
        let request = unsafe {
            match self.lane {
                Lane::Sync => endpoint.isend_sync_raw(dest, at, len)?,
                Lane::Vectored => {
                    let parts = [IoSlice::new(a), IoSlice::new(&[]), IoSlice::new(b)];
                    endpoint.isend_vectored_raw(dest, &parts)?
                }
                Lane::Active => {
                    endpoint.send_am(to, 1, self.next, &self.bytes)?;
                    self.next += 1;
                    return Ok(());
                }
                _ => endpoint.isend_raw(dest, at, len)?,
            }
        };
        self.request = Some(request);
        Ok(())
    }
}

/// The receiving end.
pub struct Inflow {
    lane: Lane,
    plan: Plan,
    next: u64,
    request: Option<Request>,
    bytes: Vec<u8>,
    /// Turns to wait before the next receive is posted, so that messages come unexpected.
    pause: u32,
    random: fastrand::Rng,
    /// Messages of the buffer of many that have landed and not been checked, by offset, and where
    /// the next one must be.
    landed: BTreeMap<usize, Status>,
    end: usize,
}

impl Inflow {
    pub fn new(lane: Lane, plan: Plan) -> Self {
        let random = fastrand::Rng::with_seed(plan.seed ^ lane as u64);
        Inflow {
            lane,
            plan,
            next: 0,
            request: None,
            bytes: Vec::new(),
            pause: 0,
            random,
            landed: BTreeMap::new(),
            end: 0,
        }
    }

    pub fn count(&self) -> u64 {
        self.next
    }

    pub fn is_quiet(&self) -> bool {
        self.request.is_none()
    }

    pub fn state(&self) -> (Lane, u64, bool) {
        (self.lane, self.next, self.request.is_some())
    }

    /// Takes what has come, and posts the next receive if `more`.
    pub fn step(&mut self, endpoint: &mut Endpoint, from: Rank, more: bool) -> Result<(), Error> {
        match self.lane {
            Lane::Active => return Ok(()),
            Lane::Multi => return self.step_multi(endpoint, from, more),
            Lane::Claimed | Lane::Viewed if more => return self.take(endpoint, from),
            Lane::Claimed | Lane::Viewed => return Ok(()),
            _ => {}
        }
        if let Some(request) = self.request {
            match endpoint.test(request) {
                Ok(None) => return Ok(()),
                Ok(Some(status)) => {
                    self.request = None;
                    self.check(endpoint.rank(), from, status, 0);
                    self.pause = if self.random.bool() { self.random.u32(..20) } else { 0 };
                }
                Err(error) => {
                    self.request = None;
                    return Err(error);
                }
            }
        }
        if !more || self.pause > 0 {
            self.pause = self.pause.saturating_sub(1);
            return Ok(());
        }
        self.bytes.resize(self.lane.longest(), 0);
        let (at, room) = (self.bytes.as_mut_ptr(), self.bytes.len());
        // SAFETY: the bytes are used by nobody else until the request is over.
        self.request = Some(unsafe {
            if self.lane == Lane::Vectored {
                let (a, b) = self.bytes.split_at_mut(room / 50);
                let mut parts = [IoSliceMut::new(a), IoSliceMut::new(b)];
                endpoint.irecv_vectored_raw(of(from, self.lane), &mut parts)?
            } else {
                endpoint.irecv_raw(of(from, self.lane), at, room)?
            }
        });
        Ok(())
    }

    /// Takes a message that is there.
    fn take(&mut self, endpoint: &mut Endpoint, from: Rank) -> Result<(), Error> {
        if self.lane == Lane::Viewed {
            if endpoint.probe(of(from, self.lane))?.is_some() {
                let view = endpoint.recv_view(of(from, self.lane))?;
                self.bytes.clear();
                self.bytes.extend_from_slice(&view);
                self.check(endpoint.rank(), from, view.status(), 0);
            }
            return Ok(());
        }
        if let Some(claimed) = endpoint.claim(of(from, self.lane))? {
            self.bytes.resize(self.lane.longest(), 0);
            if self.random.bool() {
                // The rest of it, or the end of its sender, may come in between.
                endpoint.progress();
                std::thread::yield_now();
            }
            let status = endpoint.recv_claimed(claimed, &mut self.bytes)?;
            self.check(endpoint.rank(), from, status, 0);
        }
        Ok(())
    }

    fn step_multi(&mut self, endpoint: &mut Endpoint, from: Rank, more: bool) -> Result<(), Error> {
        let Some(request) = self.request else {
            if !more {
                return Ok(());
            }
            self.bytes.resize(MULTI, 0);
            let at = self.bytes.as_mut_ptr();
            // SAFETY: the bytes are used by nobody else until the request is over.
            let request =
                unsafe { endpoint.irecv_multi_raw(of(from, self.lane), at, MULTI, MULTI_LEAST)? };
            self.request = Some(request);
            self.landed.clear();
            self.end = 0;
            return Ok(());
        };
        self.take_landed(endpoint, request, from)?;
        match endpoint.test(request) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                self.request = None;
                Ok(())
            }
            Err(error) => {
                self.request = None;
                Err(error)
            }
        }
    }

    /// Checks what has landed. Long messages land after shorter ones that came later.
    fn take_landed(
        &mut self,
        endpoint: &mut Endpoint,
        request: Request,
        from: Rank,
    ) -> Result<(), Error> {
        while let Some(landed) = endpoint.landed(request)? {
            self.landed.insert(landed.offset, landed.status);
        }
        while let Some(status) = self.landed.remove(&self.end) {
            self.check(endpoint.rank(), from, status, self.end);
            self.end = (self.end + status.len).next_multiple_of(8);
        }
        Ok(())
    }

    /// Checks that the next message of the lane lies at `offset`.
    fn check(&mut self, me: Rank, from: Rank, status: Status, offset: usize) {
        let key = self.plan.key(from, me, self.lane as u64, self.next);
        let what = format!("{:?} {} from rank {from}", self.lane, self.next);
        assert_eq!(status.len, self.lane.len(key), "length of {what}");
        assert_eq!((status.source, status.tag), (from, self.lane as u64), "{what}");
        pattern::check(key, &self.bytes[offset..offset + status.len], format_args!("{what}"));
        self.next += 1;
    }

    /// Takes the whole messages that a peer has left, which is gone. They end with an error.
    pub fn take_rest(&mut self, endpoint: &mut Endpoint, from: Rank) {
        // One of many that was on its way is missing among these.
        if matches!(self.lane, Lane::Active | Lane::Multi) {
            return;
        }
        self.bytes.resize(self.lane.longest(), 0);
        loop {
            match endpoint.recv(of(from, self.lane), &mut self.bytes) {
                Ok(status) => self.check(endpoint.rank(), from, status, 0),
                Err(Error::PeerFailed { rank, .. }) if rank == from => return,
                Err(error) => panic!("the rest of {:?} from rank {from}: {error}", self.lane),
            }
        }
    }

    /// Ends the receive that no message will come for.
    pub fn cancel(&mut self, endpoint: &mut Endpoint, from: Rank) {
        let Some(request) = self.request.take() else { return };
        let cancelled = endpoint.cancel(request).expect("it is under way");
        if self.lane == Lane::Multi {
            self.take_landed(endpoint, request, from).expect("nothing has failed");
        }
        match endpoint.wait(request) {
            Err(Error::Cancelled) if cancelled => {}
            Err(Error::PeerFailed { rank, .. }) if rank == from => {}
            Ok(_) if self.lane == Lane::Multi => {}
            // The last word was overtaken: what is eager has been sent before it is received.
            Ok(status) if !cancelled => self.check(endpoint.rank(), from, status, 0),
            other => panic!("{:?} from rank {from}, cancelled {cancelled}: {other:?}", self.lane),
        }
    }
}
