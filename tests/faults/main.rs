//! What happens when something fails: processes killed at any point, peers that write nonsense,
//! a kernel that refuses, memory that runs out.
//!
//! `TAFFRAIL_SEED=<seed>` repeats one round of a random test, `TAFFRAIL_KILLS=<count>` kills more
//! processes than an ordinary run does.

mod asleep;
mod crowd;
mod family;
mod fork;
mod hostile;
mod kill;
mod lend;
mod limits;
mod pattern;
#[path = "../common/progress.rs"]
mod progress;
mod server;
mod traffic;

use std::time::Duration;

/// What a worker process does: nothing, when run as a test.
#[test]
fn worker() {
    let Ok(part) = std::env::var(family::PART) else { return };
    match part.as_str() {
        "traffic" => traffic::work(),
        "limited" => limits::work(),
        "forker" => fork::work(),
        "asleep" => asleep::work(),
        "crowd" => crowd::work(),
        "lend" => lend::work(),
        "hostile" => hostile::work(),
        other => panic!("no part {other}"),
    }
}

/// How long something that takes milliseconds may take on a machine that does much else.
const LONG: Duration = Duration::from_secs(30);
