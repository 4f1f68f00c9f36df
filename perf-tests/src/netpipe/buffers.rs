//! The memory NetPIPE sends from and receives into.

use std::ops::{Deref, DerefMut};
use taffrail::{Buffer, Endpoint, Error};

/// Buffers start on this boundary.
const ALIGNMENT: usize = 16 * 1024;
/// Without cache effects, messages walk through pools of at least this many bytes.
const POOL: usize = 10_000_000;

/// Where the next message is sent from and received into.
///
/// With cache effects both are one piece of memory: what was just received is sent back, so its
/// cache lines really change sides at every hop. Without, both walk through pools.
pub struct Buffers {
    receive: Memory,
    /// `None`: sent from where it is received.
    send: Option<Memory>,
    size: usize,
    stride: usize,
    /// Where in the pools the next message lies.
    receive_at: usize,
    send_at: usize,
    /// Read and written between trials to push everything else out of the caches.
    sweep: Vec<u32>,
}

impl Buffers {
    /// One buffer for both directions, in plain memory.
    pub fn one(size: usize) -> Buffers {
        Buffers::of(Memory::plain(size, b'a'), None, size)
    }

    /// One buffer for each direction, for messages that cross, in plain memory.
    pub fn two(size: usize) -> Buffers {
        Buffers::of(Memory::plain(size, b'a'), Some(Memory::plain(size, b'b')), size)
    }

    /// As [`one`](Self::one), or if `crossing` as [`two`](Self::two), but in memory of the endpoint
    /// that peers reach.
    ///
    /// # Errors
    /// Of [`Endpoint::alloc`].
    pub fn allocated(
        endpoint: &mut Endpoint,
        size: usize,
        crossing: bool,
    ) -> Result<Buffers, Error> {
        let receive = Memory::allocated(endpoint, size, b'a')?;
        let send = crossing.then(|| Memory::allocated(endpoint, size, b'b')).transpose()?;
        Ok(Buffers::of(receive, send, size))
    }

    /// Pools to walk through, larger than the caches near the core.
    pub fn pools(size: usize) -> Buffers {
        let stride = size + ALIGNMENT - size % ALIGNMENT;
        let pool = POOL.max(2 * stride);
        Buffers {
            stride,
            sweep: vec![0; POOL / size_of::<u32>()],
            ..Buffers::of(Memory::plain(pool, b'a'), Some(Memory::plain(pool, b'b')), size)
        }
    }

    fn of(receive: Memory, send: Option<Memory>, size: usize) -> Buffers {
        let (stride, receive_at, send_at, sweep) = (0, 0, 0, Vec::new());
        Buffers { receive, send, size, stride, receive_at, send_at, sweep }
    }

    /// Bytes of a message.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the next message is sent from.
    pub fn to_send(&mut self) -> &mut [u8] {
        let at = self.send_at;
        &mut self.send.as_mut().unwrap_or(&mut self.receive)[at..at + self.size]
    }

    /// What the next message is received into.
    pub fn to_receive(&mut self) -> &mut [u8] {
        &mut self.receive[self.receive_at..self.receive_at + self.size]
    }

    /// After a message was sent.
    pub fn sent(&mut self) {
        if self.stride > 0 {
            self.send_at = self.after(self.send_at);
        }
    }

    /// After a message was received.
    pub fn received(&mut self) {
        if self.stride > 0 {
            self.receive_at = self.after(self.receive_at);
        }
    }

    /// Pushes the buffers out of the caches; does nothing where cache effects are wanted.
    pub fn sweep(&mut self) {
        for word in &mut self.sweep {
            *word = std::hint::black_box(word.wrapping_add(1));
        }
    }

    fn after(&self, at: usize) -> usize {
        let next = at + self.stride;
        if next + self.stride < self.receive.len() { next } else { 0 }
    }
}

enum Memory {
    /// Of the allocator, from a boundary on.
    Plain { storage: Vec<u8>, start: usize, length: usize },
    /// Of the endpoint.
    Allocated(Buffer),
}

impl Memory {
    fn plain(length: usize, with: u8) -> Memory {
        let storage = vec![with; length + ALIGNMENT];
        let start = ALIGNMENT - storage.as_ptr().addr() % ALIGNMENT;
        Memory::Plain { storage, start, length }
    }

    fn allocated(endpoint: &mut Endpoint, length: usize, with: u8) -> Result<Memory, Error> {
        let mut buffer = endpoint.alloc(length)?;
        buffer.fill(with);
        Ok(Memory::Allocated(buffer))
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Plain { storage, start, length } => &storage[*start..*start + *length],
            Memory::Allocated(buffer) => buffer,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Plain { storage, start, length } => &mut storage[*start..*start + *length],
            Memory::Allocated(buffer) => buffer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_cache_effects_a_message_is_sent_from_where_it_came() {
        let mut one = Buffers::one(100);
        let received = one.to_receive().as_ptr();
        assert_eq!(one.to_send().as_ptr(), received);
        assert_eq!(received.addr() % ALIGNMENT, 0);
        one.received();
        one.sent();
        assert_eq!(one.to_receive().as_ptr(), received);

        let mut two = Buffers::two(100);
        assert_ne!(two.to_send().as_ptr(), two.to_receive().as_ptr());
    }

    #[test]
    fn pools_are_walked_through_and_start_over() {
        for size in [1, 5000, ALIGNMENT, 3_000_000, 20_000_000] {
            let mut pools = Buffers::pools(size);
            let first = pools.to_receive().as_ptr().addr();
            let mut places = std::collections::BTreeSet::new();
            for _ in 0..2000 {
                let place = pools.to_receive();
                assert_eq!(place.len(), size);
                places.insert(place.as_ptr().addr() - first);
                pools.received();
            }
            assert_eq!(places.first(), Some(&0));
            if size <= ALIGNMENT {
                assert!(places.len() > 300, "{} places of {size} bytes", places.len());
            }
        }
    }
}
