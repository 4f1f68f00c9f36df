//! What a rank waits for that has not met all others yet.

use super::{processes, warn};
use crate::words::{NAMED_MAX, listed};
use crate::{Rank, environment};
use std::time::Duration;

/// Waits that are shorter are not worth a line.
const LONG: Duration = Duration::from_secs(10);

/// Says for whom a rank of a job waits, and since when, if it is long.
///
/// # Errors
/// Why waiting makes no sense.
pub(crate) fn waits(me: Rank, missing: &[Rank], waited: Duration) -> Result<(), String> {
    let job = environment::value("TAFFRAIL_JOB").unwrap_or_default();
    // Looking for processes takes time: of some of them.
    let named = &missing[..missing.len().min(NAMED_MAX)];
    let found: Vec<_> = named.iter().map(|&rank| (rank, processes::of_rank(&job, rank))).collect();
    let own = processes::network_of(std::process::id() as i32);
    for (rank, pids) in &found {
        let networks: Vec<_> = pids.iter().filter_map(|&pid| processes::network_of(pid)).collect();
        if own.is_some()
            && !networks.is_empty()
            && networks.iter().all(|of| Some(of) != own.as_ref())
        {
            return Err(format!(
                "rank {me} and rank {rank} (pid {}) run in different network namespaces, so they cannot \
                 meet; run all ranks in one (containers: --network=host)",
                pids[0]
            ));
        }
    }
    if waited >= LONG {
        let in_words = |(rank, pids): &(Rank, Vec<i32>)| format!("rank {rank}{}", state(pids));
        let mut words: Vec<String> = found.iter().map(in_words).collect();
        words.extend(missing[named.len()..].iter().map(|rank| format!("rank {rank}")));
        let seconds = waited.as_secs();
        warn(&format!("rank {me} has waited for {seconds} s to meet {}", listed(&words)));
    }
    Ok(())
}

/// What there is of a rank.
fn state(pids: &[i32]) -> String {
    match pids {
        [] => ": no process of it is to be seen from here (containers: --pid=host --network=host)"
            .into(),
        [pid, ..] => match pids.iter().find(|&&pid| processes::is_stopped(pid)) {
            Some(pid) => format!(" (pid {pid}), which is stopped, by a signal or a debugger"),
            None => format!(" (pid {pid}), which runs and has not opened its endpoint yet"),
        },
    }
}
