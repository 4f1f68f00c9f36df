//! MPICH 5, and mpi4py with its tests, in a virtual environment under `target/`. They are fetched once.

use crate::command::run;
use crate::place::Place;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed, as pip names it.
const MPICH: &str = "mpich==5.0.2";
const MPI4PY: &str = "mpi4py==4.1.2";

/// Written last, with what was installed.
const DONE: &str = "installed";

/// The virtual environment: `bin/mpicc`, `bin/mpiexec`, `bin/python`.
pub fn folder(place: &Place) -> PathBuf {
    place.build("mpi").join("venv")
}

/// The sources of mpi4py, with its tests.
pub fn mpi4py(place: &Place) -> PathBuf {
    folder(place).join("mpi4py")
}

/// Whether it is there.
pub fn installed(place: &Place) -> bool {
    let done = std::fs::read_to_string(folder(place).join(DONE));
    done.is_ok_and(|done| done == format!("{MPICH} {MPI4PY}"))
}

/// Installs it, unless it is there.
///
/// # Errors
/// The line to type, when that fails.
pub fn prepare(place: &Place) -> Result<(), String> {
    if installed(place) {
        return Ok(());
    }
    let folder = folder(place);
    // What is there is another version, or half of one.
    let _ = std::fs::remove_dir_all(&folder);
    match install(&folder) {
        true => Ok(()),
        false => Err(format!(
            "python3 -m venv {0} && {0}/bin/pip install {MPICH} {MPI4PY} to see why it fails, then \
             again: cargo xtask test --only tools",
            folder.display()
        )),
    }
}

fn install(folder: &Path) -> bool {
    let pip = |words: &[&str]| {
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(words).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        run(&mut pip).ok
    };
    let sources = folder.join("sources");
    let Some(to) = sources.to_str() else { return false };
    // The wheel of mpi4py has modules for MPICH and for Open MPI; only the sources have its tests.
    run(Command::new("python3").args(["-m", "venv"]).arg(folder)).ok
        && pip(&["install", "--quiet", "--only-binary", ":all:", MPICH, MPI4PY])
        && pip(&["download", "--quiet", "--no-deps", "--no-binary", "mpi4py", "-d", to, MPI4PY])
        && unpack(&sources, folder)
        && std::fs::write(folder.join(DONE), format!("{MPICH} {MPI4PY}")).is_ok()
}

/// Unpacks the one archive in `sources` into `folder/mpi4py`.
fn unpack(sources: &Path, folder: &Path) -> bool {
    let Ok(mut files) = std::fs::read_dir(sources) else { return false };
    let Some(Ok(archive)) = files.next() else { return false };
    let archive = archive.path();
    let mut python = Command::new(folder.join("bin/python"));
    let unpacked = run(python.args(["-m", "tarfile", "-e"]).arg(&archive).arg(sources)).ok;
    let name = MPI4PY.replace("==", "-");
    unpacked && std::fs::rename(sources.join(name), folder.join("mpi4py")).is_ok()
}
