//! The number of the next message of a channel.

/// The next number of a channel. It is used up only when its message has left, or is certain to leave.
#[derive(Debug)]
pub struct Next<'a>(&'a mut u32);

impl<'a> Next<'a> {
    /// The one that is kept here.
    #[inline(always)]
    pub fn new(next: &'a mut u32) -> Self {
        Next(next)
    }

    /// The number, which the channel still has.
    #[inline(always)]
    pub fn peek(&self) -> u32 {
        *self.0
    }

    /// Uses the number up, and returns it. Numbers wrap.
    #[inline(always)]
    pub fn commit(self) -> u32 {
        let seq = *self.0;
        *self.0 = seq.wrapping_add(1);
        seq
    }
}
