//! The MPIs that are installed here, and programs compiled with them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI that programs can be compiled with.
pub struct Mpi {
    mpicc: PathBuf,
}

/// MPICH 5, or a line that says that something is left out.
pub fn mpich() -> Option<Mpi> {
    let folder = std::env::var_os("TAFFRAIL_TEST_MPICH").map(PathBuf::from);
    let found = folder.map(|folder| folder.join("bin/mpicc")).filter(|mpicc| mpicc.is_file());
    if found.is_none() {
        eprintln!("skipped: TAFFRAIL_TEST_MPICH does not name a folder with MPICH 5");
    }
    found.map(|mpicc| Mpi { mpicc })
}

/// Open MPI, or a line that says that something is left out.
pub fn open_mpi() -> Option<Mpi> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("mpicc.openmpi"));
    let found = all.find(|mpicc| mpicc.is_file());
    if found.is_none() {
        eprintln!("skipped: Open MPI (mpicc.openmpi) is not installed");
    }
    found.map(|mpicc| Mpi { mpicc })
}

impl Mpi {
    /// Compiles a program of `tests/mpi/programs`.
    pub fn compile(&self, name: &str, into: &Path) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/programs");
        let program = into.join(name);
        let mut mpicc = Command::new(&self.mpicc);
        mpicc.args(["-O2", "-Wall", "-Werror", "-o"]).arg(&program);
        let done =
            mpicc.arg(source.join(format!("{name}.c"))).arg("-lm").output().expect("mpicc runs");
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        program
    }
}
