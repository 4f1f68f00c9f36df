//! `fi_close` of an endpoint returns when what was sent over it has arrived, as MPI_Finalize promises for
//! sends whose requests were freed.

use super::Endpoint;
use std::time::{Duration, Instant};

/// Turns without a pause, for what is over at once.
const TURNS: u32 = 1000;
/// Pause between two turns after that.
const PAUSE: Duration = Duration::from_micros(200);
/// A wait that takes longer says what it waits for.
const LONG: Duration = Duration::from_secs(10);

/// Waits until nothing is under way any more that a living peer has a part in. Other endpoints of the domain
/// make progress meanwhile, also in other threads: a peer may wait for one of them first.
///
/// What is logged is waited for elsewhere ([`crate::standby`]).
///
/// # Safety
/// An open endpoint, whose domain is not locked by this thread.
pub unsafe fn wait(endpoint: *mut Endpoint) {
    // SAFETY: the caller's promise; the lock is held while endpoints and the state are used.
    unsafe {
        let domain = (*endpoint).domain;
        if (*endpoint).is_logged {
            return;
        }
        let since = Instant::now();
        for turn in 0.. {
            let _guard = (*domain).lock.take();
            if (*endpoint).engine.try_finalize() {
                return;
            }
            for &other in &(*domain).state.endpoints {
                if other != endpoint {
                    (*other).stand_in();
                }
            }
            if turn < TURNS {
                continue;
            }
            if since.elapsed() > LONG {
                (*endpoint).waits_since(since);
            }
            drop(_guard);
            std::thread::sleep(PAUSE);
        }
    }
}
