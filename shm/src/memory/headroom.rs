//! How much memory is left, to refuse what cannot be had before the kernel ends somebody for it.

use std::path::{Path, PathBuf};
use taffrail_fabric::words::counted;

use rustix::io::Errno;
use taffrail_fabric::MemoryError;

const WHAT: &str = "shared memory";

/// Refuses `need` bytes when the machine or a control group of ours does not have them.
///
/// # Errors
/// [`MemoryError::Short`].
pub(super) fn check(need: u64) -> Result<(), MemoryError> {
    match tightest(Path::new("/proc"), Path::new("/sys/fs/cgroup")) {
        Some(room) if room.left < need => Err(room.short(need)),
        _ => Ok(()),
    }
}

/// The error for `need` bytes that the kernel refused with `errno`.
pub(super) fn short(need: u64, errno: Errno) -> MemoryError {
    let room = tightest(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    let have = match &room {
        Some(room) => format!("the kernel said \"{errno}\", and {}", room.text()),
        None => format!("the kernel said \"{errno}\""),
    };
    let remedy = room.map_or("use less memory, or a machine with more", |room| room.remedy());
    MemoryError::Short { what: WHAT, need, have, remedy }
}

/// One limit on memory.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    /// Bytes still to be had.
    left: u64,
    /// The control group that says so and its limit; `None`: the machine.
    group: Option<(PathBuf, u64)>,
}

impl Room {
    fn text(&self) -> String {
        match &self.group {
            Some((path, limit)) => format!(
                "{} left of the {limit} that memory.max of {} allows",
                counted(self.left, "byte"),
                path.display()
            ),
            None => format!("{} available (MemAvailable)", counted(self.left, "byte")),
        }
    }

    fn remedy(&self) -> &'static str {
        match self.group {
            Some(_) => "raise memory.max of that control group (the container's memory limit)",
            None => "end other programs, run fewer ranks here, or use a machine with more memory",
        }
    }

    fn short(&self, need: u64) -> MemoryError {
        MemoryError::Short { what: WHAT, need, have: self.text(), remedy: self.remedy() }
    }
}

/// The tightest limit that can be read.
fn tightest(proc: &Path, groups: &Path) -> Option<Room> {
    let machine = std::fs::read_to_string(proc.join("meminfo"))
        .ok()
        .and_then(|text| field(&text, "MemAvailable:"))
        .map(|kib| Room { left: kib.saturating_mul(1024), group: None });
    let own = std::fs::read_to_string(proc.join("self/cgroup")).ok();
    let own =
        own.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")));
    let levels = own.map(|path| groups.join(path)).unwrap_or_else(|| groups.to_path_buf());
    let levels = levels.ancestors().take_while(|level| level.starts_with(groups)).filter_map(group);
    machine.into_iter().chain(levels).min_by_key(|room| room.left)
}

/// What one control group leaves: the page cache it holds is given up on demand.
fn group(path: &Path) -> Option<Room> {
    let read = |file: &str| std::fs::read_to_string(path.join(file)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache = ["inactive_file", "active_file"].iter().filter_map(|key| field(&stat, key)).sum();
    let left = limit.saturating_sub(used.saturating_sub(cache));
    Some(Room { left, group: Some((path.to_path_buf(), limit)) })
}

/// The number after `key` at the start of a line.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()? == key { words.next()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, groups) = (dir.path().join("proc"), dir.path().join("groups"));
        write(&proc, "meminfo", "MemTotal: 900 kB\nMemAvailable:     800 kB\n");
        let machine = Room { left: 800 * 1024, group: None };
        assert_eq!(tightest(&proc, &groups), Some(machine));

        write(&proc, "self/cgroup", "0::/job/step\n");
        write(&groups, "job/step/memory.max", "max\n");
        write(&groups, "job/step/memory.current", "5\n");
        write(&groups, "job/memory.max", "10000\n");
        write(&groups, "job/memory.current", "9000\n");
        write(&groups, "job/memory.stat", "anon 1\ninactive_file 500\nactive_file 20\nfile 900\n");
        let room = tightest(&proc, &groups).unwrap();
        assert_eq!(room.left, 1520);
        assert_eq!(room.group, Some((groups.join("job"), 10000)));
        let error = room.short(2000).to_string();
        assert!(error.contains("2000 bytes needed, 1520 bytes left of the 10000"), "{error}");
        assert!(error.contains("memory.max"), "{error}");
    }

    #[test]
    fn nothing_to_read_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(tightest(dir.path(), dir.path()), None);
    }

    #[test]
    fn more_than_any_machine_has_is_refused_with_what_there_is() {
        let error = check(1 << 60).unwrap_err();
        let MemoryError::Short { need, have, .. } = error else { panic!("{error}") };
        assert_eq!(need, 1 << 60);
        assert!(have.contains(" bytes "), "{have}");
        check(4096).unwrap();
    }
}
