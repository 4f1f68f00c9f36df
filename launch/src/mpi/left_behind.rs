//! What an MPI leaves behind when its process ends, or is killed.
//!
//! MPICH has memory in `/dev/shm` for the ranks of a node, also if there is only one: the first process makes
//! it, and the others wait until it is ready. The successor of a killed rank finds that of its predecessor,
//! and takes itself for one of the others: if that was killed while it made the memory, for ever.
//!
//! Open MPI makes a session folder for each node in the temporary directory, and leaves it there where the
//! launcher is not its own: Open MPI 5 always, 4 when a rank is killed.

use std::path::{Path, PathBuf};

/// Removes what processes of these nodes have left behind. None of them runs.
pub(crate) fn remove(job: &str, nodes: impl IntoIterator<Item = usize>) {
    let temporary = temporary_folder();
    for node in nodes {
        for file in files(job, node) {
            // It is not there, mostly.
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir_all(session_folder(&temporary, job, node));
    }
}

/// Where Open MPI makes its folders.
fn temporary_folder() -> PathBuf {
    let names = ["TMPDIR", "TEMP", "TMP"].into_iter();
    names.filter_map(std::env::var_os).next().map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// The session folder of a node. No other job has one of this name.
fn session_folder(temporary: &Path, job: &str, node: usize) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    temporary.join(format!("ompi.{}.{user}", taffrail_pmix::node_name(job, node as u32)))
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
        // As Open MPI 5.0 has called it.
        let folder = session_folder(Path::new("/tmp"), "taffrail-9918-d49dd68323c7b60b", 1);
        let user = rustix::process::geteuid().as_raw();
        let expected = format!("/tmp/ompi.taffrail-9918-d49dd68323c7b60b-node1.{user}");
        assert_eq!(folder, Path::new(&expected));
    }

    #[test]
    fn a_session_folder_goes_with_all_that_is_in_it_and_no_other() {
        let job = format!("taffrail-test-{}", std::process::id());
        let temporary = temporary_folder();
        let [ours, other] = [0, 1].map(|node| session_folder(&temporary, &job, node));
        std::fs::create_dir_all(ours.join("jf.0/17")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        remove(&job, [0]);
        assert!(!ours.exists() && other.exists());
        remove(&job, [1]);
        assert!(!other.exists());
    }
}
