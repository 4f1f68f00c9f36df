//! What an MPI leaves in `/dev/shm` when its process is killed.
//!
//! MPICH has memory there for the ranks of a node, also if there is only one: the first process makes it,
//! and the others wait until it is ready. The successor of a killed rank finds that of its predecessor,
//! and takes itself for one of the others: if that was killed while it made the memory, for ever.

use std::path::{Path, PathBuf};

/// Removes what processes of these nodes have left behind. None of them runs.
pub(crate) fn remove(job: &str, nodes: impl IntoIterator<Item = usize>) {
    for file in nodes.into_iter().flat_map(|node| files(job, node)) {
        // It is not there, mostly.
        let _ = std::fs::remove_file(file);
    }
}

/// The memory of a node, and that of its further connections.
fn files(job: &str, node: usize) -> [PathBuf; 2] {
    let world = digest(job);
    ["shm", "vci"].map(|what| Path::new("/dev/shm").join(format!("mpich_{what}_{world:x}_{node}")))
}

/// What MPICH makes of the name of a job (FNV-1a, 32 bits).
fn digest(job: &str) -> u32 {
    job.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MPICH 5.0 has called it.
    #[test]
    fn files_are_found() {
        let [memory, _] = files("taffrail-27547-49da439bf4c7b1a6", 1);
        assert_eq!(memory, Path::new("/dev/shm/mpich_shm_3ffaef73_1"));
    }
}
