//! What few messages need, beside rank and tag.

use crate::guard::Failure;
use crate::names::TAFFRAIL_ANY_SOURCE;
use taffrail::{Data, Dest, Pattern};

/// The member `context` is set.
pub const TAFFRAIL_OPTION_CONTEXT: u32 = 1;

/// Of a send: it is over when a receive has matched the message. It has no member.
pub const TAFFRAIL_OPTION_SYNC: u32 = 2;

/// The member `data` is set. Of sends only.
pub const TAFFRAIL_OPTION_DATA: u32 = 4;

/// Of an operation that is started: its end is told by taffrail_next_ended(). It has no member.
pub const TAFFRAIL_OPTION_REPORT: u32 = 8;

/// What few messages need. Calls take a null pointer for none of it. Set `fields` to the sum of the
/// TAFFRAIL_OPTION_* that are wanted; members of others are not looked at, so that later versions can
/// have more of them. What a call does not know, or cannot use, is TAFFRAIL_ERROR_ARGUMENT.
#[repr(C)]
pub struct taffrail_options_t {
    /// The sum of the TAFFRAIL_OPTION_* that are wanted.
    pub fields: u32,
    /// The context (communicator): messages and receives of different contexts never meet. Programs
    /// use 0 to 49151. Of an endpoint that was opened (not joined) only the two highest bits tell them
    /// apart: use 0, 16384 and 32768 there.
    pub context: u16,
    /// A number below UINT32_MAX that travels beside the payload, for the receiver's status. Numbers up
    /// to 16382 cost nothing in an open job; others 8 bytes more on the way.
    pub data: u32,
}

/// Where a message goes, with the options that are no part of it.
///
/// # Safety
/// `options` is null, or points to options.
#[inline(always)]
pub(crate) unsafe fn dest(
    rank: u32,
    tag: u64,
    options: *const taffrail_options_t,
    usable: u32,
) -> Result<(Dest, u32), Failure> {
    let dest = Dest::new(rank, tag);
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok((dest, 0)),
        Some(options) => options.of_send(dest, usable),
    }
}

/// Which messages a receive takes, with the options that are no part of it.
///
/// # Safety
/// `options` is null, or points to options.
#[inline(always)]
pub(crate) unsafe fn pattern(
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
    usable: u32,
) -> Result<(Pattern, u32), Failure> {
    let source = (source != TAFFRAIL_ANY_SOURCE).then_some(source);
    let pattern = Pattern { source, context: 0, tag, ignore };
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok((pattern, 0)),
        Some(options) => options.of_receive(pattern, usable),
    }
}

/// A member whose field is not set may be uninitialised: it is not read.
impl taffrail_options_t {
    #[inline(never)]
    fn of_send(&self, dest: Dest, usable: u32) -> Result<(Dest, u32), Failure> {
        let with = self.only(usable)?;
        Ok((Dest { context: self.context(), data: self.data()?, ..dest }, with))
    }

    #[inline(never)]
    fn of_receive(&self, pattern: Pattern, usable: u32) -> Result<(Pattern, u32), Failure> {
        let with = self.only(usable)?;
        Ok((pattern.context(self.context()), with))
    }

    fn has(&self, field: u32) -> bool {
        self.fields & field != 0
    }

    fn context(&self) -> u16 {
        if self.has(TAFFRAIL_OPTION_CONTEXT) { self.context } else { 0 }
    }

    fn data(&self) -> Result<Data, Failure> {
        if !self.has(TAFFRAIL_OPTION_DATA) {
            return Ok(Data::NONE);
        }
        Data::new(self.data).ok_or_else(|| {
            Failure::Argument(
                "options.data is UINT32_MAX, which cannot be sent; use a smaller number".into(),
            )
        })
    }

    /// The fields, if there are no others than these.
    fn only(&self, known: u32) -> Result<u32, Failure> {
        match self.fields & !known {
            0 => Ok(self.fields),
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

    const ALL: u32 = 15;

    fn sends(fields: u32, data: u32) -> Option<(Dest, u32)> {
        let options = taffrail_options_t { fields, context: 9, data };
        // SAFETY: the options are there.
        unsafe { dest(1, 2, &options, ALL) }.ok()
    }

    #[test]
    fn only_what_is_set_is_looked_at() {
        assert_eq!(sends(0, 7), Some((Dest::new(1, 2), 0)));
        let context = TAFFRAIL_OPTION_CONTEXT;
        assert_eq!(sends(context, 7), Some((Dest::new(1, 2).context(9), context)));
        let data = TAFFRAIL_OPTION_DATA;
        assert_eq!(sends(data, 7), Some((Dest::new(1, 2).data(7), data)));
        assert_eq!((sends(data, u32::MAX), sends(0, u32::MAX).is_some()), (None, true));
    }

    #[test]
    fn what_a_call_cannot_use_is_refused() {
        assert_eq!(sends(ALL + 1, 0), None);
        let options = taffrail_options_t { fields: TAFFRAIL_OPTION_SYNC, context: 0, data: 0 };
        // SAFETY: the options are there.
        assert!(unsafe { pattern(1, 2, 0, &options, TAFFRAIL_OPTION_CONTEXT) }.is_err());
    }

    #[test]
    fn any_source_is_no_rank() {
        // SAFETY: null is allowed.
        let of = |source| unsafe { pattern(source, 5, 6, std::ptr::null(), 0) }.ok().unwrap();
        assert_eq!(of(TAFFRAIL_ANY_SOURCE), (Pattern::any_source(5).ignore(6), 0));
        assert_eq!(of(3), (Pattern::new(3, 5).ignore(6), 0));
    }
}
