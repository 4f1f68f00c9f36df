//! Gets and puts.

use super::coverage::Situation;
use super::messages::part;
use super::ram::Span;
use super::state::{Net, Operation, Region, Seen, State, Viewed, What};
use super::{Amount, Mutant, Settings};
use std::ptr::NonNull;
use std::sync::Arc;
use taffrail_fabric::{Denied, Fault, Incarnation, MemoryError, PeerId, Refused, RemoteKey, Token};

/// A get or put that is asked for.
pub(super) struct Asked<'a> {
    pub(super) by: usize,
    pub(super) with: usize,
    pub(super) key: &'a RemoteKey,
    pub(super) offset: u64,
    pub(super) near: Span,
    pub(super) token: Token,
    pub(super) is_get: bool,
}

impl Net {
    pub(super) fn start(&mut self, asked: Asked<'_>) -> Result<(), Refused> {
        let Asked { by, with, key, offset, near, token, is_get } = asked;
        if let Some(fault) = self.end(by, with).fault() {
            self.reach(Situation::GetRefused);
            return Err(Refused::Failed(fault));
        }
        let open = self.operations.values().filter(|one| one.by.0 == by && !one.is_orphan).count();
        if open >= self.settings.operations {
            self.reach(Situation::TransferBusy);
            return Err(Refused::Busy);
        }
        let len = near.len();
        let found = self.parse((by, with), key).and_then(|(region, start)| {
            let start = start.checked_add(offset).and_then(|start| usize::try_from(start).ok());
            start.map(|start| (region, start)).ok_or_else(|| nowhere("an offset beyond all memory"))
        });
        let (region, start, fault) = match found {
            Ok((region, start)) => (region, start, None),
            Err(fault) => (0, 0, Some(fault)),
        };
        let number = self.number();
        let way = ["put", "get"][usize::from(is_get)];
        self.say(|| format!("{by}>{with} {way} {number} {len}"));
        let by = (by, self.processes[by].incarnation);
        let with = (with, self.end(by.0, with).incarnation);
        let is_stopped = fault.is_some();
        let near = Some(near);
        let operation = Operation {
            by,
            with,
            token,
            is_get,
            near,
            region,
            start,
            len,
            done: 0,
            fault,
            is_stopped,
            is_orphan: false,
        };
        self.operations.insert(number, operation);
        Ok(())
    }

    /// Bytes of a get or put move.
    pub(super) fn move_bytes(&mut self, number: u64, amount: Amount) {
        let Some(operation) = self.operations.get(&number) else { return };
        let (at, left) = (operation.start + operation.done, operation.len - operation.done);
        let owner = &self.processes[operation.with.0];
        let is_dead = owner.state == State::Dead && operation.is_get;
        let far = owner.regions.get(&operation.region).map(|region| region.span.clone());
        let far = far.filter(|far| at <= far.len() && left <= far.len() - at);
        let Some(far) = far else {
            self.reach(Situation::TransferNowhere);
            if let Some(operation) = self.operations.get_mut(&number) {
                operation.is_stopped = true;
                operation.fault.get_or_insert(nowhere("it was deregistered, or ends before"));
            }
            return;
        };
        let count = part(amount, left);
        let far = far.part(at, count);
        if let Some(near) = &operation.near {
            let near = near.part(operation.done, count);
            let (source, target) = if operation.is_get { (far, near) } else { (near, far) };
            target.write(0, &source.read(0, count));
        }
        let is_orphan = operation.is_orphan;
        let moved_early = self.has(Mutant::MovedEarly);
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.done += count;
            if moved_early {
                operation.done = operation.len;
            }
        }
        if is_orphan {
            self.reach(Situation::DeadMoved);
        }
        if is_dead {
            self.reach(Situation::DeadRead);
        }
        if count < left {
            self.reach(Situation::TransferSplit);
        }
    }

    /// The end of a get or put reaches the process that has started it.
    pub(super) fn moved(&mut self, number: u64) {
        let Some(operation) = self.operations.remove(&number) else { return };
        if operation.is_orphan {
            return;
        }
        let result = operation.fault.map_or(Ok(()), Err);
        let (rank, peer) = (operation.by.0, operation.with.0);
        if self.has(Mutant::MovedTwice) && number.is_multiple_of(3) {
            self.push(rank, peer, What::Moved(operation.token, result.clone()));
        }
        self.push(rank, peer, What::Moved(operation.token, result));
    }

    /// A process ends, and its device does not know it yet.
    pub(super) fn orphan_operations(&mut self, rank: usize) {
        for operation in self.operations.values_mut().filter(|one| one.by.0 == rank) {
            if !operation.is_orphan {
                operation.is_orphan = true;
                let near = operation.near.take();
                operation.near = near.filter(|_| !operation.is_get).map(|near| near.copied());
            }
        }
    }

    pub(super) fn add_region(&mut self, rank: usize, span: Span, is_allocated: bool) -> u32 {
        let name = self.number() as u32;
        self.processes[rank].regions.insert(name, Region { span, is_allocated });
        name
    }

    pub(super) fn deregister(&mut self, rank: usize, region: u32) -> Result<(), MemoryError> {
        if !self.processes[rank].regions.contains_key(&region) {
            return Err(MemoryError::Unknown { region, offset: 0 });
        }
        if self.has(Mutant::RegionLingers) {
            return Ok(());
        }
        self.processes[rank].regions.remove(&region);
        let mut is_under_way = false;
        for operation in self.operations.values_mut() {
            if operation.region == region && operation.with.0 == rank {
                operation.is_stopped = true;
                if operation.done < operation.len {
                    is_under_way = true;
                    operation.fault.get_or_insert(nowhere("it was deregistered"));
                }
            }
        }
        if is_under_way {
            self.reach(Situation::DeregisteredUnderWay);
        }
        Ok(())
    }

    /// The key of a region for one peer: its name, both incarnations' place, and padding up to the length of keys.
    pub(super) fn key(&self, to: PeerId, region: u32, offset: usize) -> RemoteKey {
        let mut bytes = Vec::with_capacity(RemoteKey::MAX);
        bytes.extend(region.to_le_bytes());
        bytes.extend(to.0.to_le_bytes());
        bytes.extend((offset as u64).to_le_bytes());
        let len = self.settings.key_bytes.clamp(Settings::KEY_MIN, RemoteKey::MAX);
        while bytes.len() + 1 < len {
            bytes.push(padding(bytes.len(), region));
        }
        RemoteKey::new(0, &bytes)
    }

    /// The region of a key, and where it begins within.
    fn parse(&self, (by, _): (usize, usize), key: &RemoteKey) -> Result<(u32, u64), Fault> {
        let bytes = key.of_rail();
        let (Some((region, rest)), 0) = (bytes.split_first_chunk::<4>(), key.rail()) else {
            return Err(nowhere("no key of this fabric"));
        };
        let (Some((to, rest)), region) =
            (rest.split_first_chunk::<4>(), u32::from_le_bytes(*region))
        else {
            return Err(nowhere("no key of this fabric"));
        };
        let Some((offset, rest)) = rest.split_first_chunk::<8>() else {
            return Err(nowhere("no key of this fabric"));
        };
        let begins = bytes.len() - rest.len();
        let is_ours = (begins..).zip(rest).all(|(at, &byte)| byte == padding(at, region));
        if !is_ours
            || bytes.len() + 1 != self.settings.key_bytes.clamp(Settings::KEY_MIN, RemoteKey::MAX)
        {
            return Err(nowhere("no key of this fabric"));
        }
        if u32::from_le_bytes(*to) as usize != by {
            return Err(Fault::NoAccess("the key was made for another peer"));
        }
        Ok((region, u64::from_le_bytes(*offset)))
    }

    /// A view of allocated memory.
    pub(super) fn view(
        &mut self,
        (by, with): (usize, usize),
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Arc<Seen>), Denied> {
        let denied = |why: String| Denied { what: "a view", why, remedy: "get the bytes instead" };
        let (region, start) = self.parse((by, with), key).map_err(|why| denied(why.to_string()))?;
        let region = self.processes[with].regions.get(&region);
        let region = region.ok_or_else(|| denied("there is no such region".into()))?;
        if !region.is_allocated {
            return Err(denied("the memory was not allocated".into()));
        }
        let start = usize::try_from(start).ok().filter(|&start| start <= region.span.len());
        let start = start.ok_or_else(|| denied("the offset lies outside".into()))?;
        if len > region.span.len() - start {
            return Err(denied(format!(
                "{len} bytes from {start} on, it has {}",
                region.span.len()
            )));
        }
        let view = region.span.part(start, len);
        let missing = || denied("no pages".into());
        let at = view.at().ok_or_else(missing)?;
        let seen = Arc::new(Seen { _pages: view.pages.ok_or_else(missing)? });
        self.reach(Situation::Mapped);
        let by = (by, self.processes[by].incarnation);
        self.views.retain(|view| view.seen.strong_count() > 0);
        self.views.push(Viewed { owner: with, by, seen: Arc::downgrade(&seen) });
        Ok((at, seen))
    }

    /// Whether an operation of a peer reads this memory.
    pub(super) fn is_reached(&self, owner: usize, memory: &Span) -> bool {
        let regions = &self.processes[owner].regions;
        let mut open =
            self.operations.values().filter(|one| one.with.0 == owner && !one.is_stopped);
        open.any(|one| regions.get(&one.region).is_some_and(|region| region.span.overlaps(memory)))
    }

    /// Whether nothing of an incarnation of a peer can still reach memory of `rank`.
    pub(super) fn is_drained(&mut self, rank: usize, peer: usize, of: Incarnation) -> bool {
        if self.end(rank, peer).is_up_with(of) {
            return false;
        }
        let (near, far) = ((rank, self.processes[rank].incarnation), (peer, of.0));
        let ways = [(near, far), (far, near)];
        let is_moving = self.operations.values().any(|one| ways.contains(&(one.by, one.with)));
        let is_sending = self
            .sends
            .values()
            .any(|send| (send.from, send.to, send.incarnation) == (rank, peer, of.0));
        let looks =
            |view: &Viewed| view.owner == rank && view.by == far && view.seen.strong_count() > 0;
        let is_viewed = self.views.iter().any(looks);
        if is_moving || is_sending || is_viewed {
            self.reach(Situation::NotDrained);
        }
        self.has(Mutant::DrainedEarly) || !is_moving && !is_sending && !is_viewed
    }
}

fn nowhere(why: &str) -> Fault {
    Fault::NoSuchMemory(why.into())
}

/// The padding of a key distinguishes it from bytes that are no key of this network.
fn padding(at: usize, region: u32) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(region.wrapping_mul(7)) as u8
}
