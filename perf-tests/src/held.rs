//! Memory that is there when something is measured that takes much.
//!
//! The host of a virtual machine may take back what the guest has not used for a second or two. The next to
//! use it waits until the host gives it again, twenty times as long as for memory that the host has not taken,
//! and has it in small pages of the host's at first. A figure would say how busy the machine had been before.

use crate::limits::Fresh;
use crate::provenance::DIVISOR;
use std::cell::RefCell;

/// What two ranks take at the most, each with a log of 512 MiB. Of more the host begins to take some at once.
const MOST: usize = (17 << 26) / DIVISOR;

/// Memory that the host cannot take back, until this is dropped.
pub struct Held(RefCell<Option<Fresh>>);

impl Held {
    /// Holds what ranks need for their logs, or a quarter of the free memory if that is less.
    pub fn keep() -> Held {
        Held(RefCell::new(hold()))
    }

    /// Measures something, and lets go of the memory meanwhile if that takes it.
    pub fn lent<T>(&self, takes: bool, measure: impl FnOnce() -> T) -> T {
        if !takes {
            return measure();
        }
        self.0.replace(None);
        let measured = measure();
        self.0.replace(hold());
        measured
    }
}

/// Nothing, if it is not to be had: who measures takes what there is.
fn hold() -> Option<Fresh> {
    let system = rustix::system::sysinfo();
    let free = (system.freeram as usize).saturating_mul(system.mem_unit as usize);
    Fresh::all(MOST.min(free / 4)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_free_while_it_is_lent() {
        let held = Held::keep();
        assert!(held.0.borrow().is_some());
        assert!(held.lent(true, || held.0.borrow().is_none()));
        assert!(held.lent(false, || held.0.borrow().is_some()));
        assert!(held.0.borrow().is_some());
    }
}
