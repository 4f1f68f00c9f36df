//! Memory that processes reach of each other.

use super::ledger::{Exposed, Slot};
use super::memory::{Ram, pattern};
use super::witness::Operation;
use super::world::{EXPOSED, PROCESSES, World};
use std::ptr::NonNull;
use taffrail_fabric::{Fabric, Incarnation, Keep, PeerId, RemoteKey, UserBytes};

/// A view that somebody keeps.
pub struct View {
    at: NonNull<u8>,
    bytes: Vec<u8>,
    _keep: Keep,
}

/// Allocated memory, and the key that each process has.
pub struct Allocated {
    owner: usize,
    bytes: Vec<u8>,
    keys: Vec<RemoteKey>,
    _keep: Keep,
}

impl View {
    pub fn is_unchanged(&self) -> bool {
        // SAFETY: it is kept.
        let shown = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes.len()) };
        shown == self.bytes
    }
}

impl<const O: bool, const S: bool, const L: bool> World<O, S, L> {
    pub fn expose(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let mut ledger = self.ledger.borrow_mut();
        let ram = Ram::new(&pattern(ledger.exposed.len() as u64, EXPOSED));
        let peers = (0..PROCESSES as u32).map(PeerId);
        let is_bare = self.random.u8(..4) == 0;
        let (region, keys) = if is_bare {
            let bytes: UserBytes = ram.bytes(0, EXPOSED);
            (None, peers.map(|to| process.fabric.bare_key(to, bytes)).collect())
        } else {
            let region = process.fabric.register(ram.memory()).expect("host memory");
            let key = |to| Some(process.fabric.key(to, region, 0).expect("a key of a region"));
            (Some(region), peers.map(key).collect())
        };
        ledger.exposed.push(Exposed {
            owner: rank,
            incarnation: self.net.incarnation(rank),
            region,
            ram,
            keys,
            is_source: is_bare || self.random.bool(),
            used: 0,
            is_open: true,
            owner_lives: true,
        });
    }

    pub fn deregister(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let mut ledger = self.ledger.borrow_mut();
        let mine = |one: &Exposed| {
            one.owner == rank && one.is_open && one.owner_lives && one.region.is_some()
        };
        let Some(at) = ledger.exposed.iter().position(mine) else { return };
        let exposed = &mut ledger.exposed[at];
        let region = exposed.region.expect("it is registered");
        process.fabric.deregister(region).expect("it is there");
        exposed.is_open = false;
        let ram = exposed.ram.clone();
        ledger.give_up(&ram, 0, EXPOSED, "deregistered");
    }

    pub fn transfer(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let mut ledger = self.ledger.borrow_mut();
        let count = ledger.exposed.len();
        let recent = self.random.usize(..count.clamp(1, 6));
        let Some(at) = count.checked_sub(recent + 1) else { return };
        let Exposed { owner, incarnation, is_source, used, is_open, .. } = ledger.exposed[at];
        let Some(key) = ledger.exposed[at].keys[rank] else { return };
        let len = self.random.usize(..48);
        let offset = if is_source { self.random.usize(..EXPOSED - len) } else { used };
        if offset + len > EXPOSED || process.witness.links[owner].incarnation != incarnation {
            return;
        }
        let (peer, token) = (PeerId(owner as u32), process.witness.token());
        let seed = token.0 ^ 0x9e77 ^ ((rank as u64) << 40);
        let near = Ram::new(&pattern(seed, len));
        let started = if is_source {
            process.fabric.get(peer, &key, offset as u64, near.buf(), token)
        } else {
            process.fabric.put(peer, &key, offset as u64, near.bytes(0, len), token)
        };
        if started.is_err() {
            return;
        }
        if !is_source {
            ledger.exposed[at].used += len;
            let by = (rank, self.net.incarnation(rank));
            ledger.slots.push(Slot { by, exposed: at, at: offset, len });
        }
        let operation = Operation {
            peer: owner,
            incarnation,
            is_get: is_source,
            near,
            exposed: at,
            at: offset,
            was_open: is_open,
            is_drained: false,
        };
        process.witness.operations.insert(token.0, operation);
    }

    /// Asks which incarnations of peers reach memory of this process, and uses it otherwise if they do not.
    pub fn ask_drained(&mut self, rank: usize) {
        let own = self.net.incarnation(rank);
        let Some(process) = &mut self.processes[rank] else { return };
        for peer in 0..PROCESSES {
            let known = process.witness.links[peer].incarnation;
            for of in 0..=known {
                if process.fabric.drained(PeerId(peer as u32), Incarnation(of)) {
                    process.witness.drained(own, (peer, of));
                }
            }
        }
    }

    /// Allocates memory, or maps what another has allocated.
    pub fn map(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        if self.random.bool() {
            let len = self.random.usize(1..100);
            let bytes = pattern(len as u64, len);
            let (region, at, keep) = process.fabric.alloc(len).expect("memory");
            // SAFETY: `len` bytes were allocated, and no other process has them yet.
            unsafe { bytes.as_ptr().copy_to(at.as_ptr(), len) };
            let peers = (0..PROCESSES as u32).map(PeerId);
            let key = |to| process.fabric.key(to, region, 0).expect("a key of a region");
            let keys = peers.map(key).collect();
            self.allocated.push(Allocated { owner: rank, bytes, keys, _keep: keep });
        } else if let Some(allocated) = self.allocated.last() {
            let Allocated { owner, bytes, keys, .. } = allocated;
            let view = process.fabric.map(PeerId(*owner as u32), &keys[rank], bytes.len());
            if let Ok((at, keep)) = view {
                self.views.push(View { at, bytes: bytes.clone(), _keep: keep });
            }
        }
    }
}
