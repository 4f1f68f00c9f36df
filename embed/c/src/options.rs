//! What few messages need, beside rank and tag.

use crate::guard::Failure;
use crate::names::TAFFRAIL_ANY_SOURCE;
use taffrail::{Dest, Pattern};

/// The member `context` is set.
pub const TAFFRAIL_OPTION_CONTEXT: u32 = 1;

/// Of a send: it is over when a receive has matched the message. It has no member.
pub const TAFFRAIL_OPTION_SYNC: u32 = 2;

/// What few messages need. Calls take a null pointer for none of it. Set `fields` to the sum of the
/// TAFFRAIL_OPTION_* that are wanted; members of others are not looked at, so that later versions can
/// have more of them. What a call does not know, or cannot use, is TAFFRAIL_ERROR_ARGUMENT.
#[repr(C)]
pub struct taffrail_options_t {
    /// The sum of the TAFFRAIL_OPTION_* that are wanted.
    pub fields: u32,
    /// The context (communicator): messages and receives of different contexts never meet. Programs
    /// use 0 to 65279; 0 if it is not set.
    pub context: u16,
}

/// Where a message goes, and whether its send is synchronous.
///
/// # Safety
/// `options` is null, or points to options.
#[inline]
pub(crate) unsafe fn dest(
    rank: u32,
    tag: u64,
    options: *const taffrail_options_t,
) -> Result<(Dest, bool), Failure> {
    let dest = Dest::new(rank, tag);
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok((dest, false)),
        Some(options) => {
            options.only(TAFFRAIL_OPTION_CONTEXT | TAFFRAIL_OPTION_SYNC)?;
            Ok((dest.context(options.context()), options.has(TAFFRAIL_OPTION_SYNC)))
        }
    }
}

/// Which messages a receive takes.
///
/// # Safety
/// `options` is null, or points to options.
#[inline]
pub(crate) unsafe fn pattern(
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
) -> Result<Pattern, Failure> {
    let source = (source != TAFFRAIL_ANY_SOURCE).then_some(source);
    let pattern = Pattern { source, context: 0, tag, ignore };
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok(pattern),
        Some(options) => {
            options.only(TAFFRAIL_OPTION_CONTEXT)?;
            Ok(pattern.context(options.context()))
        }
    }
}

impl taffrail_options_t {
    fn has(&self, field: u32) -> bool {
        self.fields & field != 0
    }

    fn context(&self) -> u16 {
        if self.has(TAFFRAIL_OPTION_CONTEXT) { self.context } else { 0 }
    }

    /// Refuses other fields than these.
    fn only(&self, known: u32) -> Result<(), Failure> {
        match self.fields & !known {
            0 => Ok(()),
            others => Err(Failure::Argument(format!(
                "options.fields has {others:#x}, which this call cannot use (it can {known:#x}); \
                 leave them out, or use a library that knows them"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(fields: u32, context: u16) -> taffrail_options_t {
        taffrail_options_t { fields, context }
    }

    #[test]
    fn only_what_is_set_is_looked_at() {
        // SAFETY: the options are there.
        let dest = |fields| unsafe { dest(1, 2, &options(fields, 9)) }.ok().unwrap();
        assert_eq!(dest(0), (Dest::new(1, 2), false));
        assert_eq!(dest(TAFFRAIL_OPTION_CONTEXT), (Dest::new(1, 2).context(9), false));
        assert_eq!(dest(TAFFRAIL_OPTION_SYNC), (Dest::new(1, 2), true));
    }

    #[test]
    fn what_a_call_cannot_use_is_refused() {
        // SAFETY: the options are there.
        unsafe {
            assert!(dest(1, 2, &options(1 << 31, 0)).is_err());
            assert!(pattern(1, 2, 0, &options(TAFFRAIL_OPTION_SYNC, 0)).is_err());
        }
    }

    #[test]
    fn any_source_is_no_rank() {
        // SAFETY: null is allowed.
        let pattern = |source| unsafe { pattern(source, 5, 6, std::ptr::null()) }.ok().unwrap();
        assert_eq!(pattern(TAFFRAIL_ANY_SOURCE), Pattern::any_source(5).ignore(6));
        assert_eq!(pattern(3), Pattern::new(3, 5).ignore(6));
    }
}
