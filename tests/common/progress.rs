//! Progress of an endpoint, for a time or until something is so.

use std::time::{Duration, Instant};
use taffrail::{Buffer, Endpoint, Transport};

/// No test runs longer than this.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Makes progress until `done` says so.
#[track_caller]
pub fn until<F: Transport>(ep: &mut Endpoint<F>, mut done: impl FnMut(&mut Endpoint<F>) -> bool) {
    let start = Instant::now();
    while !done(ep) {
        assert!(start.elapsed() < PATIENCE / 2, "waited in vain");
        if ep.progress() == 0 {
            std::thread::yield_now();
        }
    }
}

/// Makes progress for this long.
pub fn linger(ep: &mut Endpoint<impl Transport>, time: Duration) {
    let start = Instant::now();
    until(ep, |_| start.elapsed() > time);
}

/// How many buffers of `len` bytes there are in the pool, if each takes a region of its own. The one
/// that shows its end is added to `held`.
pub fn pooled(ep: &mut Endpoint<impl Transport>, len: usize, held: &mut Vec<Buffer>) -> usize {
    let before = ep.footprint();
    let mut taken = Vec::new();
    loop {
        let buffer = ep.alloc(len).unwrap();
        if ep.footprint() > before {
            held.push(buffer);
            return taken.len();
        }
        taken.push(buffer);
    }
}
