//! Copying bytes.

/// Nearer than this behind the source, counted within a page, a target is copied to slowly.
const CLOSE: usize = 32;
const PAGE: usize = 4096;
/// Ranges of up to this many bytes are copied by ordinary loads and stores.
const PART: usize = 2048;
const LINE: usize = 64;

/// Copies `len` bytes.
///
/// C libraries copy long ranges with `rep movsb`. On Zen this moves a byte at a time, ten to twenty times more
/// slowly, if the target lies 1 to 15 bytes behind the source, counted within a page (Zen 4), or 1 to 31
/// (Zen 3): as a message does behind a word that says its length, or memory of `malloc` behind the
/// beginning of a page. Such ranges are copied in parts, for which other instructions are used
/// (`docs/measurements.md`).
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes; they do not overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if len > PART && is_close(from, to) {
            in_parts(from, to, len);
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

#[inline]
fn is_close(from: *const u8, to: *mut u8) -> bool {
    (to.addr().wrapping_sub(from.addr()).wrapping_sub(1)) % PAGE < CLOSE - 1
}

/// # Safety
/// As [`copy`].
#[cold]
#[inline(never)]
unsafe fn in_parts(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..len).step_by(PART) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), PART.min(len - at)) };
    }
}

/// How far into a line `len` bytes that are gathered from `parts` should begin.
///
/// Long ranges are copied fastest if both ends lie alike in their lines, and some distances are slow
/// ([`copy`]). So the last part, which is the long one, lies as it does in the program; often it will in the
/// receiver's, too.
#[inline]
pub fn skew(parts: &[&[u8]], len: usize) -> usize {
    match parts.last() {
        Some(last) if last.len() > PART => {
            last.as_ptr().addr().wrapping_sub(len - last.len()) % LINE
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Pages([u8; 4 * PAGE]);

    fn pattern() -> Box<Pages> {
        let mut pages = Box::new(Pages([0; 4 * PAGE]));
        pages.0.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 31 + i / 251) as u8 | 1);
        pages
    }

    #[test]
    fn every_distance_and_length_is_copied_exactly() {
        let source = pattern();
        for from in [0, 1, 8, 100] {
            for to in from..from + 2 * CLOSE {
                for len in [0, 1, 64, PART, PART + 1, PAGE, 2 * PART + 1, 2 * PAGE + 17] {
                    let mut target = Box::new(Pages([0; 4 * PAGE]));
                    // SAFETY: both have room for `len` bytes from these places on.
                    unsafe {
                        copy(source.0.as_ptr().add(from), target.0.as_mut_ptr().add(to), len)
                    };
                    assert!(
                        target.0[to..to + len] == source.0[from..from + len],
                        "{from} {to} {len}"
                    );
                    let around = target.0[..to].iter().chain(&target.0[to + len..]);
                    assert!(around.clone().all(|&byte| byte == 0), "{from} {to} {len}");
                }
            }
        }
    }

    #[test]
    fn the_long_part_lies_in_its_lines_as_it_does_in_the_program() {
        let bytes = pattern();
        for from in 0..LINE {
            for lead in [0, 1, 8, 63, 100] {
                let (lead, last) = (&bytes.0[..lead], &bytes.0[from..from + PART + 1]);
                let skew = skew(&[lead, last], lead.len() + last.len());
                assert!(skew < LINE);
                assert_eq!((skew + lead.len()) % LINE, last.as_ptr().addr() % LINE);
            }
            assert_eq!(skew(&[&bytes.0[from..from + PART]], PART), 0, "it is short");
        }
    }

    #[test]
    fn targets_close_behind_their_source_are_found() {
        let pages = pattern();
        let at = |offset: usize| pages.0.as_ptr().wrapping_add(offset);
        let close = |from: usize, to: usize| is_close(at(from), at(to).cast_mut());
        assert!(close(0, 1) && close(0, 31) && close(8, PAGE + 9) && close(PAGE - 4, 2 * PAGE));
        assert!(!close(0, 0) && !close(0, 32) && !close(8, 0) && !close(PAGE, 0));
    }
}
