//! Where things are.

use std::path::{Path, PathBuf};

/// The folders of this working copy.
pub struct Place {
    /// The root of the workspace.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
}

impl Place {
    /// The working copy that this program was built from.
    pub fn find() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().expect("xtask lies in the workspace").to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => std::path::absolute(folder).expect("there is a working directory"),
            None => root.join("target"),
        };
        Place { root, target }
    }

    /// A folder of its own for builds with other flags, so that they do not evict each other's.
    pub fn build(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }
}
