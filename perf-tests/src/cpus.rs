//! Which CPUs may be used, and staying on one.

use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs this thread may run on, ascending.
pub fn allowed() -> Result<Vec<usize>, Error> {
    let set = sched_getaffinity(None)
        .map_err(|e| Error::System { what: "reading the CPUs allowed", source: e.into() })?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps this thread, and what it starts from now on, to `cpus`.
pub fn stay_on(cpus: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)
        .map_err(|e| Error::System { what: "pinning to a CPU", source: e.into() })
}

/// Runs `work` on a thread that stays on `cpu`, and so does what it starts.
pub fn on<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| stay_on(&[cpu]).map(|()| work()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The first two CPUs allowed: where a pair is measured.
pub fn pair() -> Result<(usize, usize), Error> {
    match allowed()?[..] {
        [first, second, ..] => Ok((first, second)),
        ref fewer => Err(Error::TooFewCpus { got: fewer.len() }),
    }
}

/// Pins rank `rank` to the CPU it should have: the `rank`-th allowed one, counted round. A rank
/// that a launcher already bound to one CPU stays there. Returns the CPU.
pub fn pin_rank(rank: u32) -> Result<usize, Error> {
    let cpus = allowed()?;
    let cpu = cpus[rank as usize % cpus.len()];
    stay_on(&[cpu])?;
    Ok(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_nowhere_else() {
        std::thread::spawn(|| {
            let all = allowed().unwrap();
            let cpu = pin_rank(all.len() as u32 + 1).unwrap();
            assert_eq!(cpu, all[1 % all.len()]);
            assert_eq!(allowed().unwrap(), [cpu]);
            assert_eq!(pin_rank(0).unwrap(), cpu, "already bound");
            assert!(matches!(pair(), Err(Error::TooFewCpus { got: 1 })));
        })
        .join()
        .unwrap();
    }
}
