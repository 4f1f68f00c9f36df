//! Limits on memory.

use super::{Finding, bytes, read};
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// Below this a network adapter cannot register what the transport sends from.
const ENOUGH_LOCKED: u64 = 64 << 20;

/// How much memory may be locked, as network adapters require.
pub fn memlock() -> Finding {
    match getrlimit(Resource::Memlock).current {
        None => Finding::there("RLIMIT_MEMLOCK", "unlimited"),
        Some(limit) if limit >= ENOUGH_LOCKED => Finding::there("RLIMIT_MEMLOCK", bytes(limit)),
        Some(limit) => Finding::missing(
            "RLIMIT_MEMLOCK",
            format!("{}, network adapters need {} and more", bytes(limit), bytes(ENOUGH_LOCKED)),
            "ulimit -l unlimited, or a line `* - memlock unlimited` in /etc/security/limits.conf",
        ),
    }
}

/// Whether shared memory can have huge pages, for which the line asks.
pub fn huge_pages() -> Finding {
    const WHAT: &str = "huge pages";
    match taffrail_shm::try_huge_page() {
        Ok(()) => Finding::there(WHAT, "for shared memory (MADV_COLLAPSE)"),
        Err(errno) => Finding::missing(
            WHAT,
            format!("shared memory gets none now ({errno}); new memory takes several times longer"),
            "use Linux 6.1 or newer with CONFIG_TRANSPARENT_HUGEPAGE, and not `deny` in \
             /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
    }
}

/// How much memory there is, and what the control group allows.
pub fn memory() -> Finding {
    let free = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?.trim();
        line.strip_suffix(" kB")?.parse::<u64>().ok()
    });
    let free = free.map_or("unknown".to_owned(), |kib| bytes(kib << 10));
    let limit = group_limit().map_or("none".to_owned(), bytes);
    Finding::there("memory", format!("{free} available; limit of the control group: {limit}"))
}

/// The lowest limit of the control groups this process is in (version 2, else 1).
fn group_limit() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let of = |version: &str, root: &str, file: &str| {
        let path = groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|c| c == version).then(|| path.trim_start_matches('/'))
        })?;
        let folder = Path::new(root).join(path);
        let above = folder.ancestors().take_while(|folder| folder.starts_with(root));
        above.filter_map(|folder| read(folder.join(file))?.parse::<u64>().ok()).min()
    };
    of("", "/sys/fs/cgroup", "memory.max")
        .or_else(|| of("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
        // Version 1 says "none" with a number close to the largest one.
        .filter(|limit| *limit < 1 << 60)
}
