//! The payload of an arrived message, wherever it lies.

use std::marker::PhantomData;

/// Bytes of an arrived message, in memory that its sender may still be able to write.
///
/// No reference to the bytes is ever handed out: they are copied, and only the copy is believed.
/// The bytes lie in one run, or in a first run of `lead` bytes followed by runs of `run` bytes
/// with `gap` bytes between them (a ring whose slots each start with a word of their own).
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    at: *const u8,
    len: usize,
    lead: usize,
    run: usize,
    gap: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> Payload<'a> {
    /// A payload of `len` bytes in one run.
    ///
    /// # Safety
    /// `len` bytes from `at` are mapped and readable for `'a`.
    #[inline]
    pub unsafe fn contiguous(at: *const u8, len: usize) -> Self {
        Payload { at, len, lead: len, run: 0, gap: 0, life: PhantomData }
    }

    /// A payload of `len` bytes: `lead` at `at`, then, `gap` bytes after the end of each run, runs
    /// of `run` bytes.
    ///
    /// # Safety
    /// All runs are mapped and readable for `'a`; `run` is not 0 if `len > lead`.
    #[inline]
    pub unsafe fn strided(at: *const u8, len: usize, lead: usize, run: usize, gap: usize) -> Self {
        debug_assert!(len <= lead || run > 0);
        Payload { at, len, lead: lead.min(len), run, gap, life: PhantomData }
    }

    /// A payload in private memory.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice is readable for its lifetime.
        unsafe { Payload::contiguous(bytes.as_ptr(), bytes.len()) }
    }

    /// The same bytes, for as long as a sink keeps the receive buffer that they lie in.
    ///
    /// # Safety
    /// The payload is of a [`Body::Leased`](crate::Body::Leased) that the sink answers with
    /// [`Take::Keep`](crate::Take::Keep), and what is returned is not used after
    /// [`return_lease`](crate::Fabric::return_lease), nor after the fabric is gone.
    #[inline]
    pub unsafe fn kept(self) -> Payload<'static> {
        Payload { life: PhantomData, ..self }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the first `min(len, room)` bytes to `to`, and returns how many that were.
    ///
    /// # Safety
    /// `to` is valid for writes of `room` bytes.
    #[inline]
    pub unsafe fn copy_to(&self, to: *mut u8, room: usize) -> usize {
        let len = self.len.min(room);
        if len <= self.lead {
            // SAFETY: `len` bytes are readable at `at` (constructor) and writable at `to` (caller).
            unsafe { copy(self.at, to, len) };
        } else {
            // SAFETY: as above; more than one run.
            unsafe { self.copy_runs(to, len) };
        }
        len
    }

    /// Copies the first `min(len, into.len())` bytes, and returns how many that were.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> usize {
        // SAFETY: a slice is writable.
        unsafe { self.copy_to(into.as_mut_ptr(), into.len()) }
    }

    /// Fills `into` with the bytes from byte `skip` on.
    ///
    /// # Panics
    /// If the payload ends before.
    #[inline]
    pub fn read_at(&self, skip: usize, into: &mut [u8]) {
        // SAFETY: a slice is writable.
        unsafe { self.copy_part(skip, into.as_mut_ptr(), into.len()) }
    }

    /// Copies `len` bytes from byte `skip` on to `to`.
    ///
    /// # Panics
    /// If the payload ends before `skip + len`.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes.
    #[inline]
    pub unsafe fn copy_part(&self, skip: usize, to: *mut u8, len: usize) {
        assert!(skip <= self.len && len <= self.len - skip, "{skip} + {len} of {} bytes", self.len);
        if skip + len <= self.lead {
            // SAFETY: the range lies in the first run, and `to` has room (caller).
            unsafe { copy(self.at.add(skip), to, len) };
        } else {
            let bytes = self.to_vec();
            // SAFETY: as above, out of the copy.
            unsafe { copy(bytes.as_ptr().add(skip), to, len) };
        }
    }

    /// A private copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        // SAFETY: the vector has room for `len` bytes, all of which are written.
        unsafe {
            let len = self.copy_to(bytes.as_mut_ptr(), self.len);
            bytes.set_len(len);
        }
        bytes
    }

    /// # Safety
    /// As [`copy_to`](Self::copy_to), with `lead < len <= self.len`.
    #[inline(never)]
    unsafe fn copy_runs(&self, to: *mut u8, len: usize) {
        // SAFETY: every run is readable (constructor) and `to` has room for `len` bytes (caller).
        unsafe {
            copy(self.at, to, self.lead);
            let mut done = self.lead;
            let mut at = self.at.add(self.lead + self.gap);
            while done < len {
                let now = self.run.min(len - done);
                copy(at, to.add(done), now);
                done += now;
                at = at.add(self.run + self.gap);
            }
        }
    }
}

/// Copies `len` bytes; short lengths without a call, and in parts that do not overlap: a load that takes bytes
/// of two stores just before it would wait until both are in the cache, and what has just been received is
/// often sent on.
///
/// # Safety
/// As `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len > 64 {
        // SAFETY: the caller's promise.
        return unsafe { crate::copying::copy(from, to, len) };
    }
    let mut done = 0;
    if len == 8 {
        // SAFETY: the caller's promise.
        return unsafe { part::<u64>(from, to, &mut done) };
    }
    // SAFETY: the parts lie one behind the other within `len` bytes.
    unsafe {
        while done + 16 <= len {
            part::<[u64; 2]>(from, to, &mut done);
        }
        if len & 8 != 0 {
            part::<u64>(from, to, &mut done);
        }
        if len & 7 == 0 {
            return;
        }
        if len & 4 != 0 {
            part::<u32>(from, to, &mut done);
        }
        if len & 2 != 0 {
            part::<u16>(from, to, &mut done);
        }
        if len & 1 != 0 {
            part::<u8>(from, to, &mut done);
        }
    }
}

/// Copies the `T` behind the first `done` bytes.
///
/// # Safety
/// It is readable there and writable here.
#[inline(always)]
unsafe fn part<T>(from: *const u8, to: *mut u8, done: &mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let it = from.add(*done).cast::<T>().read_unaligned();
        to.add(*done).cast::<T>().write_unaligned(it);
    }
    *done += size_of::<T>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_length_copies_exactly() {
        let from: Vec<u8> = (0..80).map(|i| i as u8 ^ 0x5a).collect();
        for len in 0..=80 {
            let mut to = [0u8; 96];
            assert_eq!(Payload::of(&from[..len]).read(&mut to[8..88]), len);
            assert_eq!(to[8..8 + len], from[..len]);
            assert!(to[..8].iter().chain(&to[8 + len..]).all(|&b| b == 0), "length {len}");
        }
    }

    #[test]
    fn strided_runs_are_joined() {
        let memory: Vec<u8> = (0..=255).collect();
        let expected: Vec<u8> = memory[20..64]
            .iter()
            .chain(&memory[72..128])
            .chain(&memory[136..192])
            .copied()
            .collect();
        for len in 0..=expected.len() {
            // SAFETY: runs of 44, 56 and 56 bytes with gaps of 8 end at byte 192 of 256.
            let payload = unsafe { Payload::strided(memory[20..].as_ptr(), len, 44, 56, 8) };
            assert_eq!(payload.to_vec(), expected[..len]);
            for skip in [0, len / 3, len / 2, len] {
                let mut part = vec![0; len - skip];
                // SAFETY: the vector has room for what is asked.
                unsafe { payload.copy_part(skip, part.as_mut_ptr(), part.len()) };
                assert_eq!(part, expected[skip..len]);
            }
            let mut short = vec![0; len / 2];
            assert_eq!(payload.read(&mut short), len / 2);
            assert_eq!(short, expected[..len / 2]);
        }
    }
}
