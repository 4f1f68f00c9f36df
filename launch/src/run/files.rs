//! The limit of open files: the launcher has up to ten for each rank, ranks get what it was given itself.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::OnceLock;

/// The limit that this process was started with, if it was raised.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process have as many open files as it may give itself.
pub fn raise_limit() {
    let Some(given) = present(libc::RLIMIT_NOFILE) else { return };
    let is_lower = given.current.is_some_and(|now| given.maximum.is_none_or(|most| now < most));
    // A job for which it is too low still says so.
    if is_lower && setrlimit(Resource::Nofile, Rlimit { current: given.maximum, ..given }).is_ok() {
        let _ = GIVEN.set(given);
    }
}

/// The limit that ranks are to have, if it is not the present one.
pub fn limit_to_restore() -> Option<Rlimit> {
    GIVEN.get().copied()
}

/// The present limit of a resource, if the system tells it: rustix takes for granted that it does.
pub fn present(resource: libc::__rlimit_resource_t) -> Option<Rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it is written to, and nothing else.
    let succeeded = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    let some = |value| (value != libc::RLIM_INFINITY).then_some(value);
    succeeded.then(|| Rlimit { current: some(limit.rlim_cur), maximum: some(limit.rlim_max) })
}
