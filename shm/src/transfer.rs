//! Gets and puts: by mapping, by the kernel, or by the kernel with both sides moving.

use crate::cooperative_copy::{Cell, Pull, PullError, Push, PushStep, Step};
use crate::copy;
use crate::pair::PeerLink;
use crate::regions::{self, Key};
use crate::ring::slots_for;
use crate::shm_fabric::{ASSIST, ShmFabric};
use crate::{cma, ring};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use taffrail_fabric::words::counted;
use taffrail_fabric::{
    Cost, Denied, Fabric, Fault, Head, Keep, PeerId, Reach, Refused, RegionId, RemoteKey, Token,
    UserBuf, UserBytes,
};

/// Bytes moved through the kernel in one step.
const STEP: usize = 256 * 1024;
/// Gets of at least this many bytes are worth announcing to the owner.
const ASSIST_FROM: usize = 256 * 1024;

/// How long a peer that was cut off may take to finish the piece it is at.
const COURTESY: Duration = Duration::from_secs(1);

/// A transfer in steps.
struct Move {
    peer: PeerId,
    token: Token,
    remote: Remote,
    local: *mut u8,
    len: usize,
    done: usize,
    /// Towards the peer.
    write: bool,
    /// Both sides move.
    pull: Option<Pull>,
    /// What to report once the owner's last piece has landed, and when it is reported in any case.
    failing: Option<(Fault, Instant)>,
}

/// Our part of a peer's get.
struct Pushing {
    peer: PeerId,
    push: Push,
    addr: u64,
    into: u64,
    len: u64,
}

/// Gets and puts under way.
#[derive(Default)]
pub(crate) struct Transfers {
    moves: VecDeque<Move>,
    pushes: Vec<Pushing>,
    pub(crate) ended: VecDeque<(Token, Result<(), Fault>)>,
}

impl Transfers {
    #[inline]
    pub(crate) fn busy(&self) -> bool {
        // Asked in every poll: one branch instead of three.
        self.moves.len() | self.pushes.len() | self.ended.len() != 0
    }

    /// Whether anything is moved between a peer and us.
    pub(crate) fn are_with(&self, peer: PeerId) -> bool {
        self.moves.iter().any(|m| m.peer == peer) || self.pushes.iter().any(|p| p.peer == peer)
    }

    /// Takes up a peer's announcement of a get from us.
    #[expect(clippy::expect_used, reason = "slices of 8 and 4 bytes out of an array of 28")]
    pub(crate) fn assist(
        &mut self,
        from: PeerId,
        pair: &PeerLink,
        body: &[u8],
    ) -> Result<(), Fault> {
        let wrong = |expected: &str, got: String| Fault::Protocol {
            place: "assist",
            expected: expected.into(),
            got,
        };
        let Ok(body) = <[u8; 28]>::try_from(body) else {
            return Err(wrong("28 bytes", body.len().to_string()));
        };
        let word = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
        let (addr, into, len) = (word(0), word(8), word(16));
        let serial = u32::from_le_bytes(body[24..].try_into().expect("4 bytes"));
        if len == 0
            || serial == 0
            || addr.checked_add(len).is_none()
            || into.checked_add(len).is_none()
        {
            let got =
                format!("{} from {addr:#x} to {into:#x}, serial {serial}", counted(len, "byte"));
            return Err(wrong("a range of memory and a serial", got));
        }
        // Where the kernel does not let us write, the reader copies alone.
        if pair.cold.cma.is_ok() {
            self.pushes.retain(|p| p.peer != from);
            self.pushes.push(Pushing { peer: from, push: Push::new(serial, len), addr, into, len });
        }
        Ok(())
    }

    /// A peer is gone: nothing more is moved for it, and what it moved for us ends.
    pub(crate) fn peer_failed(&mut self, peer: PeerId, pair: &mut PeerLink, fault: &Fault) {
        self.pushes.retain(|p| p.peer != peer);
        let cell = pair.pull_cell();
        // SAFETY: the cell lies in our inbox, mapped as long as the pair lives.
        let cell = unsafe { Cell::at(cell) };
        for m in self.moves.iter_mut().filter(|m| m.peer == peer) {
            m.failing = Some((fault.clone(), Instant::now() + COURTESY));
            match &mut m.pull {
                Some(pull) if *fault != Fault::Died => pull.stop(cell),
                pull => *pull = None,
            }
        }
    }

    /// Drops our part in gets from memory that is being deregistered.
    pub(crate) fn forget(&mut self, range: &std::ops::Range<u64>) {
        self.pushes.retain(|p| p.addr >= range.end || p.addr + p.len <= range.start);
    }

    /// Moves one piece of everything under way. Returns how much was moved.
    pub(crate) fn step(line: &mut ShmFabric) -> usize {
        let mut moved = 0;
        let mut k = 0;
        while k < line.transfers.pushes.len() {
            moved += 1;
            k += line.step_push(k) as usize;
        }
        for _ in 0..line.transfers.moves.len() {
            let Some(mut m) = line.transfers.moves.pop_front() else { break };
            match line.step_move(&mut m) {
                Some(result) => line.transfers.ended.push_back((m.token, result)),
                None => line.transfers.moves.push_back(m),
            }
            moved += 1;
        }
        moved
    }
}

impl ShmFabric {
    /// What it costs to reach memory of a peer so.
    pub(crate) fn way(&self, peer: PeerId, reach: Reach) -> Result<Cost, Denied> {
        if reach == Reach::Mapped || peer == self.me() {
            return Ok(self.costs.mapped);
        }
        self.pairs[peer.index()].cold.cma.clone().map(|()| self.costs.kernel)
    }

    /// As [`Fabric::get`].
    pub(crate) fn start_get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        let (into, len) = (into.as_ptr(), into.len());
        let found = self.reachable(from, key, offset, len, token)?;
        let Some((remote, addr)) = found else { return Ok(()) };
        let assisted = len >= ASSIST_FROM && from != self.me();
        let pull = if assisted { self.announce(from, addr, into, len) } else { None };
        if let (Remote::Mapped { at, .. }, None) = (&remote, &pull) {
            // SAFETY: `at` is mapped for `len` bytes, and `into` is writable as promised where it was named.
            unsafe { copy::plain(into, at.as_ptr(), len) };
            self.transfers.ended.push_back((token, Ok(())));
            return Ok(());
        }
        self.queue(Move {
            peer: from,
            token,
            remote,
            local: into,
            len,
            done: 0,
            write: false,
            pull,
            failing: None,
        });
        Ok(())
    }

    /// As [`Fabric::put`].
    pub(crate) fn start_put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        let (source, len) = (source.as_ptr(), source.len());
        let found = self.reachable(to, key, offset, len, token)?;
        let Some((remote, _)) = found else { return Ok(()) };
        match remote {
            Remote::Mapped { at, .. } => {
                // SAFETY: `at` is mapped for `len` bytes, and `source` is readable as promised where it was named.
                unsafe { copy::plain(at.as_ptr(), source, len) };
                // A peer that receives a later message sees the bytes: stores are ordered.
                self.transfers.ended.push_back((token, Ok(())));
            }
            Remote::Kernel(_) => self.queue(Move {
                peer: to,
                token,
                remote,
                local: source.cast_mut(),
                len,
                done: 0,
                write: true,
                pull: None,
                failing: None,
            }),
        }
        Ok(())
    }

    #[expect(clippy::expect_used, reason = "no mapping is at address 0")]
    pub(crate) fn start_map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        let key = Key::decode(key).ok_or_else(|| unmapped(0))?;
        if from == self.me() {
            let own = self.regions.allocation(key.region);
            let (memory, used) = own.ok_or_else(|| unmapped(key.region))?;
            let end = key.offset.checked_add(len as u64);
            if end.is_none_or(|end| end > used as u64) {
                return Err(unmapped(key.region));
            }
            // SAFETY: the range was just found inside the mapping.
            let at = unsafe { memory.as_ptr().add(key.offset as usize) };
            return Ok((NonNull::new(at).expect("a mapping"), memory.clone()));
        }
        self.meet_region(from, key.region);
        let cold = &self.pairs[from.index()].cold;
        let found = regions::resolve(cold, &key, 0, len).ok_or_else(|| unmapped(key.region))?;
        Ok((found.0, found.1.clone()))
    }

    /// Takes in the descriptor of a region that a key names for the first time.
    fn meet_region(&mut self, from: PeerId, region: u32) {
        if region != 0 && !self.pairs[from.index()].cold.regions.contains_key(&region) {
            self.read_socket(from);
        }
    }

    /// Finds the memory behind a key, and where its owner has it. `None` when there is nothing to do.
    fn reachable(
        &mut self,
        peer: PeerId,
        key: &RemoteKey,
        offset: u64,
        len: usize,
        token: Token,
    ) -> Result<Option<(Remote, u64)>, Refused> {
        let pair = &self.pairs[peer.index()];
        if !pair.open {
            return Err(self.refused(peer));
        }
        if len == 0 {
            self.transfers.ended.push_back((token, Ok(())));
            return Ok(None);
        }
        let Some(key) = Key::decode(key) else {
            let fault = Fault::NoSuchMemory(format!("{key:?} is no key of this node"));
            self.transfers.ended.push_back((token, Err(fault)));
            return Ok(None);
        };
        let addr = key.addr.wrapping_add(offset);
        if peer == self.me() {
            // A key is plain bytes: it may say anything, or speak of memory that is gone.
            if self.regions.hold(addr, len) {
                let at = std::ptr::with_exposed_provenance_mut(addr as usize);
                return Ok(NonNull::new(at).map(|at| (Remote::Mapped { at, _keep: None }, addr)));
            }
            if key.region != 0 {
                let what =
                    format!("{} at {offset} behind region {}", counted(len, "byte"), key.region);
                self.transfers.ended.push_back((token, Err(Fault::NoSuchMemory(what))));
                return Ok(None);
            }
            return Ok(Some((Remote::Kernel(addr), addr)));
        }
        if key.region != 0 {
            self.meet_region(peer, key.region);
            let found = regions::resolve(&self.pairs[peer.index()].cold, &key, offset, len);
            if let Some((at, memory)) = found {
                return Ok(Some((Remote::Mapped { at, _keep: Some(memory.clone()) }, addr)));
            }
            // Given up by its owner, or never as long as that.
            let what = format!("{} at {offset} behind region {}", counted(len, "byte"), key.region);
            self.transfers.ended.push_back((token, Err(Fault::NoSuchMemory(what))));
            return Ok(None);
        }
        self.pairs[peer.index()].cold.cma.clone().map_err(Refused::Denied)?;
        Ok(Some((Remote::Kernel(addr), addr)))
    }

    /// Asks the owner of the memory to move pieces of the get as well.
    fn announce(&mut self, from: PeerId, remote: u64, into: *mut u8, len: usize) -> Option<Pull> {
        let pair = &mut self.pairs[from.index()];
        let mut body = [0; 28];
        if pair.cold.pulling || !pair.writer.has_room(slots_for(body.len()) + 1) {
            return None;
        }
        pair.cold.serial = pair.cold.serial.wrapping_add(1).max(1);
        // SAFETY: the cell lies in our inbox, mapped as long as the pair lives.
        let cell = unsafe { Cell::at(pair.pull_cell()) };
        let pull = Pull::start(cell, pair.cold.serial, len as u64);
        body[..8].copy_from_slice(&remote.to_le_bytes());
        body[8..16].copy_from_slice(&(into.expose_provenance() as u64).to_le_bytes());
        body[16..24].copy_from_slice(&(len as u64).to_le_bytes());
        body[24..].copy_from_slice(&pair.cold.serial.to_le_bytes());
        const { assert!(28 <= ring::LEAD) };
        pair.writer.put_short(Head { kind: ASSIST, ..Head::default() }, &body);
        pair.notify();
        pair.cold.pulling = true;
        Some(pull)
    }

    /// Starts a move; a short one ends at once.
    fn queue(&mut self, mut m: Move) {
        match self.step_move(&mut m) {
            Some(result) => self.transfers.ended.push_back((m.token, result)),
            None => self.transfers.moves.push_back(m),
        }
    }

    /// Moves one piece; the result when that was the last.
    fn step_move(&mut self, m: &mut Move) -> Option<Result<(), Fault>> {
        let pair = &mut self.pairs[m.peer.index()];
        let pid = pair.cold.pid;
        let Some(pull) = &mut m.pull else {
            if let Some((fault, _)) = m.failing.take() {
                return Some(Err(fault));
            }
            let now = STEP.min(m.len - m.done);
            // SAFETY: the local range is valid until the transfer is reported ended (`get`, `put`),
            // and a mapped one holds as many bytes.
            let moved = unsafe {
                let local = m.local.add(m.done);
                if let (Remote::Kernel(remote), true) = (&m.remote, m.write) {
                    cma::write(pid, remote.wrapping_add(m.done as u64), local, now)
                } else {
                    m.remote.read(pid, m.done, local, now)
                }
            };
            m.done += now;
            return match moved {
                Err(error) => {
                    pair.deny_kernel(error);
                    Some(Err(error.into()))
                }
                Ok(()) if m.done == m.len => Some(Ok(())),
                Ok(()) => None,
            };
        };
        // SAFETY: the cell lies in our inbox, mapped as long as the pair lives.
        let cell = unsafe { Cell::at(pair.pull_cell()) };
        let mut failed = None;
        let step = pull.step(cell, |offset, len| {
            let offset = offset as usize;
            // SAFETY: pieces lie inside both ranges; the local one is valid until the end is reported.
            let moved = unsafe { m.remote.read(pid, offset, m.local.add(offset), len) };
            moved.inspect_err(|&error| failed = Some(error))
        });
        failed.into_iter().for_each(|error| pair.deny_kernel(error));
        let result = match step {
            Ok(Step::Moved) => return None,
            Ok(Step::Waiting) => {
                if pair.cold.mapped.as_ref().is_none_or(|maps| maps.link.is_closed()) {
                    pull.owner_died();
                }
                match m.failing.take_if(|(_, until)| Instant::now() > *until) {
                    Some((fault, _)) => Err(fault),
                    None => return None,
                }
            }
            Ok(Step::Done) => m.failing.take().map_or(Ok(()), |(fault, _)| Err(fault)),
            Err(PullError::Move(error)) => Err(m.failing.take().map_or(error, |(fault, _)| fault)),
            Err(PullError::Protocol(malformed)) => Err(malformed),
        };
        pair.cold.pulling = false;
        if let Err(fault @ Fault::Protocol { .. }) = &result {
            self.cut(m.peer, fault.clone());
        }
        Some(result)
    }

    /// Moves one piece of a peer's get. Whether more is to be moved.
    fn step_push(&mut self, k: usize) -> bool {
        let Transfers { pushes, .. } = &mut self.transfers;
        let Pushing { peer, push, addr, into, .. } = &mut pushes[k];
        let pair = &mut self.pairs[peer.index()];
        // SAFETY: the cell lies in the peer's inbox, mapped as long as the pair lives.
        let cell = unsafe { Cell::at(pair.push_cell()) };
        let pid = pair.cold.pid;
        let step = push.step(cell, |offset, len| {
            let local = std::ptr::with_exposed_provenance((*addr + offset) as usize);
            // SAFETY: the kernel checks our range; the peer vouches for its own.
            unsafe { cma::write(pid, *into + offset, local, len) }
        });
        if let Err(error) = step {
            pair.deny_kernel(error);
        }
        let moved = matches!(step, Ok(PushStep::Moved));
        if !moved {
            pushes.swap_remove(k);
        }
        moved
    }

    /// See [`Fabric::deregister`].
    pub(crate) fn give_up(&mut self, region: RegionId) {
        if let Some(range) = self.regions.range(region) {
            self.transfers.forget(&range);
        }
    }
}

impl PeerLink {
    /// After an error of the kernel that will come again: other ways are taken from now on.
    #[cold]
    fn deny_kernel(&mut self, error: cma::CmaError) {
        if let Some(denied) = error.denial() {
            tracing::debug!(%error, "memory of this peer is not reached through the kernel any more");
            self.cold.cma = Err(denied);
        }
    }
}

/// Memory behind a key.
enum Remote {
    /// In reach, as long as the mapping is kept.
    Mapped { at: NonNull<u8>, _keep: Option<Keep> },
    /// Of the peer, at this address.
    Kernel(u64),
}

impl Remote {
    /// Reads `len` bytes from byte `skip` on.
    ///
    /// # Safety
    /// `into` is valid for writes of `len` bytes; memory in reach has as many after `skip`.
    unsafe fn read(
        &self,
        pid: i32,
        skip: usize,
        into: *mut u8,
        len: usize,
    ) -> Result<(), cma::CmaError> {
        match self {
            Remote::Mapped { at, .. } => {
                // SAFETY: the caller's promise.
                unsafe { copy::plain(into, at.as_ptr().add(skip), len) };
                Ok(())
            }
            // SAFETY: the kernel checks the peer's range; the rest is the caller's promise.
            Remote::Kernel(remote) => unsafe {
                cma::read(pid, remote.wrapping_add(skip as u64), into, len)
            },
        }
    }
}

fn unmapped(region: u32) -> Denied {
    Denied {
        what: "a view of the peer's memory",
        why: match region {
            0 => "the memory was not allocated by its endpoint".into(),
            _ => format!("region {region} was given up, or the range lies outside of it"),
        },
        remedy: "send from memory of `alloc`, or receive a copy",
    }
}
