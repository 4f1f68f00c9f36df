//! The memory of the node, of which messages that nobody has received may take a part.

/// The least that a rank takes, however many there are.
const LEAST: usize = 16 << 20;

/// A quarter of the memory of the node, divided by its ranks: so much may messages take that nobody has received.
pub(super) fn share(ranks: usize) -> usize {
    share_of(total(), ranks)
}

fn share_of(total: usize, ranks: usize) -> usize {
    (total / 4 / ranks.max(1)).max(LEAST)
}

/// Bytes of memory that the processes of this node may have: all of it, or what the control group of a container allows.
fn total() -> usize {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let all = read("/proc/meminfo").and_then(|text| total_in(&text));
    let allowed = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    all.unwrap_or(LEAST).min(allowed.unwrap_or(usize::MAX))
}

/// The bytes that `/proc/meminfo` says there are.
fn total_in(meminfo: &str) -> Option<usize> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kib.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_rank_is_part_of_a_quarter() {
        assert_eq!(share_of(64 << 30, 8), 2 << 30);
        assert_eq!(share_of(64 << 30, 0), 16 << 30);
        assert_eq!(share_of(1 << 30, 1000), LEAST);
        assert_eq!(total_in("MemFree: 1 kB\nMemTotal:    24000 kB\nx"), Some(24_576_000));
        assert_eq!(total_in("MemTotal: many"), None);
        assert!(total() > LEAST, "{} bytes", total());
    }
}
