//! How much address space and how many descriptors the program has left.

use crate::say::say;
use rustix::process::{Resource, getrlimit};

/// What the program and its peers may still need, in bytes: a peer's memory takes 16 MiB of addresses.
const ENOUGH_BYTES: u64 = 48 << 20;
/// Descriptors for one peer, and some for the program.
const ENOUGH_FILES: u64 = 12;

/// A limit, and what it leaves.
struct Room {
    what: &'static str,
    /// As the shell says it.
    ulimit: String,
    left: u64,
    enough: u64,
    /// The unit of what is left, in words, and its size.
    unit: (&'static str, u64),
}

/// Says so if a limit leaves little: an MPI does not say why it ends then.
pub fn say_if_little() {
    let rooms = [bytes(), files()];
    rooms.into_iter().flatten().filter_map(|room| room.line()).for_each(|line| say(&line));
}

impl Room {
    /// What is to be said, if less is left than is enough.
    fn line(&self) -> Option<String> {
        let Room { what, ulimit, left, enough, unit: (unit, size) } = self;
        let left = (left < enough).then(|| left / size)?;
        Some(format!(
            "the limit of {what} ({ulimit}) leaves {left} {unit} for the program and its peers; raise it if \
             the program fails"
        ))
    }
}

fn bytes() -> Option<Room> {
    let limit = getrlimit(Resource::As).current?;
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(Room {
        what: "address space",
        ulimit: format!("ulimit -v {}", limit / 1024),
        left: limit.saturating_sub(pages * rustix::param::page_size() as u64),
        enough: ENOUGH_BYTES,
        unit: ("MiB", 1 << 20),
    })
}

fn files() -> Option<Room> {
    let limit = getrlimit(Resource::Nofile).current?;
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(Room {
        what: "open files",
        ulimit: format!("ulimit -n {limit}"),
        left: limit.saturating_sub(open),
        enough: ENOUGH_FILES,
        unit: ("files", 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_little_is_worth_a_line() {
        let room = |left| Room { left, ulimit: "ulimit -n 24".into(), ..files().unwrap() };
        assert_eq!(room(ENOUGH_FILES).line(), None);
        assert_eq!(
            room(3).line().unwrap(),
            "the limit of open files (ulimit -n 24) leaves 3 files for the program and its peers; raise it \
             if the program fails"
        );
    }
}
