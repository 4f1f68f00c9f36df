//! Two ways to copy: through the caches, and past them.

/// Below this many bytes the caches always win, and edges would be most of the copy.
const SHORTEST_STREAM: usize = 256;

/// Copies `len` bytes through the caches.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes; they do not overlap.
#[inline]
pub(crate) unsafe fn plain(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { taffrail_fabric::copy(from, to, len) };
}

/// Begins to fetch the lines of `len` bytes for writing, without waiting for them.
///
/// # Safety
/// The bytes are mapped.
#[inline]
pub(crate) unsafe fn own(at: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(64) {
        // SAFETY: the caller's promise; a prefetch changes nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) at.add(line), options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, len);
}

/// Begins to fetch a line for reading, without waiting for it.
///
/// # Safety
/// The byte is mapped.
#[inline(always)]
pub(crate) unsafe fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; a prefetch changes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(at.cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Copies `len` bytes with stores that go past the caches to memory, where the processor has such:
/// faster when the reader's core is far away or the bytes do not fit its caches.
///
/// The stores are visible to other cores before any store that follows this call.
///
/// # Safety
/// As [`plain`].
pub(crate) unsafe fn non_temporal(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= SHORTEST_STREAM {
        // SAFETY: the caller's promise.
        return unsafe { x86::non_temporal(to, from, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { plain(to, from, len) };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::plain;

    const LINE: usize = 64;

    /// # Safety
    /// As [`plain`].
    pub(super) unsafe fn non_temporal(to: *mut u8, from: *const u8, len: usize) {
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE;
        let tail = head + lines * LINE;
        // SAFETY: head, lines and tail make up the caller's `len` bytes, `to + head` lies at the
        // start of a line, and each function is called only where the processor has what it needs.
        unsafe {
            plain(to, from, head);
            if std::arch::is_x86_feature_detected!("avx512f") {
                lines_avx512(to.add(head), from.add(head), lines);
            } else if std::arch::is_x86_feature_detected!("avx2") {
                lines_avx2(to.add(head), from.add(head), lines);
            } else {
                lines_sse2(to.add(head), from.add(head), lines);
            }
            plain(to.add(tail), from.add(tail), len - tail);
        }
    }

    /// # Safety
    /// `lines` lines can be read at `from` and written at `to`, which is aligned to one; the
    /// processor has AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn lines_avx512(to: *mut u8, from: *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: the caller's promise.
            unsafe {
                let bytes = _mm512_loadu_si512(from.add(line * LINE).cast());
                _mm512_stream_si512(to.add(line * LINE).cast(), bytes);
            }
        }
        _mm_sfence();
    }

    /// # Safety
    /// As [`lines_avx512`], with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn lines_avx2(to: *mut u8, from: *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.add(line * LINE), to.add(line * LINE));
                let low = _mm256_loadu_si256(from.cast());
                let high = _mm256_loadu_si256(from.add(32).cast());
                _mm256_stream_si256(to.cast(), low);
                _mm256_stream_si256(to.add(32).cast(), high);
            }
        }
        _mm_sfence();
    }

    /// # Safety
    /// As [`lines_avx512`], with SSE2, which every processor of this kind has.
    pub(super) unsafe fn lines_sse2(to: *mut u8, from: *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.add(line * LINE), to.add(line * LINE));
                let a = _mm_loadu_si128(from.cast());
                let b = _mm_loadu_si128(from.add(16).cast());
                let c = _mm_loadu_si128(from.add(32).cast());
                let d = _mm_loadu_si128(from.add(48).cast());
                _mm_stream_si128(to.cast(), a);
                _mm_stream_si128(to.add(16).cast(), b);
                _mm_stream_si128(to.add(32).cast(), c);
                _mm_stream_si128(to.add(48).cast(), d);
            }
        }
        // SAFETY: a fence touches nothing, and SSE is always there.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 251) as u8 | 1).collect()
    }

    /// Checks that exactly `len` bytes at `to` became those at `from`.
    fn check(copy: unsafe fn(*mut u8, *const u8, usize), to: usize, from: usize, len: usize) {
        let source = pattern(from + len);
        let mut target = vec![0u8; to + len + 64];
        // SAFETY: both vectors hold `len` bytes from their offset on.
        unsafe { copy(target.as_mut_ptr().add(to), source.as_ptr().add(from), len) };
        assert!(target[to..to + len] == source[from..], "to {to} from {from} length {len}");
        assert!(target[..to].iter().chain(&target[to + len..]).all(|&byte| byte == 0));
    }

    #[test]
    fn every_length_and_alignment_is_copied_exactly() {
        for len in 0..=1024 {
            for (to, from) in [(0, 0), (1, 0), (0, 1), (63, 17), (32, 48), (len % 64, len % 61)] {
                check(plain, to, from, len);
                check(non_temporal, to, from, len);
            }
        }
        for offset in 0..64 {
            check(non_temporal, offset, 64 - offset, 4096 + offset);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_width_copies_the_same() {
        #[repr(align(64))]
        struct Lines([u8; 1024]);
        type Copy = unsafe fn(*mut u8, *const u8, usize);
        let mut widths: Vec<(&str, Copy)> = vec![("sse2", x86::lines_sse2)];
        if std::arch::is_x86_feature_detected!("avx2") {
            widths.push(("avx2", x86::lines_avx2));
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            widths.push(("avx512", x86::lines_avx512));
        }
        let source = pattern(1024 + 3);
        for (name, copy) in widths {
            for lines in 0..=16 {
                let mut target = Lines([0; 1024]);
                // SAFETY: `target` is aligned and holds 16 lines, the source 3 bytes more.
                unsafe { copy(target.0.as_mut_ptr(), source.as_ptr().add(3), lines) };
                let len = lines * 64;
                assert!(target.0[..len] == source[3..3 + len], "{name}, {lines} lines");
                assert!(target.0[len..].iter().all(|&byte| byte == 0), "{name}, {lines} lines");
            }
        }
    }
}
