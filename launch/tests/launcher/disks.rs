//! File systems of a test's own, which are gone when it ends.

use super::*;
use std::path::{Path, PathBuf};

/// Runs a test once more where it may mount what it wants, if that is permitted. There this is a folder
/// to mount it on; here nothing is left to do.
pub fn own_folder(test: &str) -> Option<PathBuf> {
    const FOLDER: &str = "TEST_OWN_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let alone = ["--user", "--map-root-user", "--mount"];
    let mut command = Command::new("unshare");
    command.args(alone).args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder.path());
    match command.output() {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: no mount namespace of our own: {other:?}");
            return None;
        }
    }
    let mut command = Command::new("unshare");
    command.args(alone).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder.path());
    assert!(command.status().unwrap().success());
    None
}

/// Gives a folder so much room, and no more.
pub fn small_disk(folder: &Path, size: &str) {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder);
    assert!(mount.status().unwrap().success());
}
