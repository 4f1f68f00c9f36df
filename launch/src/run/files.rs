//! The limit of open files: the launcher has up to ten for each rank, ranks get what it was given itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::OnceLock;

/// The limit that this process was started with.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process have as many open files as it may give itself.
pub fn raise_limit() {
    let given = GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    // A job for which it is too low still says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, ..*given });
}

/// The limit that this process was started with.
pub fn limit_given() -> Rlimit {
    *GIVEN.get_or_init(|| getrlimit(Resource::Nofile))
}
