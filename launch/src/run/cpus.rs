//! Which CPU each rank runs on.

use super::{Args, Bind, Failure};
use rustix::thread::CpuSet;

/// The CPU of each rank, if ranks are to be bound.
pub fn places(args: &Args) -> Result<Option<Vec<usize>>, Failure> {
    let allowed = allowed()
        .map_err(|e| Failure::new(format!("cannot tell which CPUs are allowed here: {e}")))?;
    let ranks = args.ranks as usize;
    let bind = args.bind.unwrap_or(if ranks <= allowed.len() { Bind::Core } else { Bind::None });
    Ok((bind == Bind::Core).then(|| allowed.iter().copied().cycle().take(ranks).collect()))
}

/// The CPUs this process may run on.
///
/// # Errors
/// The kernel's.
pub fn allowed() -> rustix::io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}
