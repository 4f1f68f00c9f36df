//! Which CPU each rank runs on.

use super::{Bind, Failure};
use crate::log::note;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The CPU of each rank of a job whose ranks are bound.
pub struct Places {
    cpus: Vec<usize>,
    /// Held as long as the job lives.
    _claims: Vec<Claim>,
}

impl Places {
    pub fn of(&self, rank: usize) -> usize {
        self.cpus[rank]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }
}

/// A CPU to which a job has bound a rank. Other jobs find it taken for as long as this one lives: it is an abstract
/// name of a socket, which ends with its process, however that ends.
struct Claim(#[allow(dead_code, reason = "it is held")] UnixDatagram);

impl Claim {
    /// `None` if it is taken, or if nobody could see that it is.
    fn take(cpu: usize) -> Option<Claim> {
        let name = SocketAddr::from_abstract_name(format!("taffrail-cpu-{cpu}")).ok()?;
        UnixDatagram::bind_addr(&name).ok().map(Claim)
    }
}

/// Where ranks are to run, if they are to be bound.
///
/// If nothing is asked for they are bound where that helps: if there are several, and a CPU for each that no other job
/// has bound a rank to. One rank may have threads, and two jobs must not share a CPU while others are idle.
pub fn places(bind: Option<Bind>, ranks: usize) -> Result<Option<Places>, Failure> {
    let (bind, asked_for) = match bind {
        Some(bind) => (bind, true),
        None if ranks < 2 => (Bind::None, false),
        None => (Bind::Core, false),
    };
    if bind == Bind::None {
        return Ok(None);
    }
    match (can_bind(), asked_for) {
        (Ok(allowed), true) => Ok(Some(round_robin(&allowed, ranks))),
        (Ok(allowed), false) => Ok(unclaimed(&allowed, ranks, Claim::take)),
        (Err(why), true) => {
            Err(Failure::new(format!("ranks cannot be bound to CPUs (--bind core): {why}")))
        }
        (Err(why), false) => {
            note(&format!("ranks are not bound to CPUs: {why}"));
            Ok(None)
        }
    }
}

/// Where the ranks of a node are to run. Agents of one host, as in tests, take different CPUs if there are enough.
pub fn places_of_node(bind: Option<Bind>, ranks: usize) -> Result<Option<Places>, Failure> {
    let apart = |allowed: Vec<usize>| unclaimed(&allowed, ranks, Claim::take);
    let found = bind.filter(|bind| *bind == Bind::Core).and(can_bind().ok()).and_then(apart);
    found.map_or_else(|| places(bind, ranks), |found| Ok(Some(found)))
}

/// One CPU after the other from the first on, whatever other jobs do.
fn round_robin(allowed: &[usize], ranks: usize) -> Places {
    let cpus = allowed.iter().copied().cycle().take(ranks).collect();
    Places {
        cpus,
        _claims: allowed.iter().take(ranks).filter_map(|&cpu| Claim::take(cpu)).collect(),
    }
}

/// One CPU for each rank that no other job has, if there are enough.
fn unclaimed(
    allowed: &[usize],
    ranks: usize,
    take: impl Fn(usize) -> Option<Claim>,
) -> Option<Places> {
    if ranks > allowed.len() {
        return None;
    }
    let free = allowed.iter().filter_map(|&cpu| Some((cpu, take(cpu)?)));
    let (cpus, claims): (Vec<_>, Vec<_>) = free.take(ranks).unzip();
    (cpus.len() == ranks).then_some(Places { cpus, _claims: claims })
}

/// The CPUs that are allowed here, if processes can be bound to them.
fn can_bind() -> Result<Vec<usize>, String> {
    let refused = |call| move |errno| format!("{call}: {errno}");
    let present = sched_getaffinity(None).map_err(refused("sched_getaffinity"))?;
    sched_setaffinity(None, &present).map_err(refused("sched_setaffinity"))?;
    Ok(all_of(&present))
}

/// The CPUs this process may run on.
///
/// # Errors
/// The kernel's.
pub fn allowed() -> rustix::io::Result<Vec<usize>> {
    Ok(all_of(&sched_getaffinity(None)?))
}

fn all_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs of `allowed` that are chosen for the ranks while some are taken.
    fn chosen(allowed: &[usize], ranks: usize, taken: &[usize]) -> Option<Vec<usize>> {
        let take = |cpu| (!taken.contains(&cpu)).then(|| Claim(UnixDatagram::unbound().unwrap()));
        unclaimed(allowed, ranks, take).map(|places| places.cpus)
    }

    #[test]
    fn ranks_get_cpus_that_no_other_job_has() {
        assert_eq!(chosen(&[0, 1, 2, 5], 2, &[]), Some(vec![0, 1]));
        assert_eq!(chosen(&[0, 1, 2, 5], 2, &[0, 1]), Some(vec![2, 5]));
        assert_eq!(chosen(&[0, 1, 2, 5], 3, &[1]), Some(vec![0, 2, 5]));
        assert_eq!(chosen(&[0, 1, 2, 5], 3, &[0, 1]), None);
        assert_eq!(chosen(&[0, 1], 3, &[]), None);
    }

    #[test]
    fn a_claim_lasts_as_long_as_it_is_held() {
        // No machine has this one.
        let cpu = 1_000_000 + std::process::id() as usize;
        let first = Claim::take(cpu);
        assert!(first.is_some() && Claim::take(cpu).is_none());
        drop(first);
        assert!(Claim::take(cpu).is_some());
    }

    #[test]
    fn what_was_asked_for_is_done_whoever_else_is_there() {
        let places = round_robin(&[3, 4], 5);
        assert_eq!((0..5).map(|rank| places.of(rank)).collect::<Vec<_>>(), [3, 4, 3, 4, 3]);
    }
}
