//! The MPIs that are installed here, and programs compiled with them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI, and how its programs are started.
#[derive(Debug)]
pub struct Mpi {
    mpicc: PathBuf,
    /// Whose `bin/` is to come first in PATH, unless the MPI is found by itself.
    folder: Option<PathBuf>,
    /// How `taffrail` starts a program with our launcher.
    pub start: &'static [&'static str],
}

/// MPICH 5, or a line that says that something is left out.
pub fn mpich() -> Option<Mpi> {
    let folder = std::env::var_os("TAFFRAIL_TEST_MPICH").map(PathBuf::from);
    let found = folder.map(|folder| folder.join("bin/mpicc")).filter(|mpicc| mpicc.is_file());
    if found.is_none() {
        eprintln!("skipped: TAFFRAIL_TEST_MPICH does not name a folder with MPICH 5");
    }
    found.map(|mpicc| Mpi { mpicc, folder: None, start: &["run"] })
}

/// Open MPI, or a line that says that something is left out.
pub fn open_mpi() -> Option<Mpi> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("mpicc.openmpi"));
    let found = all.find(|mpicc| mpicc.is_file());
    if found.is_none() {
        eprintln!("skipped: Open MPI (mpicc.openmpi) is not installed");
    }
    found.map(|mpicc| Mpi { mpicc, folder: None, start: &["run"] })
}

/// An MPI of another version or maker, by what `taffrail mpi` calls it, or a line that says that it is left
/// out. Intel's runs the programs of MPICH 5.
pub fn other(which: &str) -> Option<Mpi> {
    let start: &[&str] = match which {
        "mpich" => &["mpi", "--mpi", "mpich"],
        "openmpi" => &["mpi", "--mpi", "openmpi"],
        "intel" => &["mpi", "--mpi", "intel"],
        _ => panic!("no such MPI: {which}"),
    };
    let all = std::env::var_os("TAFFRAIL_TEST_OTHER_MPIS").map(PathBuf::from);
    let folder = all.map(|all| all.join(which));
    let Some(folder) = folder.filter(|folder| folder.join("bin/mpiexec").is_file()) else {
        eprintln!("skipped: TAFFRAIL_TEST_OTHER_MPIS does not name a folder with another {which}");
        return None;
    };
    let mpicc = match which {
        "intel" => mpich()?.mpicc,
        _ => folder.join("bin/mpicc"),
    };
    Some(Mpi { mpicc, folder: Some(folder), start })
}

/// All of them.
#[allow(dead_code)]
pub fn all() -> impl Iterator<Item = Mpi> {
    let others = ["mpich", "openmpi", "intel"].into_iter().map(other);
    [mpich(), open_mpi()].into_iter().chain(others).flatten()
}

impl Mpi {
    /// Has a command find it.
    pub fn choose<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let Some(folder) = &self.folder else { return command };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder.join("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).expect("no colon in its path"))
    }

    /// What compiles programs for it.
    #[allow(dead_code)]
    pub fn compiler(&self) -> &Path {
        &self.mpicc
    }

    /// Compiles a program, with these options, into a folder.
    pub fn compile(&self, source: &Path, into: &Path, options: &[&str]) -> PathBuf {
        let name = source.file_stem().expect("a file");
        let program = into.join(name);
        let mut mpicc = Command::new(&self.mpicc);
        mpicc.args(options).arg("-o").arg(&program);
        let done = mpicc.arg(source).args(["-lm", "-pthread"]).output().expect("mpicc runs");
        assert!(done.status.success(), "{name:?}: {}", String::from_utf8_lossy(&done.stderr));
        program
    }

    /// Compiles a program of `tests/mpi/programs`.
    #[allow(dead_code)]
    pub fn compile_ours(&self, name: &str, into: &Path) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/programs");
        self.compile(&folder.join(format!("{name}.c")), into, &["-O2", "-Wall", "-Werror"])
    }
}
